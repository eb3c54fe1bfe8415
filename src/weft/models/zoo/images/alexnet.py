"""AlexNet: five convolutions and two fully connected layers."""

from __future__ import annotations

from torch import Tensor, nn

from weft.blocks import Convolution, MaxPool2d
from weft.core.contracts import Backbone
from weft.core.fields import ImageField
from weft.core.options import Dim, Dropout
from weft.core.registry import Build, block
from weft.models.zoo.images.fully_connected import FullyConnected
from weft.models.zoo.images.published import register_networks
from weft.models.zoo.tensor_names import Rule, rules

SMALLEST = 63
"""Side of the smallest image for which a position remains after the last pooling."""


@block("alexnet")
class AlexNet(Backbone):
    """AlexNet: five convolutions, of which three are followed by max pooling, and two fully connected layers with dropout.

    The feature maps are those before each pooling: of convolutions 1, 2 and 5. The vector is the second fully connected layer,
    over the pooled maps of convolution 5.

    Krizhevsky et al. 2012, in the form with one column of Krizhevsky 2014, https://arxiv.org/abs/1404.5997

    Args:
        dims: Channels of the five convolutions.
        hidden: Size of the fully connected layers.
        dropout: Dropout probability before each fully connected layer.

    Example:
        >>> import torch
        >>> network = AlexNet(ImageField("image", 3, 64, 64), hidden=8).eval()
        >>> [tuple(maps.shape[1:]) for maps in network(torch.ones(1, 3, 64, 64))], network.vector(torch.ones(1, 3, 64, 64)).shape
        ([(64, 15, 15), (192, 7, 7), (256, 3, 3)], torch.Size([1, 8]))
    """

    def __init__(
        self,
        field: ImageField,
        *,
        dims: list[Dim] = [64, 192, 384, 256, 256],
        hidden: Dim = 4096,
        dropout: Dropout = 0.5,
    ):
        super().__init__(field)
        if len(dims) != 5:
            raise ValueError(f"dims has {len(dims)} numbers, but AlexNet has 5 convolutions; give 5")
        self.require_side(SMALLEST)
        a, b, c, d, e = dims
        stages = [
            [Convolution(field.channels, a, 4, kernel_size=11, padding=2, norm=None)],
            [Convolution(a, b, 1, kernel_size=5, norm=None)],
            [Convolution(b, c, 1, norm=None), Convolution(c, d, 1, norm=None), Convolution(d, e, 1, norm=None)],
        ]
        self.stages = nn.ModuleList([nn.Sequential(*units) for units in stages])
        self.pools = nn.ModuleList([MaxPool2d(kernel_size=3, stride=2) for _ in stages])
        self.fully_connected: FullyConnected | None = FullyConnected(e, 6, hidden, dropout, before=True)
        self.set_stages([a, b, e], [4, 8, 16], hidden)

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


# --------------------------------------------------------------------------------------------------- published models

_CONVOLUTIONS = {0: "0.0", 3: "1.0", 6: "2.0", 8: "2.1", 10: "2.2"}
"""Index among the features of torchvision -> stage and number of the convolution."""


def _rules(network: Build[Backbone]) -> list[Rule]:
    named = {f"features.{at}.*": f"encoder.stages.{ours}.convolution.*" for at, ours in _CONVOLUTIONS.items()}
    layers = {f"classifier.{at}.*": f"encoder.fully_connected.layers.{number}.*" for number, at in enumerate((1, 4))}
    return rules(named | layers | {"classifier.6.*": "classifier.out.*"})


register_networks("alexnet", {"alexnet": AlexNet}, _rules)
