"""Texts decoded from samples of the prior, and their diversity. P latent dimensions; other suffixes: see seq.py."""

from __future__ import annotations

from collections.abc import Mapping
from typing import cast

import torch
from torch import Tensor

from weft.core.contracts import Decodes, EvaluationContext, Latent, Metric, Search, TextAutoencoder
from weft.core.fields import Info, LabelField, TextField
from weft.core.options import Count, Natural
from weft.core.registry import Build, block
from weft.core.seeding import key
from weft.evaluate.distinct import distinct_texts
from weft.evaluate.forward_bleu import collapse_remarks
from weft.evaluate.ngrams import self_bleu
from weft.generate import GreedySearch


def sample_prior(model: TextAutoencoder, samples: int, label_N: Tensor | None = None, seed: int = 0) -> Tensor:
    """N x P latent codes, sampled from the prior of a model. The global random state is not changed.

    The k-th latent code depends only on the seed, k and its class.

    Args:
        model: A structure with the protocol ``Latent``.
        samples: N, the number of latent codes.
        label_N: Class indices, for models whose prior is class-conditional.
        seed: Random seed.
    """
    device = next(model.parameters()).device
    codes = [torch.zeros(0, model.latent, device=device)]
    with torch.random.fork_rng(devices=[device] if device.type == "cuda" else []):
        for row in range(samples):
            torch.manual_seed(key(seed, "prior", row) % 2**63)
            codes.append(model.prior(1, None if label_N is None else label_N[row : row + 1].to(device)).float())
    return torch.cat(codes)


def max_new_tokens(search: Search, target: TextField) -> int:
    """Return the maximum number of tokens decoded from a latent code: that of the training texts, and EOS."""
    return min(search.limit(target.max_length), target.max_length + 1)


@block("prior-samples")
class PriorSamples(Metric):
    """Diversity of texts decoded from samples of the prior, over all classes in turn; low diversity indicates mode collapse.

    prior_self_bleu: BLEU of each text against all others, 0..100;  prior_distinct: fraction of distinct texts

    The k-th text depends only on the seed and k.

    Self-BLEU: Zhu et al. 2018 (Texygen), https://arxiv.org/abs/1802.01886

    Args:
        samples: Number of samples; Self-BLEU grows with it.
        search: Decoding strategy.
        seed: Random seed of the samples.

    Example:
        >>> PriorSamples().remarks({"prior_self_bleu": 97.0, "prior_distinct": 0.1})[0][:24]
        'collapsed: texts decoded'
    """

    inputs = "model"
    needs = (Decodes, Latent)
    higher_is_better = {"prior_self_bleu": False, "prior_distinct": True}

    def __init__(self, *, samples: Count = 200, search: Build[Search] = GreedySearch, seed: Natural = 0):
        super().__init__()
        if samples < 2:
            raise ValueError(f"samples must be at least 2 for Self-BLEU, not {samples}; 200 is usual")
        self.samples, self.search, self.seed = samples, search(), seed

    def check(self, info: Info) -> None:
        info.text("target")  # raises an error if the data lacks the field

    def measure(self, context: EvaluationContext) -> dict[str, float]:
        model = cast(TextAutoencoder, context.model)
        info = context.codec.info
        target = info.text("target")
        label_N = torch.arange(self.samples) % info.expect("label", LabelField).classes if model.samples_by_label else None
        z_NP, texts = sample_prior(model, self.samples, label_N, self.seed), list[str]()
        batch_size = max(1, context.batch_tokens // (target.max_length + 1))
        limit = max_new_tokens(self.search, target)
        for first in range(0, self.samples, batch_size):
            rows = range(self.samples)[first : first + batch_size]
            label_B = None if label_N is None else label_N[first : first + batch_size].to(context.device)
            memory = model.memory_from(z_NP[first : first + batch_size], label_B)
            found = self.search(model, memory, limits=[limit] * len(rows), keys=list(rows))
            texts += [context.codec.decode(info.target, best[0].ids) for best in found]
        return {"prior_self_bleu": self_bleu(texts).score, "prior_distinct": distinct_texts(texts)}

    def remarks(self, metric_values: Mapping[str, float]) -> list[str]:
        return collapse_remarks("texts decoded from the prior", metric_values["prior_self_bleu"], metric_values["prior_distinct"])

    def signature(self) -> str:
        return f"texts:{self.samples}|seed:{self.seed}|BLEU-4|tok:none|smooth:none"
