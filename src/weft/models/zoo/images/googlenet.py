"""GoogLeNet: stages of Inception modules."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

from torch import Tensor, nn

from weft.blocks import BatchNorm2d, Convolution, Inception, MaxPool2d
from weft.core.contracts import Backbone, FeatureNorm
from weft.core.fields import ImageField
from weft.core.options import KernelSide, Positive
from weft.core.registry import Build, block
from weft.models.zoo.images.published import register_networks
from weft.models.zoo.tensor_names import Rule, rules

MODULES = (
    {"3a": (64, 96, 128, 16, 32, 32), "3b": (128, 128, 192, 32, 96, 64)},
    {
        "4a": (192, 96, 208, 16, 48, 64),
        "4b": (160, 112, 224, 24, 64, 64),
        "4c": (128, 128, 256, 24, 64, 64),
        "4d": (112, 144, 288, 32, 64, 64),
        "4e": (256, 160, 320, 32, 128, 128),
    },
    {"5a": (256, 160, 320, 32, 128, 128), "5b": (384, 192, 384, 48, 128, 128)},
)
"""Szegedy et al. 2015, table 1: 1 x 1, 3 x 3 reduce, 3 x 3, 5 x 5 reduce, 5 x 5, pool proj."""


@block("googlenet")
class GoogLeNet(Backbone):
    """GoogLeNet: convolutions, then nine Inception modules in three stages.

    The feature maps are those of the first convolution, of the third, and of the last Inception module of each stage. Without the
    auxiliary classifiers of the paper. The defaults are those of the weights of torchvision: batch normalization, and 3 x 3
    kernels in place of 5 x 5.

    Szegedy et al. 2015, https://arxiv.org/abs/1409.4842

    Args:
        width: Factor of the numbers of channels.
        kernel_size: Kernel size of the 5 x 5 branches.
        norm: Normalization after each convolution; None = none, as in the paper.

    Example:
        >>> import torch
        >>> network = GoogLeNet(ImageField("image", 3, 64, 64), width=0.25)
        >>> [tuple(maps.shape[1:]) for maps in network(torch.ones(2, 3, 64, 64))]
        [(16, 32, 32), (48, 16, 16), (120, 8, 8), (208, 4, 4), (256, 2, 2)]
    """

    def __init__(
        self,
        field: ImageField,
        *,
        width: Positive = 1.0,
        kernel_size: KernelSide = 3,
        norm: Build[FeatureNorm] | None = partial(BatchNorm2d, eps=1e-3),
    ):
        super().__init__(field)
        unit, (first, second) = partial(Convolution, norm=norm), (scaled(64, width), scaled(192, width))
        self.stem = unit(field.channels, first, 2, kernel_size=7)
        self.convolutions = nn.Sequential(unit(first, first, 1, kernel_size=1), unit(first, second, 1))
        pool = partial(MaxPool2d, stride=2, ceil=True)
        self.pools = nn.ModuleList([pool(kernel_size=size) for size in (3, 3, 3, 2)])
        self.stages, channels = nn.ModuleList(), [first, second]
        for modules in MODULES:
            stage, before = list[Inception](), channels[-1]
            for dims in modules.values():
                a, b, c, d, e, f = (scaled(dim, width) for dim in dims)
                options = {"dim_1": a, "reduce_3": b, "dim_3": c, "reduce_5": d, "dim_5": e, "dim_pool": f}
                stage.append(Inception(before, kernel_size=kernel_size, norm=norm, **options))
                before = stage[-1].out
            self.stages.append(nn.Sequential(*stage))
            channels.append(before)
        self.set_stages(channels, [2, 4, 8, 16, 32])

    def feature_maps(self, x_BCHW: Tensor) -> list[Tensor]:
        maps = [self.stem(x_BCHW)]
        for pool, stage in zip(self.pools, (self.convolutions, *self.stages), strict=True):
            maps.append(stage(pool(maps[-1])))
        return maps


def scaled(dim: int, width: float) -> int:
    """A number of channels times the width factor.

    Example:
        >>> scaled(96, 0.25)
        24
    """
    return max(1, round(dim * width))


# --------------------------------------------------------------------------------------------------- published models


def _rules(network: Build[Backbone]) -> list[Rule]:
    paths = {"conv1": "stem", "conv2": "convolutions.0", "conv3": "convolutions.1"}
    for stage, modules in enumerate(MODULES):
        for number, name in enumerate(modules):
            ours = f"stages.{stage}.{number}.branches.branches"
            paths |= {f"inception{name}.branch1": f"{ours}.0.0", f"inception{name}.branch4.1": f"{ours}.3.1"}
            paths |= {f"inception{name}.branch{n}.{i}": f"{ours}.{n - 1}.{i}" for n in (2, 3) for i in (0, 1)}
    return convolution_rules(paths)


def convolution_rules(paths: Mapping[str, str]) -> list[Rule]:
    """Rules for convolutions with batch normalization, from their path in torchvision to that in our network."""
    named = {f"{theirs}.conv.weight": f"encoder.{ours}.convolution.weight" for theirs, ours in paths.items()}
    named |= {f"{theirs}.bn.*": f"encoder.{ours}.norm.*" for theirs, ours in paths.items()}
    return rules(named | {"fc.*": "classifier.out.*"})


register_networks("googlenet", {"googlenet": GoogLeNet}, _rules, ignored=("aux*",))
