"""Prefix language modeling. N targets."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from weft.core.batch import Batch, Clock, Instance
from weft.core.contracts import ModelsLanguage, Objective
from weft.core.example import Example, Targets, ids_of, surround
from weft.core.fields import Info
from weft.core.loss import Loss
from weft.core.masks import Prefix
from weft.core.options import Fraction
from weft.core.registry import block


@block("prefix-lm")
class PrefixLM(Objective[ModelsLanguage]):
    """Prefix language modeling: bidirectional attention in a random prefix, next-token prediction after it.

    loss = - sum_(t > n) log p(y_t | y_<t), with full attention among the first n tokens, n uniform; the count is the number of
    predicted tokens, with EOS.

    Liu et al. 2018, https://arxiv.org/abs/1801.10198; Raffel et al. 2020 (T5), section 3.2.1

    Args:
        label_smoothing: Probability mass that is spread over the vocabulary.

    Example:
        >>> from weft.core.fields import TextField
        >>> objective = PrefixLM(Info({"text": TextField("text", vocab=30)}), 8)
        >>> instance = objective.prepare({"text": np.arange(7, 17)}, np.random.default_rng(0), None)
        >>> instance["prefix"] + len(instance["picks"].ids) == 12  # with BOS in the prefix, and EOS
        True
    """

    needs = (ModelsLanguage,)
    higher_is_better = {"perplexity": False}

    def __init__(self, info: Info, dim: int, *, label_smoothing: Fraction = 0.0):
        super().__init__(info, dim)
        self.text = info.text("text" if "text" in info else info.target)
        self.smoothing = label_smoothing

    def prepare(self, example: Example, rng: np.random.Generator, pool: Any) -> Instance | None:
        text = example[self.text.name]
        ids = ids_of(text)
        if len(ids) < 2:
            return None
        prefix = int(rng.integers(1, len(ids))) + 1  # with BOS
        targets = np.append(ids, self.text.special.eos)
        picks = Targets("input", np.arange(prefix - 1, len(ids) + 1), targets[prefix - 1 :])
        return Instance(input=surround([self.text.special.bos], text, []), picks=picks, prefix=prefix)

    def counts(self, batch: Batch) -> dict[str, int]:
        return {"loss": len(batch["picks"])}

    def forward(self, model: ModelsLanguage, batch: Batch, clock: Clock) -> Loss:
        picks: Any = batch["picks"]
        hidden = model.decode(batch["input"], None, Prefix(batch["prefix"])).hidden
        nll_N = model.head.nll(picks.gather(hidden), picks.target_N, self.smoothing if self.training else 0.0)
        return Loss.of(nll_N.sum(), len(picks))

    def metric_values(self, means: Mapping[str, float]) -> dict[str, float]:
        return {"perplexity": math.exp(min(means["loss"], 700.0))}
