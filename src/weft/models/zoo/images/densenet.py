"""DenseNet: dense blocks with transitions between them."""

from __future__ import annotations

from functools import partial

from torch import Tensor, nn

from weft.blocks import BatchNorm2d, Convolution, DenseBlock, MaxPool2d, ReLU, Transition
from weft.core.contracts import Backbone, FeatureLayer, FeatureNorm, FeaturePooling, pooling_stride
from weft.core.fields import ImageField
from weft.core.options import Dim, Dropout, Layers
from weft.core.registry import Build, block, option_values
from weft.models.zoo.images.published import register_networks
from weft.models.zoo.images.sizes import SizeTable
from weft.models.zoo.tensor_names import Rule, rules


@block("densenet")
class DenseNet(Backbone):
    """DenseNet: a stem, then dense blocks; a transition halves resolution and channels between them.

    x_0 = pool(stem(image)),  y_s = block_s(x_s-1),  x_s = transition(y_s)

    The feature maps are the y_s, the last one with normalization and ReLU.

    Huang et al. 2017 (DenseNet-BC), https://arxiv.org/abs/1608.06993

    Args:
        layers: Number of layers in each dense block.
        growth: Channels that each layer adds.
        stem_dim: Channels of the stem.
        pool: Pooling after the stem; None = none.
        transition: Transition between two blocks.
        dropout: Dropout probability of what each layer adds.
        norm: Normalization in the stem, the blocks and after the last block.

    Example:
        >>> import torch
        >>> network = DenseNet(ImageField("image", 3, 32, 32), layers=[2, 2], growth=4, stem_dim=8)
        >>> [tuple(maps.shape[1:]) for maps in network(torch.ones(2, 3, 32, 32))]
        [(16, 8, 8), (16, 4, 4)]
    """

    def __init__(
        self,
        field: ImageField,
        *,
        layers: list[Layers] = [6, 12, 24, 16],
        growth: Dim = 32,
        stem_dim: Dim = 64,
        pool: Build[FeaturePooling] | None = partial(MaxPool2d, kernel_size=3, stride=2, padding=1),
        transition: Build[FeatureLayer] = Transition,
        dropout: Dropout = 0.0,
        norm: Build[FeatureNorm] = BatchNorm2d,
    ):
        super().__init__(field)
        if not layers:
            raise ValueError("layers is empty, but needs the number of layers of at least one dense block")
        self.require_side(2 ** (len(layers) + (pool is not None)))
        self.stem = Convolution(field.channels, stem_dim, 2, kernel_size=7, norm=norm)
        self.pool = None if pool is None else pool()
        self.blocks, self.transitions, before = nn.ModuleList(), nn.ModuleList(), stem_dim
        channels, strides = list[int](), [2 * (1 if self.pool is None else pooling_stride(self.pool))]
        for number, count in enumerate(layers):
            if number:
                self.transitions.append(changed := transition(before))
                before = changed.out
                strides.append(strides[-1] * changed.stride)
            self.blocks.append(dense := DenseBlock(before, layers=count, growth=growth, dropout=dropout, norm=norm))
            before = dense.out
            channels.append(before)
        self.norm = nn.Sequential(norm(before), ReLU())
        self.set_stages(channels, strides)

    def feature_maps(self, x_BCHW: Tensor) -> list[Tensor]:
        x_BCHW = self.stem(x_BCHW)
        x_BCHW = x_BCHW if self.pool is None else self.pool(x_BCHW)
        maps = [self.blocks[0](x_BCHW)]
        for dense, transition in zip(self.blocks[1:], self.transitions, strict=True):
            maps.append(dense(transition(maps[-1])))
        return [*maps[:-1], self.norm(maps[-1])]


SIZES = SizeTable(
    DenseNet,
    __name__,
    {
        "densenet121": {"layers": [6, 12, 24, 16]},
        "densenet161": {"layers": [6, 12, 36, 24], "growth": 48, "stem_dim": 96},
        "densenet169": {"layers": [6, 12, 32, 32]},
        "densenet201": {"layers": [6, 12, 48, 32]},
    },
)
"""Huang et al. 2017, table 1; DenseNet-161 with growth 48."""

densenet121 = SIZES.register("densenet121")
"""DenseNet-121."""
densenet161 = SIZES.register("densenet161")
"""DenseNet-161."""
densenet169 = SIZES.register("densenet169")
"""DenseNet-169."""
densenet201 = SIZES.register("densenet201")
"""DenseNet-201."""


# --------------------------------------------------------------------------------------------------- published models


def _rules(network: Build[Backbone]) -> list[Rule]:
    paths = {"features.{}0": "stem.{}"}  # in place of {}: norm, conv
    named = {"features.norm5.*": "encoder.norm.0.*", "classifier.*": "classifier.out.*"}
    for number, layers in enumerate(option_values(network)["layers"]):
        for layer in range(layers):
            theirs, ours = f"features.denseblock{number + 1}.denselayer{layer + 1}", f"blocks.{number}.layers.{layer}"
            paths |= {f"{theirs}.{{}}{i + 1}": f"{ours}.{i}.{{}}" for i in (0, 1)}
        paths[f"features.transition{number + 1}.{{}}"] = f"transitions.{number}.squeeze.{{}}"
    for theirs, ours in paths.items():
        named[f"{theirs.format('norm')}.*"] = f"encoder.{ours.format('norm')}.*"
        named[f"{theirs.format('conv')}.weight"] = f"encoder.{ours.format('convolution')}.weight"
    return rules(named)


register_networks("densenet", SIZES.networks(), _rules)
