"""ResNet: residual units in stages of decreasing resolution."""

from __future__ import annotations

from functools import partial
from itertools import accumulate
from operator import mul

from torch import Tensor, nn

from weft.blocks.activation import ReLU
from weft.blocks.conv.convolution import Convolution
from weft.blocks.conv.pooling import MaxPool2d
from weft.blocks.conv.residual import BasicUnit
from weft.core.contracts import Backbone, ConvUnit, FeatureNorm, FeaturePooling, pooling_stride
from weft.core.fields import ImageField
from weft.core.options import Count, Dim, Layers
from weft.core.registry import Build, block


@block("resnet")
class ResNet(Backbone):
    """ResNet: a stem, then stages of residual units; each stage after the first halves the resolution.

    x_0 = pool(stem(image)),  x_s = unit_n(... unit_1(x_s-1)), where unit_1 has stride 2 from the second stage on

    The feature maps are the x_s. The CIFAR form, for images of 32 x 32 pixels, has a 3 x 3 stem with stride 1 and no pooling.

    He et al. 2016, https://arxiv.org/abs/1512.03385

    Args:
        layers: Number of units in each stage.
        dims: Channels of each stage.
        unit: The residual unit, such as basic, bottleneck or pre-activation; plain has no shortcut.
        stem: The first convolution.
        stem_dim: Channels of the stem.
        stem_stride: Stride of the stem.
        pool: Pooling after the stem; None = none.
        norm: Normalization and ReLU after the last stage, for pre-activation units; None = none.

    Example:
        >>> import torch
        >>> network = ResNet(ImageField("image", 3, 32, 32), layers=[1, 1], dims=[8, 16])
        >>> [tuple(maps.shape) for maps in network(torch.ones(2, 3, 32, 32))], network.strides
        ([(2, 8, 8, 8), (2, 16, 4, 4)], (4, 8))
    """

    def __init__(
        self,
        field: ImageField,
        *,
        layers: list[Layers] = [2, 2, 2, 2],
        dims: list[Dim] = [64, 128, 256, 512],
        unit: Build[ConvUnit] = BasicUnit,
        stem: Build[ConvUnit] = partial(Convolution, kernel_size=7),
        stem_dim: Dim = 64,
        stem_stride: Count = 2,
        pool: Build[FeaturePooling] | None = partial(MaxPool2d, kernel_size=3, stride=2, padding=1),
        norm: Build[FeatureNorm] | None = None,
    ):
        super().__init__(field)
        if len(layers) != len(dims) or not dims:
            raise ValueError(f"layers has {len(layers)} stages and dims {len(dims)}; both need one number for each stage")
        self.stem = stem(field.channels, stem_dim, stem_stride)
        self.pool = None if pool is None else pool()
        before, first = stem_dim, stem_stride * (1 if self.pool is None else pooling_stride(self.pool))
        self.stages = nn.ModuleList()
        for number, (units, dim) in enumerate(zip(layers, dims, strict=True)):
            strides = [1 if number == 0 else 2, *[1] * (units - 1)]
            channels = [before, *[dim] * (units - 1)]
            self.stages.append(nn.Sequential(*(unit(c, dim, s) for c, s in zip(channels, strides, strict=True))))
            before = dim
        self.norm = None if norm is None else nn.Sequential(norm(before), ReLU())
        self.set_stages(dims, list(accumulate([2] * (len(dims) - 1), mul, initial=first)))

    def feature_maps(self, x_BCHW: Tensor) -> list[Tensor]:
        x_BCHW = self.stem(x_BCHW)
        x_BCHW = x_BCHW if self.pool is None else self.pool(x_BCHW)
        maps: list[Tensor] = []
        for stage in self.stages:
            x_BCHW = stage(x_BCHW)
            maps.append(x_BCHW)
        return maps if self.norm is None else [*maps[:-1], self.norm(maps[-1])]
