"""How far vectors lie apart. P width of the vectors; other suffixes: see seq.py."""

from __future__ import annotations

import math

from torch import Tensor


class RunningVariance:
    """The total variance of vectors that come batch by batch: sum_p var(z_p), near 0 where all have become one.

    >>> import torch
    >>> running = RunningVariance()
    >>> for row in torch.tensor([[1.0, 0.0], [-1.0, 0.0]]):
    ...     running.add(row[None])
    >>> running.variance()
    1.0
    """

    def __init__(self):
        self.rows = 0
        self.sum_P: Tensor | None = None
        self.square: Tensor | None = None

    def add(self, z_BP: Tensor) -> None:
        z_BP = z_BP.detach().double()
        self.sum_P = z_BP.sum(0) + (0 if self.sum_P is None else self.sum_P)
        self.square = (z_BP**2).sum() + (0 if self.square is None else self.square)
        self.rows += len(z_BP)

    def variance(self) -> float:
        """Not a number where there was no vector."""
        if self.sum_P is None or self.square is None:
            return math.nan
        return max(0.0, float(self.square / self.rows - ((self.sum_P / self.rows) ** 2).sum()))


class LatentVariances:
    """The running of texts and of made places, in the evaluation that goes on or was just over.

    An objective is told that an evaluation begins and ends by its mode, and is asked for figures after that.
    """

    def __init__(self):
        self.now, self.before = (RunningVariance(), RunningVariance()), (RunningVariance(), RunningVariance())

    def turn(self) -> None:
        """The mode was set: what comes now is another evaluation, if there is one."""
        if self.now[0].rows:
            self.now, self.before = (RunningVariance(), RunningVariance()), self.now

    def add(self, text_BP: Tensor, fake_BP: Tensor) -> None:
        self.now[0].add(text_BP)
        self.now[1].add(fake_BP)

    def metric_values(self) -> dict[str, float]:
        text, made = self.now if self.now[0].rows else self.before
        self.now, self.before = (RunningVariance(), RunningVariance()), (RunningVariance(), RunningVariance())
        return {"variance": text.variance(), "fake_variance": made.variance()}
