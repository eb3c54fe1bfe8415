"""Inception: parallel branches of different kernel sizes, concatenated."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import torch
from torch import Tensor, nn

from weft.blocks.conv.batch_norm import BatchNorm2d
from weft.blocks.conv.convolution import Convolution
from weft.blocks.conv.pooling import MaxPool2d
from weft.core.contracts import FeatureLayer, FeatureNorm
from weft.core.options import Dim, KernelSide
from weft.core.registry import Build, block


class Branches(nn.Module):
    """Branches over the same feature maps; their outputs are concatenated along the channels."""

    def __init__(self, branches: Sequence[nn.Module]):
        super().__init__()
        self.branches = nn.ModuleList(branches)

    def forward(self, x_BCHW: Tensor) -> Tensor:
        return torch.cat([branch(x_BCHW) for branch in self.branches], 1)


@block("inception")
class Inception(FeatureLayer):
    """Inception module: 1 x 1, 3 x 3 and 5 x 5 convolutions and max pooling side by side, concatenated.

    y = [W_1 * x; W_3 * (R_3 * x); W_5 * (R_5 * x); W_p * maxpool(x)], each convolution with normalization and ReLU

    The 1 x 1 convolutions R reduce the number of channels before the larger kernels. Height and width stay.

    Szegedy et al. 2015 (GoogLeNet), https://arxiv.org/abs/1409.4842

    Args:
        dim_1: Channels of the 1 x 1 branch.
        reduce_3: Channels of R_3.
        dim_3: Channels of the 3 x 3 branch.
        reduce_5: Channels of R_5.
        dim_5: Channels of the 5 x 5 branch.
        dim_pool: Channels of the pooling branch.
        kernel_size: Kernel size of the 5 x 5 branch; 3 in the weights of torchvision.
        norm: Normalization after each convolution; None = none, as in the paper.

    Example:
        >>> layer = Inception(192)
        >>> layer.out, layer(torch.ones(1, 192, 4, 4)).shape
        (256, torch.Size([1, 256, 4, 4]))
    """

    def __init__(
        self,
        channels: int,
        *,
        dim_1: Dim = 64,
        reduce_3: Dim = 96,
        dim_3: Dim = 128,
        reduce_5: Dim = 16,
        dim_5: Dim = 32,
        dim_pool: Dim = 32,
        kernel_size: KernelSide = 5,
        norm: Build[FeatureNorm] | None = BatchNorm2d,
    ):
        super().__init__(channels)
        unit = partial(Convolution, norm=norm)
        self.branches = Branches(
            [
                nn.Sequential(unit(channels, dim_1, 1, kernel_size=1)),
                nn.Sequential(unit(channels, reduce_3, 1, kernel_size=1), unit(reduce_3, dim_3, 1)),
                nn.Sequential(unit(channels, reduce_5, 1, kernel_size=1), unit(reduce_5, dim_5, 1, kernel_size=kernel_size)),
                nn.Sequential(MaxPool2d(kernel_size=3, stride=1, padding=1), unit(channels, dim_pool, 1, kernel_size=1)),
            ]
        )
        self.out = dim_1 + dim_3 + dim_5 + dim_pool

    def forward(self, x_BCHW: Tensor) -> Tensor:
        return self.branches(x_BCHW)
