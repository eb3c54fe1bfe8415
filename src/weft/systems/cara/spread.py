"""How far vectors lie apart. P width of the vectors; other suffixes: see seq.py."""

from __future__ import annotations

import math

from torch import Tensor


class Spread:
    """The total variance of vectors that come batch by batch: sum_p var(z_p), near 0 where all have become one.

    >>> import torch
    >>> spread = Spread()
    >>> for row in torch.tensor([[1.0, 0.0], [-1.0, 0.0]]):
    ...     spread.add(row[None])
    >>> spread.variance()
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
