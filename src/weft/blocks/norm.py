"""Normalization of vectors. Shape suffixes: D features after any leading shape, N rows."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from weft.core.contracts import BatchNormalization, Norm
from weft.core.options import Fraction, Positive
from weft.core.registry import block


@block("layer-norm")
class LayerNorm(Norm):
    """Layer normalization: mean 0 and variance 1 over the features of each vector, then a learned scale and shift.

    y = (x - mean(x)) / sqrt(var(x) + eps) * weight + bias

    Ba et al. 2016, https://arxiv.org/abs/1607.06450

    Args:
        eps: Added to the variance for numerical stability.

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
    """Root mean square normalization over the features of each vector, then a learned scale.

    y = x / sqrt(mean(x^2) + eps) * weight

    Zhang and Sennrich 2019, https://arxiv.org/abs/1910.07467

    Args:
        eps: Added to the mean square for numerical stability.

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


@block("unit-norm")
class UnitNorm(Norm):
    """L2 normalization: each vector is scaled to norm 1.

    y = x / max(|x|, eps)

    For latent codes of an autoencoder: Zhao et al. 2018 (ARAE), https://arxiv.org/abs/1706.04223

    Args:
        eps: Lower bound of the norm to divide by.

    Example:
        >>> import torch
        >>> UnitNorm(2)(torch.tensor([[3.0, 4.0]])).tolist()
        [[0.6000000238418579, 0.800000011920929]]
    """

    def __init__(self, dim: int, *, eps: Positive = 1e-6):
        super().__init__(dim)
        self.eps = eps

    def forward(self, x_D: Tensor) -> Tensor:
        return F.normalize(x_D, dim=-1, eps=self.eps)


class BatchStatistics(nn.Module):
    """Scale, shift and running statistics of batch normalization, for any number of dimensions after the features."""

    running_mean: Tensor
    running_var: Tensor

    def add_statistics(self, dim: int, momentum: float, eps: float) -> None:
        """Add the parameters and buffers; called once, by the constructor."""
        self.momentum, self.eps = momentum, eps
        self.weight = nn.Parameter(torch.ones(dim))
        self.bias = nn.Parameter(torch.zeros(dim))
        self.register_buffer("running_mean", torch.zeros(dim))
        self.register_buffer("running_var", torch.ones(dim))

    def normalize(self, x_ND: Tensor) -> Tensor:
        """Normalize each feature, which is dimension 1. A single value per feature has no variance of its own."""
        batch_statistics = self.training and x_ND.numel() > x_ND.shape[1]
        mean, var = self.running_mean, self.running_var
        return F.batch_norm(x_ND, mean, var, self.weight, self.bias, batch_statistics, self.momentum, self.eps)


@block("batch-norm")
class BatchNorm(BatchNormalization, BatchStatistics):
    """Batch normalization: mean 0 and variance 1 of each feature over the rows of a batch, then a learned scale and shift.

    y = (x - mean_N(x)) / sqrt(var_N(x) + eps) * weight + bias

    In evaluation mode, and for a batch of one row, the running mean and variance of training are used.

    Ioffe and Szegedy 2015, https://arxiv.org/abs/1502.03167

    Args:
        momentum: Weight of the current batch in the running mean and variance.
        eps: Added to the variance for numerical stability.

    Example:
        >>> import torch
        >>> BatchNorm(1)(torch.tensor([[1.0], [3.0]])).round().tolist()
        [[-1.0], [1.0]]
    """

    def __init__(self, dim: int, *, momentum: Fraction = 0.1, eps: Positive = 1e-5):
        super().__init__(dim)
        self.add_statistics(dim, momentum, eps)

    def forward(self, x_D: Tensor) -> Tensor:
        return self.normalize(x_D.reshape(-1, x_D.shape[-1])).reshape(x_D.shape)
