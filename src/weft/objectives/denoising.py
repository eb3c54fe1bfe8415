"""Write what was done away with, or restore a text. N targets."""

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
from weft.objectives.noise import RandomSpans, ordinary_places


@block("denoising")
class Denoising(Objective):
    """Do something to a text and write it as it was, or what is missing of it.

    loss = - sum_t log p(y_t | y_<t, x~), with x~ and y made of the text by the noise; the count is the number of targets.

    Raffel et al. 2020 (T5), https://arxiv.org/abs/1910.10683; Lewis et al. 2020 (BART), https://arxiv.org/abs/1910.13461

    Args:
        noise: What is done to the text, and what is to be written.
        label_smoothing: Share of the probability that is spread over the vocabulary.

    Example:
        >>> from weft.core.fields import Field
        >>> objective = Denoising(Info({"text": Field("text", vocab=60, length=64, spare=20)}), 8)
        >>> sorted(objective.prepare({"text": np.arange(7, 27)}, np.random.default_rng(0), None))
        ['input', 'picks', 'source']
    """

    needs = (Reconstructs,)

    def __init__(self, info: Info, dim: int, *, noise: Build[Noise] = RandomSpans, label_smoothing: Fraction = 0.0):
        super().__init__(info, dim)
        self.text = info["text"] if "text" in info else info[info.target]
        self.noise, self.smoothing = noise(), label_smoothing
        self.noise.check(self.text)

    def prepare(self, example: Example, rng: np.random.Generator, pool: Any) -> Instance | None:
        text = example[self.text.name]
        ids = ids_of(text)
        if len(ordinary_places(ids, self.text)) < 2:
            return None
        made = self.noise.corrupt(ids, rng, self.text)
        return Instance(source=self.text.frame.around([made.source]), **next_tokens(made.target, self.text, apart=True))

    def counts(self, batch: Batch) -> dict[str, int]:
        return {"loss": len(batch["picks"])}

    def forward(self, model: Any, batch: Batch, clock: Clock) -> Loss:
        require(self, model)
        hidden = model.decode(batch["input"], model.memory(batch)).hidden
        picks: Any = batch["picks"]
        nll_N = model.head.nll(picks.gather(hidden), picks.target_N, self.smoothing if self.training else 0.0)
        return Loss.of(nll_N.sum(), len(picks))
