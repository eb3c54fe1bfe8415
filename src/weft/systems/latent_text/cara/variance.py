"""Total variance of latent codes over an evaluation. P latent dimensions; other suffixes: see seq.py."""

from __future__ import annotations

import math

from torch import Tensor


class RunningVariance:
    """Total variance of vectors, accumulated batch by batch: sum_p var(z_p). Near 0 for collapsed latent codes.

    Example:
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
        """Add a batch of vectors."""
        z_BP = z_BP.detach().double()
        self.sum_P = z_BP.sum(0) + (0 if self.sum_P is None else self.sum_P)
        self.square = (z_BP**2).sum() + (0 if self.square is None else self.square)
        self.rows += len(z_BP)

    def variance(self) -> float:
        """Return the total variance; NaN without vectors."""
        if self.sum_P is None or self.square is None:
            return math.nan
        return max(0.0, float(self.square / self.rows - ((self.sum_P / self.rows) ** 2).sum()))


class LatentVariances:
    """Variances of real and generated latent codes in the current or last evaluation.

    An evaluation starts and ends when the mode of the objective is set (``train``, ``eval``); metric values are read after its
    end.
    """

    def __init__(self):
        self.current, self.previous = _pair(), _pair()

    def start(self) -> None:
        """Start a new evaluation, if the current one has vectors."""
        if self.current[0].rows:
            self.current, self.previous = _pair(), self.current

    def add(self, real_BP: Tensor, fake_BP: Tensor) -> None:
        """Add a batch of real and generated latent codes."""
        self.current[0].add(real_BP)
        self.current[1].add(fake_BP)

    def metric_values(self) -> dict[str, float]:
        """Return both variances and reset."""
        real, fake = self.current if self.current[0].rows else self.previous
        self.current, self.previous = _pair(), _pair()
        return {"variance": real.variance(), "fake_variance": fake.variance()}


def _pair() -> tuple[RunningVariance, RunningVariance]:
    return RunningVariance(), RunningVariance()
