"""The fully connected layers that end AlexNet and VGG."""

from __future__ import annotations

from torch import Tensor, nn

from weft.blocks import AdaptiveAveragePool2d, Linear, ReLU
from weft.blocks.dropout import DropoutLayer


class FullyConnected(nn.Module):
    """Two hidden layers with dropout over a grid of fixed size, to which feature maps of any size are pooled.

    Args:
        channels: Channels of the feature maps.
        grid: Height and width of the grid.
        hidden: Size of both layers.
        dropout: Dropout probability.
        before: Whether dropout precedes the layers, as in AlexNet, or follows them, as in VGG.
    """

    def __init__(self, channels: int, grid: int, hidden: int, dropout: float, *, before: bool):
        super().__init__()
        self.pool = AdaptiveAveragePool2d(size=grid)
        self.layers = nn.ModuleList([Linear(channels * grid * grid, hidden), Linear(hidden, hidden)])
        self.activation, self.drop, self.before = ReLU(), DropoutLayer(dropout), before

    def forward(self, x_BCHW: Tensor) -> Tensor:
        x_BD = self.pool(x_BCHW).flatten(1)
        for layer in self.layers:
            x_BD = layer(self.drop(x_BD)) if self.before else layer(x_BD)
            x_BD = self.activation(x_BD) if self.before else self.drop(self.activation(x_BD))
        return x_BD
