"""Batch normalization of feature maps B x C x H x W."""

from __future__ import annotations

from torch import Tensor

from weft.blocks.norm import BatchStatistics
from weft.core.contracts import FeatureNorm
from weft.core.options import Fraction, Positive
from weft.core.registry import block


@block("batch-norm")
class BatchNorm2d(FeatureNorm, BatchStatistics):
    """Batch normalization of feature maps: mean 0 and variance 1 of each channel over all positions of a batch.

    y_c = (x_c - mean_BHW(x_c)) / sqrt(var_BHW(x_c) + eps) * weight_c + bias_c

    In evaluation mode, and where a channel has a single value, the running mean and variance of training are used.

    Ioffe and Szegedy 2015, https://arxiv.org/abs/1502.03167

    Args:
        momentum: Weight of the current batch in the running mean and variance.
        eps: Added to the variance for numerical stability.

    Example:
        >>> import torch
        >>> BatchNorm2d(1)(torch.tensor([[[[1.0, 3.0]]]])).round().tolist()
        [[[[-1.0, 1.0]]]]
    """

    def __init__(self, channels: int, *, momentum: Fraction = 0.1, eps: Positive = 1e-5):
        super().__init__(channels)
        self.add_statistics(channels, momentum, eps)

    def forward(self, x_BCHW: Tensor) -> Tensor:
        return self.normalize(x_BCHW)
