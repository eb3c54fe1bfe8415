"""Texts drawn from a latent space, and how alike they are. P width of the space; other suffixes: see seq.py."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from weft.core.contracts import Decodes, EvaluationContext, Latent, Metric, Search
from weft.core.fields import Field, Info
from weft.core.options import Count, Natural
from weft.core.registry import Build, block
from weft.core.seeding import key
from weft.evaluate.distinct import distinct_texts
from weft.evaluate.forward_bleu import collapse_remarks
from weft.evaluate.ngrams import self_bleu
from weft.generate import GreedySearch


def places(model: Any, number: int, label_N: Tensor | None = None, seed: int = 0) -> Tensor:
    """N x P places drawn from a model's prior. The k-th depends on the seed, k and its class alone; nothing else that is drawn
    at random changes."""
    device = next(model.parameters()).device
    found = [torch.zeros(0, model.latent, device=device)]
    with torch.random.fork_rng(devices=[device] if device.type == "cuda" else []):
        for row in range(number):
            torch.manual_seed(key(seed, "prior", row) % 2**63)
            found.append(model.prior(1, None if label_N is None else label_N[row : row + 1].to(device)).float())
    return torch.cat(found)


def most_tokens(search: Search, target: Field) -> int:
    """How many tokens may be written at a place: no text that was learnt from has more, and its end."""
    return min(search.limit(target.max_length), target.max_length + 1)


@block("prior-samples")
class PriorSamples(Metric):
    """Texts written at places drawn from the prior, of all classes in turn: where they are all alike, the model has collapsed.

    prior_self_bleu: BLEU of each against all others, 0 to 100; prior_distinct: the share of different texts

    The k-th text depends on the seed and k alone.

    Self-BLEU: Zhu et al. 2018 (Texygen), https://arxiv.org/abs/1802.01886

    Args:
        number: How many are drawn; Self-BLEU grows with it.
        search: How they are written.
        seed: Another seed draws others.

    Example:
        >>> PriorSamples().remarks({"prior_self_bleu": 97.0, "prior_distinct": 0.1})[0][:24]
        'collapsed: the texts tha'
    """

    inputs = "model"
    needs = (Decodes, Latent)
    higher_is_better = {"prior_self_bleu": False, "prior_distinct": True}

    def __init__(self, *, number: Count = 200, search: Build[Search] = GreedySearch, seed: Natural = 0):
        super().__init__()
        if number < 2:
            raise ValueError(f"number is {number}, but texts are compared with each other: give two or more, 200 is usual")
        self.number, self.search, self.seed = number, search(), seed

    def check(self, info: Info) -> None:
        info["target"]  # raises where the data has it not

    def measure(self, context: EvaluationContext) -> dict[str, float]:
        model, info = context.model, context.codec.info
        label_N = torch.arange(self.number) % info["label"].vocab if model.samples_by_label else None
        z_NP, texts = places(model, self.number, label_N, self.seed), list[str]()
        most, limit = max(1, context.batch_tokens // (info["target"].max_length + 1)), most_tokens(self.search, info["target"])
        for first in range(0, self.number, most):
            rows = range(self.number)[first : first + most]
            label_B = None if label_N is None else label_N[first : first + most].to(context.device)
            memory = model.memory_from(z_NP[first : first + most], label_B)
            found = self.search(model, memory, limits=[limit] * len(rows), keys=list(rows))
            texts += [context.codec.decode(info.target, best[0].ids) for best in found]
        return {"prior_self_bleu": self_bleu(texts).score, "prior_distinct": distinct_texts(texts)}

    def remarks(self, metric_values: Mapping[str, float]) -> list[str]:
        return collapse_remarks("the texts that are drawn", metric_values["prior_self_bleu"], metric_values["prior_distinct"])

    def signature(self) -> str:
        return f"texts:{self.number}|seed:{self.seed}|BLEU-4|tok:none|smooth:none"
