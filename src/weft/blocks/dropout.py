"""Dropout whose masks cost little on a CPU. Any shape."""

from __future__ import annotations

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

LEVELS = 2**16
"""A number is dropped when 16 random bits are below rate * LEVELS, rounded: rates are exact to 1 / 131072."""


class DropoutLayer(nn.Dropout):
    """Zeroes a share of the numbers in training, and scales the rest so that the mean stays.

    y = x m / (1 - rate),  m = 0 with probability rate, else 1

    torch draws a random float for each number, which on a CPU takes several times as long. Here a mask is
    made of 16 random bits each, from the same generator: the same seed gives the same mask, whatever the number of threads.

    Srivastava et al. 2014, https://jmlr.org/papers/v15/srivastava14a.html

    Args:
        rate: Share of the numbers that training zeroes.

    Example:
        >>> drop = DropoutLayer(0.5)
        >>> sorted(set(drop(torch.ones(100)).tolist()))
        [0.0, 2.0]
        >>> drop.eval()(torch.ones(2)).tolist()
        [1.0, 1.0]
    """

    def __init__(self, rate: float):
        super().__init__(rate)

    def forward(self, input: Tensor) -> Tensor:
        return dropout(input, self.p) if self.training else input


def dropout(x: Tensor, rate: float) -> Tensor:
    """As ``DropoutLayer`` in training, for once."""
    if rate == 0.0 or x.numel() == 0:
        return x
    if not is_eager_cpu(x):  # compilers and other devices have good kernels of their own
        return F.dropout(x, rate)
    # In single precision at least, so that a low one does not round the scale.
    return (x * _kept(x.shape, rate, torch.promote_types(x.dtype, torch.float32))).to(x.dtype)


def is_eager_cpu(x: Tensor) -> bool:
    """Whether the numbers can be looked at for nothing: not while compiling, not on another device, not where there are none."""
    return x.device.type == "cpu" and not torch.compiler.is_compiling() and type(x) in (Tensor, nn.Parameter)


def _kept(shape: torch.Size, rate: float, kind: torch.dtype) -> Tensor:
    """1 / (1 - rate) where a number is kept, else 0; the rate is the rounded one, so that the mean is exact."""
    below = min(round(rate * LEVELS), LEVELS - 1)
    size = shape.numel()
    bits = torch.empty(-(-size // 4), dtype=torch.int64).random_(-(2**63), None).numpy().view(np.uint16)[:size]
    # numpy compares and converts with vector instructions where torch takes a number at a time.
    scale = np.array(LEVELS / (LEVELS - below), np.float64 if kind == torch.float64 else np.float32)
    return torch.from_numpy(np.multiply(bits >= below, scale, dtype=scale.dtype)).view(shape)
