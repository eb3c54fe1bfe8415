"""Denoising pretraining. N targets."""

from __future__ import annotations

from typing import Any

import numpy as np

from weft.core.batch import Batch, Clock, Instance
from weft.core.contracts import Noise, Objective, Reconstructs, require
from weft.core.example import Example, ids_of
from weft.core.fields import Info
from weft.core.loss import Loss
from weft.core.options import Fraction
from weft.core.registry import Build, block
from weft.objectives.next_token import next_tokens
from weft.objectives.noise import RandomSpans, ordinary_positions


@block("denoising")
class Denoising(Objective[Reconstructs]):
    """Denoising autoencoder: corrupt a text and generate the original, or the corrupted tokens.

    loss = - sum_t log p(y_t | y_<t, x~), with the corrupted source x~ and the target y of the noise; the count is the number of
    target tokens.

    Raffel et al. 2020 (T5), https://arxiv.org/abs/1910.10683; Lewis et al. 2020 (BART), https://arxiv.org/abs/1910.13461

    Args:
        noise: Noising function, which defines source and target.
        label_smoothing: Probability mass that is spread over the vocabulary.

    Example:
        >>> from weft.core.fields import TextField
        >>> objective = Denoising(Info({"text": TextField("text", vocab=60, max_length=64, sentinel_count=20)}), 8)
        >>> sorted(objective.prepare({"text": np.arange(7, 27)}, np.random.default_rng(0), None))
        ['input', 'picks', 'source']
    """

    needs = (Reconstructs,)

    def __init__(self, info: Info, dim: int, *, noise: Build[Noise] = RandomSpans, label_smoothing: Fraction = 0.0):
        super().__init__(info, dim)
        self.text = info.text("text" if "text" in info else info.target)
        self.noise, self.smoothing = noise(), label_smoothing
        self.noise.check(self.text)

    def prepare(self, example: Example, rng: np.random.Generator, pool: Any) -> Instance | None:
        text = example[self.text.name]
        ids = ids_of(text)
        if len(ordinary_positions(ids, self.text)) < 2:
            return None
        corrupted = self.noise.corrupt(ids, rng, self.text)
        targets = next_tokens(corrupted.target, self.text, conditional=True)
        return Instance(source=self.text.frame.around([corrupted.source]), **targets)

    def counts(self, batch: Batch) -> dict[str, int]:
        return {"loss": len(batch["picks"])}

    def forward(self, model: Reconstructs, batch: Batch, clock: Clock) -> Loss:
        require(self, model)
        hidden = model.decode(batch["input"], model.memory(batch)).hidden
        picks: Any = batch["picks"]
        nll_N = model.head.nll(picks.gather(hidden), picks.target_N, self.smoothing if self.training else 0.0)
        return Loss.of(nll_N.sum(), len(picks))
