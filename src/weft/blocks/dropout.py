"""Dropout with masks that are fast to sample on a CPU."""

from __future__ import annotations

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

LEVELS = 2**16
"""An element is dropped if 16 random bits are below rate * LEVELS, rounded: probabilities are exact to 1 / 131072."""


class DropoutLayer(nn.Dropout):
    """Dropout: zeroes elements at random in training and scales the others so that the mean is preserved.

    y = x m / (1 - rate),  m ~ Bernoulli(1 - rate)

    torch samples a float per element, which takes several times as long on a CPU. This layer samples 16 random bits per element
    from the same generator: the same seed gives the same mask for any number of threads.

    Srivastava et al. 2014, https://jmlr.org/papers/v15/srivastava14a.html

    Args:
        rate: Dropout probability.

    Example:
        >>> layer = DropoutLayer(0.5)
        >>> sorted(set(layer(torch.ones(100)).tolist()))
        [0.0, 2.0]
        >>> layer.eval()(torch.ones(2)).tolist()
        [1.0, 1.0]
    """

    def __init__(self, rate: float):
        super().__init__(rate)

    def forward(self, input: Tensor) -> Tensor:
        return dropout(input, self.p) if self.training else input


def dropout(x: Tensor, rate: float) -> Tensor:
    """Functional form of ``DropoutLayer`` in training mode."""
    if rate == 0.0 or x.numel() == 0:
        return x
    if not is_eager_cpu(x):  # compilers and other devices have fast kernels of their own
        return F.dropout(x, rate)
    # At least float32, so that a lower precision does not round the scale.
    return (x * _scaled_mask(x.shape, rate, torch.promote_types(x.dtype, torch.float32))).to(x.dtype)


def is_eager_cpu(x: Tensor) -> bool:
    """Whether ``x`` is a plain tensor in CPU memory outside of ``torch.compile``, so that its values can be read without cost."""
    return x.device.type == "cpu" and not torch.compiler.is_compiling() and type(x) in (Tensor, nn.Parameter)


def _scaled_mask(shape: torch.Size, rate: float, dtype: torch.dtype) -> Tensor:
    """1 / (1 - rate) for elements to keep, 0 for the others; the rounded rate is used, so that the mean is exact."""
    threshold = min(round(rate * LEVELS), LEVELS - 1)
    size = shape.numel()
    bits = torch.empty(-(-size // 4), dtype=torch.int64).random_(-(2**63), None).numpy().view(np.uint16)[:size]
    # numpy compares and converts with vector instructions, torch element by element.
    scale = np.array(LEVELS / (LEVELS - threshold), np.float64 if dtype == torch.float64 else np.float32)
    return torch.from_numpy(np.multiply(bits >= threshold, scale, dtype=scale.dtype)).view(shape)
