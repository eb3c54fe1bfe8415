"""Inception v3: Inception modules of factorized convolutions."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from typing import NamedTuple

from torch import Tensor, nn

from weft.blocks import AveragePool2d, BatchNorm2d, Convolution, MaxPool2d
from weft.blocks.conv.inception import Branches
from weft.core.contracts import Backbone, FeatureNorm
from weft.core.fields import ImageField
from weft.core.options import Positive
from weft.core.registry import Build, block
from weft.models.zoo.images.googlenet import convolution_rules, scaled
from weft.models.zoo.images.published import register_networks
from weft.models.zoo.tensor_names import Rule


class Unit(NamedTuple):
    """A convolution: its name in the weights of torchvision, channels, kernel (height, width) and stride.

    With stride 2 it has no padding.
    """

    name: str
    dim: int
    kernel: tuple[int, int] = (1, 1)
    stride: int = 1


class Split(tuple[Unit, ...]):
    """Convolutions over the same feature maps, concatenated."""


Branch = Sequence[Unit | Split | str]
"""A chain of convolutions; ``average`` and ``max`` are poolings."""
_ACROSS, _DOWN, _ROW, _COLUMN = (1, 7), (7, 1), (1, 3), (3, 1)


def _a(pool: int) -> list[Branch]:
    return [
        [Unit("branch1x1", 64)],
        [Unit("branch5x5_1", 48), Unit("branch5x5_2", 64, (5, 5))],
        [Unit("branch3x3dbl_1", 64), Unit("branch3x3dbl_2", 96, (3, 3)), Unit("branch3x3dbl_3", 96, (3, 3))],
        ["average", Unit("branch_pool", pool)],
    ]


_B: list[Branch] = [
    [Unit("branch3x3", 384, (3, 3), 2)],
    [Unit("branch3x3dbl_1", 64), Unit("branch3x3dbl_2", 96, (3, 3)), Unit("branch3x3dbl_3", 96, (3, 3), 2)],
    ["max"],
]


def _c(dim: int) -> list[Branch]:
    double = [("2", dim, _DOWN), ("3", dim, _ACROSS), ("4", dim, _DOWN), ("5", 192, _ACROSS)]
    return [
        [Unit("branch1x1", 192)],
        [Unit("branch7x7_1", dim), Unit("branch7x7_2", dim, _ACROSS), Unit("branch7x7_3", 192, _DOWN)],
        [Unit("branch7x7dbl_1", dim), *(Unit(f"branch7x7dbl_{n}", out, kernel) for n, out, kernel in double)],
        ["average", Unit("branch_pool", 192)],
    ]


_D: list[Branch] = [
    [Unit("branch3x3_1", 192), Unit("branch3x3_2", 320, (3, 3), 2)],
    [
        Unit("branch7x7x3_1", 192),
        Unit("branch7x7x3_2", 192, _ACROSS),
        Unit("branch7x7x3_3", 192, _DOWN),
        Unit("branch7x7x3_4", 192, (3, 3), 2),
    ],
    ["max"],
]
_E: list[Branch] = [
    [Unit("branch1x1", 320)],
    [Unit("branch3x3_1", 384), Split((Unit("branch3x3_2a", 384, _ROW), Unit("branch3x3_2b", 384, _COLUMN)))],
    [
        Unit("branch3x3dbl_1", 448),
        Unit("branch3x3dbl_2", 384, (3, 3)),
        Split((Unit("branch3x3dbl_3a", 384, _ROW), Unit("branch3x3dbl_3b", 384, _COLUMN))),
    ],
    ["average", Unit("branch_pool", 192)],
]
STAGES: tuple[dict[str, list[Branch]], ...] = (
    {"Mixed_5b": _a(32), "Mixed_5c": _a(64), "Mixed_5d": _a(64)},
    {"Mixed_6a": _B, "Mixed_6b": _c(128), "Mixed_6c": _c(160), "Mixed_6d": _c(160), "Mixed_6e": _c(192)},
    {"Mixed_7a": _D, "Mixed_7b": _E, "Mixed_7c": _E},
)
"""Szegedy et al. 2016, table 1 and figures 5 to 7 and 10, with the numbers of channels of the published weights."""
SMALLEST = 75
"""Side of the smallest image for which a position remains in the last stage."""


@block("inception-v3")
class InceptionV3(Backbone):
    """Inception v3: Inception modules whose large kernels are factorized into small and one-dimensional ones.

    The feature maps are those of the third convolution, of the fifth, and of the last module of each of three stages. Most
    convolutions with stride 2 have no padding. Without the auxiliary classifier of the paper.

    Szegedy et al. 2016, https://arxiv.org/abs/1512.00567

    Args:
        width: Factor of the numbers of channels.
        norm: Normalization after each convolution.

    Example:
        >>> import torch
        >>> network = InceptionV3(ImageField("image", 3, 80, 80), width=0.125)
        >>> [tuple(maps.shape[1:]) for maps in network(torch.ones(2, 3, 80, 80))]
        [(8, 37, 37), (24, 16, 16), (36, 7, 7), (96, 3, 3), (256, 1, 1)]
    """

    def __init__(
        self,
        field: ImageField,
        *,
        width: Positive = 1.0,
        norm: Build[FeatureNorm] = partial(BatchNorm2d, eps=1e-3),
    ):
        super().__init__(field)
        self.require_side(SMALLEST)
        a, b, c, d = (scaled(dim, width) for dim in (32, 64, 80, 192))
        unit = partial(Convolution, norm=norm)
        self.first = nn.Sequential(unit(field.channels, a, 2, padding=0), unit(a, a, 1, padding=0), unit(a, b, 1))
        self.second = nn.Sequential(unit(b, c, 1, kernel_size=1), unit(c, d, 1, padding=0))
        self.pools = nn.ModuleList([MaxPool2d(kernel_size=3), MaxPool2d(kernel_size=3)])
        self.stages, channels = nn.ModuleList(), [b, d]
        for modules in STAGES:
            built, before = list[nn.Module](), channels[-1]
            for branches in modules.values():
                chains = [_chain(before, branch, width, norm) for branch in branches]
                built.append(Branches([chain for chain, _ in chains]))
                before = sum(out for _, out in chains)
            self.stages.append(nn.Sequential(*built))
            channels.append(before)
        self.set_stages(channels, [2, 4, 8, 16, 32])

    def feature_maps(self, x_BCHW: Tensor) -> list[Tensor]:
        maps = [self.first(x_BCHW)]
        maps.append(self.second(self.pools[0](maps[-1])))
        x_BCHW = self.pools[1](maps[-1])
        for stage in self.stages:
            x_BCHW = stage(x_BCHW)
            maps.append(x_BCHW)
        return maps


def _chain(channels: int, branch: Branch, width: float, norm: Build[FeatureNorm]) -> tuple[nn.Sequential, int]:
    """A branch over feature maps with this number of channels, and the number of its output channels."""
    steps: list[nn.Module] = []
    for step in branch:
        if isinstance(step, str):
            average = step == "average"
            pool = AveragePool2d(kernel_size=3, stride=1, padding=1) if average else MaxPool2d(kernel_size=3)
            steps.append(pool)
            continue
        units = step if isinstance(step, Split) else Split((step,))
        built = [_convolution(channels, unit, width, norm) for unit in units]
        steps.append(Branches(built) if isinstance(step, Split) else built[0])
        channels = sum(scaled(unit.dim, width) for unit in units)
    return nn.Sequential(*steps), channels


def _convolution(channels: int, unit: Unit, width: float, norm: Build[FeatureNorm]) -> Convolution:
    (height, across), padding = unit.kernel, "symmetric" if unit.stride == 1 else 0
    out = scaled(unit.dim, width)
    return Convolution(channels, out, unit.stride, kernel_size=height, width=across, padding=padding, norm=norm)


def unit_paths(branches: Sequence[Branch]) -> Iterator[tuple[str, str]]:
    """The name of each convolution in the weights of torchvision, and its path in our module.

    Example:
        >>> dict(unit_paths(STAGES[1]["Mixed_6a"]))["branch3x3dbl_2"]
        'branches.1.1'
    """
    for at, branch in enumerate(branches):
        for number, step in enumerate(branch):
            if isinstance(step, Split):
                yield from ((unit.name, f"branches.{at}.{number}.branches.{i}") for i, unit in enumerate(step))
            elif isinstance(step, Unit):
                yield step.name, f"branches.{at}.{number}"


# --------------------------------------------------------------------------------------------------- published models

_CONVOLUTIONS = {
    "Conv2d_1a_3x3": "first.0",
    "Conv2d_2a_3x3": "first.1",
    "Conv2d_2b_3x3": "first.2",
    "Conv2d_3b_1x1": "second.0",
    "Conv2d_4a_3x3": "second.1",
}


def _rules(network: Build[Backbone]) -> list[Rule]:
    paths = dict(_CONVOLUTIONS)
    for stage, modules in enumerate(STAGES):
        for number, (name, branches) in enumerate(modules.items()):
            paths |= {f"{name}.{theirs}": f"stages.{stage}.{number}.{ours}" for theirs, ours in unit_paths(branches)}
    return convolution_rules(paths)


register_networks("inception-v3", {"inception_v3": InceptionV3}, _rules, sides={"inception_v3": 299}, ignored=("AuxLogits.*",))
