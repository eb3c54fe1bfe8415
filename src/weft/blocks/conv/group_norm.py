"""Group normalization of feature maps B x C x H x W."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from weft.core.contracts import FeatureNorm
from weft.core.options import Count, Positive
from weft.core.registry import block


@block("group-norm")
class GroupNorm(FeatureNorm):
    """Group normalization: mean 0 and variance 1 over the positions and channels of a group, in each image on its own.

    y = (x - mean_group(x)) / sqrt(var_group(x) + eps) * weight_c + bias_c

    Independent of the batch, so training and evaluation do not differ. One group is layer normalization of the image; a group per
    channel is instance normalization.

    Wu and He 2018, https://arxiv.org/abs/1803.08494

    Args:
        groups: Number of groups; must divide the number of channels.
        eps: Added to the variance for numerical stability.

    Example:
        >>> import torch
        >>> GroupNorm(2, groups=1)(torch.tensor([[[[1.0]], [[3.0]]]])).round().flatten().tolist()
        [-1.0, 1.0]
    """

    def __init__(self, channels: int, *, groups: Count = 4, eps: Positive = 1e-5):
        super().__init__(channels)
        if channels % groups:
            raise ValueError(f"groups is {groups}, but it must divide the number of channels, {channels}; use a divisor of it")
        self.groups, self.eps = groups, eps
        self.weight = nn.Parameter(torch.ones(channels))
        self.bias = nn.Parameter(torch.zeros(channels))

    def forward(self, x_BCHW: Tensor) -> Tensor:
        return F.group_norm(x_BCHW, self.groups, self.weight, self.bias, self.eps)
