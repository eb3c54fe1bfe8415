"""MobileNet v2 and EfficientNet-Lite: networks of inverted residuals."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from math import ceil
from typing import NamedTuple

from torch import Tensor, nn

from weft.blocks import BatchNorm2d, Convolution, InvertedResidual, ReLU6
from weft.blocks.conv.convolution import Padding
from weft.core.contracts import Activation, Backbone, FeatureNorm
from weft.core.fields import ImageField
from weft.core.options import Positive
from weft.core.registry import Build, block, option_values
from weft.models.zoo.images.published import register_networks
from weft.models.zoo.images.sizes import SizeTable
from weft.models.zoo.tensor_names import Rule, rules


class InvertedStage(NamedTuple):
    """A row of the tables of the papers: units of the same shape, of which the first has the stride."""

    expansion: int
    dim: int
    layers: int
    stride: int
    kernel_size: int = 3


class InvertedResidualNetwork(Backbone):
    """The shared implementation: a stem, stages of inverted residuals, and a 1 x 1 convolution."""

    def __init__(
        self,
        field: ImageField,
        stages: Sequence[InvertedStage],
        stem_dim: int,
        last_dim: int,
        norm: Build[FeatureNorm],
        activation: Build[Activation],
        padding: Padding,
    ):
        super().__init__(field)
        unit = partial(Convolution, norm=norm, activation=activation)
        self.stem = unit(field.channels, stem_dim, 2, padding=padding)
        self.units, before, self.ends, channels = nn.ModuleList(), stem_dim, list[int](), list[int]()
        for stage in stages:
            if stage.stride > 1:
                self.ends.append(len(self.units))  # the feature maps of a resolution are those before the next stride
                channels.append(before)
            for number in range(stage.layers):
                inverted = partial(InvertedResidual, expansion=stage.expansion, kernel_size=stage.kernel_size, padding=padding)
                stride = stage.stride if number == 0 else 1
                self.units.append(inverted(before, stage.dim, stride, norm=norm, activation=activation))
                before = stage.dim
        self.last = unit(before, last_dim, 1, kernel_size=1)
        self.set_stages([*channels, last_dim], [2**i for i in range(1, len(channels) + 2)])

    def feature_maps(self, x_BCHW: Tensor) -> list[Tensor]:
        x_BCHW = self.stem(x_BCHW)
        maps: list[Tensor] = []
        for number, unit in enumerate(self.units):
            if number in self.ends:
                maps.append(x_BCHW)
            x_BCHW = unit(x_BCHW)
        return [*maps, self.last(x_BCHW)]


def divisible(dim: float) -> int:
    """The nearest multiple of 8 that is not below 90 % of ``dim``, as MobileNets and EfficientNets round channels.

    Example:
        >>> divisible(24 * 1.1), divisible(16 * 0.35)
        (24, 8)
    """
    rounded = max(8, int(dim + 4) // 8 * 8)
    return rounded + 8 if rounded < 0.9 * dim else rounded


MOBILENET_V2 = [
    InvertedStage(1, 16, 1, 1),
    InvertedStage(6, 24, 2, 2),
    InvertedStage(6, 32, 3, 2),
    InvertedStage(6, 64, 4, 2),
    InvertedStage(6, 96, 3, 1),
    InvertedStage(6, 160, 3, 2),
    InvertedStage(6, 320, 1, 1),
]
"""Sandler et al. 2018, table 2."""


@block("mobilenet-v2")
class MobileNetV2(InvertedResidualNetwork):
    """MobileNet v2: inverted residuals with linear bottlenecks.

    The feature maps are the last ones of each resolution; those of the coarsest follow a 1 x 1 convolution to 1,280 channels.

    Sandler et al. 2018, https://arxiv.org/abs/1801.04381

    Args:
        width: Factor of the numbers of channels, which are rounded to multiples of 8.
        norm: Normalization after each convolution.
        activation: Activation after each convolution but the linear projections.

    Example:
        >>> import torch
        >>> network = MobileNetV2(ImageField("image", 3, 64, 64), width=0.25)
        >>> [tuple(maps.shape[1:]) for maps in network(torch.ones(2, 3, 64, 64))]
        [(8, 32, 32), (8, 16, 16), (8, 8, 8), (24, 4, 4), (1280, 2, 2)]
    """

    def __init__(
        self,
        field: ImageField,
        *,
        width: Positive = 1.0,
        norm: Build[FeatureNorm] = BatchNorm2d,
        activation: Build[Activation] = ReLU6,
    ):
        stages = [stage._replace(dim=divisible(stage.dim * width)) for stage in MOBILENET_V2]
        last = divisible(1280 * max(1.0, width))
        super().__init__(field, stages, divisible(32 * width), last, norm, activation, "symmetric")


EFFICIENTNET_LITE = [
    InvertedStage(1, 16, 1, 1),
    InvertedStage(6, 24, 2, 2),
    InvertedStage(6, 40, 2, 2, 5),
    InvertedStage(6, 80, 3, 2),
    InvertedStage(6, 112, 3, 1, 5),
    InvertedStage(6, 192, 4, 2, 5),
    InvertedStage(6, 320, 1, 1),
]
"""Tan and Le 2019, table 1."""


def lite_stages(width: float, depth: float) -> list[InvertedStage]:
    """The stages with scaled channels and layers; the first and the last stage keep their number of layers.

    Example:
        >>> [stage.layers for stage in lite_stages(1.0, 1.2)]
        [1, 3, 3, 4, 4, 5, 1]
    """
    ends = (0, len(EFFICIENTNET_LITE) - 1)
    return [
        stage._replace(dim=divisible(stage.dim * width), layers=stage.layers if at in ends else ceil(stage.layers * depth))
        for at, stage in enumerate(EFFICIENTNET_LITE)
    ]


@block("efficientnet-lite")
class EfficientNetLite(InvertedResidualNetwork):
    """EfficientNet-Lite: inverted residuals, scaled in width and depth together, without squeeze-and-excitation.

    The feature maps are the last ones of each resolution; those of the coarsest follow a 1 x 1 convolution to 1,280 channels.
    Stem and last convolution are not scaled. Activations are ReLU6, padding is that of TensorFlow, as the weights were trained
    with.

    Tan and Le 2019, https://arxiv.org/abs/1905.11946; Lite: Liu 2020,
    https://blog.tensorflow.org/2020/03/higher-accuracy-on-vision-models-with-efficientnet-lite.html

    Args:
        width: Factor of the numbers of channels, which are rounded to multiples of 8.
        depth: Factor of the numbers of layers, which are rounded up.
        padding: Padding of the convolutions; see the unit convolution.
        norm: Normalization after each convolution.
        activation: Activation after each convolution but the linear projections.

    Example:
        >>> import torch
        >>> network = EfficientNetLite(ImageField("image", 3, 64, 64), width=0.25)
        >>> [tuple(maps.shape[1:]) for maps in network(torch.ones(2, 3, 64, 64))]
        [(8, 32, 32), (8, 16, 16), (16, 8, 8), (32, 4, 4), (1280, 2, 2)]
    """

    def __init__(
        self,
        field: ImageField,
        *,
        width: Positive = 1.0,
        depth: Positive = 1.0,
        padding: Padding = "tensorflow",
        norm: Build[FeatureNorm] = partial(BatchNorm2d, momentum=0.01, eps=1e-3),
        activation: Build[Activation] = ReLU6,
    ):
        super().__init__(field, lite_stages(width, depth), 32, 1280, norm, activation, padding)


SIZES = SizeTable(
    EfficientNetLite,
    __name__,
    {
        "efficientnet-lite0": {"width": 1.0, "depth": 1.0},
        "efficientnet-lite1": {"width": 1.0, "depth": 1.1},
        "efficientnet-lite2": {"width": 1.1, "depth": 1.2},
        "efficientnet-lite3": {"width": 1.2, "depth": 1.4},
        "efficientnet-lite4": {"width": 1.4, "depth": 1.8},
    },
)
"""Liu 2020: trained on images of 224, 240, 260, 280 and 300 pixels."""

efficientnet_lite0 = SIZES.register("efficientnet-lite0")
"""EfficientNet-Lite0, for images of 224 x 224 pixels."""
efficientnet_lite1 = SIZES.register("efficientnet-lite1")
"""EfficientNet-Lite1, for images of 240 x 240 pixels."""
efficientnet_lite2 = SIZES.register("efficientnet-lite2")
"""EfficientNet-Lite2, for images of 260 x 260 pixels."""
efficientnet_lite3 = SIZES.register("efficientnet-lite3")
"""EfficientNet-Lite3, for images of 280 x 280 pixels."""
efficientnet_lite4 = SIZES.register("efficientnet-lite4")
"""EfficientNet-Lite4, for images of 300 x 300 pixels."""


# --------------------------------------------------------------------------------------------------- published models


def _mobilenet_rules(network: Build[Backbone]) -> list[Rule]:
    paths, number = {"features.0.0": "stem.convolution", "features.0.1": "stem.norm"}, 0
    for stage in MOBILENET_V2:
        for _ in range(stage.layers):
            theirs, ours = f"features.{number + 1}.conv", f"units.{number}"
            depthwise = int(stage.expansion > 1)
            for at in range(depthwise + 1):
                paths[f"{theirs}.{at}.0"] = f"{ours}.convolutions.{at}.convolution"
                paths[f"{theirs}.{at}.1"] = f"{ours}.convolutions.{at}.norm"
            paths[f"{theirs}.{depthwise + 1}"] = f"{ours}.project.convolution"
            paths[f"{theirs}.{depthwise + 2}"] = f"{ours}.project.norm"
            number += 1
    paths |= {f"features.{number + 1}.0": "last.convolution", f"features.{number + 1}.1": "last.norm"}
    return rules({f"{theirs}.*": f"encoder.{ours}.*" for theirs, ours in paths.items()} | {"classifier.1.*": "classifier.out.*"})


def _efficientnet_rules(network: Build[Backbone]) -> list[Rule]:
    """Names of the package timm."""
    paths = {"conv_stem": "stem.convolution", "bn1": "stem.norm", "conv_head": "last.convolution", "bn2": "last.norm"}
    options, number = option_values(network), 0
    for at, stage in enumerate(lite_stages(options["width"], options["depth"])):
        for layer in range(stage.layers):
            units = [f"units.{number}.convolutions.{i}" for i in range(1 + (stage.expansion > 1))] + [f"units.{number}.project"]
            names = ("conv_dw", "conv_pw") if stage.expansion == 1 else ("conv_pw", "conv_dw", "conv_pwl")
            for i, (unit, name) in enumerate(zip(units, names, strict=True)):
                paths[f"blocks.{at}.{layer}.{name}"] = f"{unit}.convolution"
                paths[f"blocks.{at}.{layer}.bn{i + 1}"] = f"{unit}.norm"
            number += 1
    return rules({f"{theirs}.*": f"encoder.{ours}.*" for theirs, ours in paths.items()} | {"classifier.*": "classifier.out.*"})


_SIDES = {"0": 224, "1": 240, "2": 260, "3": 280, "4": 300}
_LITE = {name[-1]: network for name, network in SIZES.networks().items()}
"""Size -> network, with the padding of TensorFlow; timm also has networks with symmetric padding."""
register_networks("mobilenet-v2", {"mobilenet_v2": MobileNetV2}, _mobilenet_rules)
register_networks(
    "efficientnet-lite",
    {f"tf_efficientnet_lite{size}": network for size, network in _LITE.items()}
    | {f"efficientnet_lite{n}": partial(network, padding="symmetric", norm=BatchNorm2d) for n, network in _LITE.items()},
    _efficientnet_rules,
    sides={f"{padding}efficientnet_lite{size}": side for size, side in _SIDES.items() for padding in ("tf_", "")},
)
