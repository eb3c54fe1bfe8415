"""Normalisation of vectors. Suffixes: D width; any leading shape."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from weft.catalog import block
from weft.choices import Positive
from weft.slots import Norm


@block("layer-norm")
class LayerNorm(Norm):
    """Mean 0 and variance 1 over the width, then a scale and a shift of each number.

    y = (x - mean(x)) / sqrt(var(x) + eps) * weight + bias

    Ba et al. 2016, https://arxiv.org/abs/1607.06450

    Args:
        eps: Added to the variance.

    Example:
        >>> import torch
        >>> LayerNorm(2)(torch.tensor([[1.0, 3.0]])).round().tolist()
        [[-1.0, 1.0]]
    """

    def __init__(self, dim: int, *, eps: Positive = 1e-5):
        super().__init__(dim)
        self.eps = eps
        self.weight = nn.Parameter(torch.ones(dim))
        self.bias = nn.Parameter(torch.zeros(dim))

    def forward(self, x_D: Tensor) -> Tensor:
        return F.layer_norm(x_D, self.weight.shape, self.weight, self.bias, self.eps)


@block("rms-norm")
class RMSNorm(Norm):
    """Root mean square 1 over the width, then a scale of each number.

    y = x / sqrt(mean(x^2) + eps) * weight

    Zhang and Sennrich 2019, https://arxiv.org/abs/1910.07467

    Args:
        eps: Added to the mean square.

    Example:
        >>> import torch
        >>> RMSNorm(2)(torch.tensor([[3.0, 3.0]])).round().tolist()
        [[1.0, 1.0]]
    """

    def __init__(self, dim: int, *, eps: Positive = 1e-6):
        super().__init__(dim)
        self.eps = eps
        self.weight = nn.Parameter(torch.ones(dim))

    def forward(self, x_D: Tensor) -> Tensor:
        return F.rms_norm(x_D, self.weight.shape, self.weight, self.eps)
