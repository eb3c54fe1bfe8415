"""VGG: stages of 3 x 3 convolutions, and two fully connected layers."""

from __future__ import annotations

from functools import partial

from torch import Tensor, nn

from weft.blocks import BatchNorm2d, Convolution, MaxPool2d
from weft.core.contracts import Backbone, FeatureNorm, FeaturePooling, pooling_stride
from weft.core.fields import ImageField
from weft.core.options import Dim, Dropout, Layers
from weft.core.registry import Build, block, option_values
from weft.models.zoo.images.fully_connected import FullyConnected
from weft.models.zoo.images.published import register_networks
from weft.models.zoo.images.sizes import SizeTable
from weft.models.zoo.tensor_names import Rule, rules


@block("vgg")
class VGG(Backbone):
    """VGG: stages of 3 x 3 convolutions with max pooling after each, and two fully connected layers with dropout.

    The feature maps are those before each pooling. The vector is the second fully connected layer, over the pooled last maps.

    Simonyan and Zisserman 2015, https://arxiv.org/abs/1409.1556

    Args:
        layers: Number of convolutions in each stage.
        dims: Channels of each stage.
        norm: Normalization after each convolution; None = none, as in the paper.
        pool: Pooling after each stage.
        hidden: Size of the fully connected layers.
        dropout: Dropout probability after each fully connected layer.

    Example:
        >>> import torch
        >>> network = VGG(ImageField("image", 3, 32, 32), layers=[1, 2], dims=[4, 8], hidden=16).eval()
        >>> [tuple(maps.shape[1:]) for maps in network(torch.ones(1, 3, 32, 32))], network.vector(torch.ones(1, 3, 32, 32)).shape
        ([(4, 32, 32), (8, 16, 16)], torch.Size([1, 16]))
    """

    def __init__(
        self,
        field: ImageField,
        *,
        layers: list[Layers] = [2, 2, 3, 3, 3],
        dims: list[Dim] = [64, 128, 256, 512, 512],
        norm: Build[FeatureNorm] | None = None,
        pool: Build[FeaturePooling] = MaxPool2d,
        hidden: Dim = 4096,
        dropout: Dropout = 0.5,
    ):
        super().__init__(field)
        if len(layers) != len(dims) or not dims:
            raise ValueError(f"layers has {len(layers)} stages and dims {len(dims)}; both need one number for each stage")
        self.require_side(2 ** len(dims))
        unit, before = partial(Convolution, norm=norm, bias=True), field.channels
        self.stages = nn.ModuleList()
        for number, dim in zip(layers, dims, strict=True):
            channels = [before, *[dim] * (number - 1)]
            self.stages.append(nn.Sequential(*(unit(c, dim, 1) for c in channels)))
            before = dim
        pools = [pool() for _ in dims]
        self.pools = nn.ModuleList(pools)
        self.fully_connected: FullyConnected | None = FullyConnected(before, 7, hidden, dropout, before=False)
        self.set_stages(dims, [pooling_stride(pools[0]) ** i for i in range(len(dims))], hidden)

    def feature_maps(self, x_BCHW: Tensor) -> list[Tensor]:
        maps: list[Tensor] = []
        for stage, pool in zip(self.stages, self.pools, strict=True):
            maps.append(stage(x_BCHW))
            x_BCHW = pool(maps[-1]) if len(maps) < len(self.stages) else x_BCHW
        return maps

    def vector(self, x_BCHW: Tensor) -> Tensor:
        if self.fully_connected is None:
            return super().vector(x_BCHW)
        return self.fully_connected(self.pools[-1](self(x_BCHW)[-1]))

    def keep_maps(self) -> None:
        self.fully_connected, self.dim = None, self.channels[-1]


_LAYERS = {"vgg11": [1, 1, 2, 2, 2], "vgg13": [2, 2, 2, 2, 2], "vgg16": [2, 2, 3, 3, 3], "vgg19": [2, 2, 4, 4, 4]}
"""Simonyan and Zisserman 2015, table 1: the columns A, B, D and E."""
_WITH_NORM = {f"{name}-bn": {"layers": layers, "norm": BatchNorm2d} for name, layers in _LAYERS.items()}
SIZES = SizeTable(VGG, __name__, {name: {"layers": layers} for name, layers in _LAYERS.items()} | _WITH_NORM)

vgg11 = SIZES.register("vgg11")
"""VGG-11."""
vgg13 = SIZES.register("vgg13")
"""VGG-13."""
vgg16 = SIZES.register("vgg16")
"""VGG-16."""
vgg19 = SIZES.register("vgg19")
"""VGG-19."""
vgg11_bn = SIZES.register("vgg11-bn")
"""VGG-11 with batch normalization."""
vgg13_bn = SIZES.register("vgg13-bn")
"""VGG-13 with batch normalization."""
vgg16_bn = SIZES.register("vgg16-bn")
"""VGG-16 with batch normalization."""
vgg19_bn = SIZES.register("vgg19-bn")
"""VGG-19 with batch normalization."""


# --------------------------------------------------------------------------------------------------- published models


def _rules(network: Build[Backbone]) -> list[Rule]:
    options, at = option_values(network), 0
    named = {f"classifier.{theirs}.*": f"encoder.fully_connected.layers.{ours}.*" for ours, theirs in enumerate((0, 3))}
    for stage, layers in enumerate(options["layers"]):
        for number in range(layers):
            ours = f"encoder.stages.{stage}.{number}"
            named[f"features.{at}.*"] = f"{ours}.convolution.*"
            if options["norm"] is not None:
                named[f"features.{at + 1}.*"] = f"{ours}.norm.*"
            at += 2 if options["norm"] is None else 3  # with the activation
        at += 1  # pooling
    return rules(named | {"classifier.6.*": "classifier.out.*"})


register_networks("vgg", SIZES.networks(), _rules)
