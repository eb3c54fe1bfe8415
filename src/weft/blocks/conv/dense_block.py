"""Dense block and transition of DenseNets."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from weft.blocks.activation import ReLU
from weft.blocks.conv.batch_norm import BatchNorm2d
from weft.blocks.conv.convolution import NormFirst
from weft.blocks.conv.pooling import AveragePool2d
from weft.blocks.dropout import DropoutLayer
from weft.core.contracts import Activation, FeatureLayer, FeatureNorm, FeaturePooling, pooling_stride
from weft.core.options import Count, Dim, Dropout, Fraction, Layers
from weft.core.registry import Build, block


@block("dense-block")
class DenseBlock(FeatureLayer):
    """Dense block: each layer has the outputs of all earlier ones as its input, and adds ``growth`` channels.

    x_l = [x_l-1; H_l(x_l-1)],  H_l(x) = W_l * f(norm(U_l * f(norm(x)))), with a 1 x 1 kernel U_l and a 3 x 3 kernel W_l

    Huang et al. 2017 (DenseNet-BC), https://arxiv.org/abs/1608.06993

    Args:
        layers: Number of layers.
        growth: Channels that each layer adds.
        bottleneck: The 1 x 1 convolution has bottleneck * growth channels.
        dropout: Dropout probability of what each layer adds.
        norm: Normalization before each convolution.
        activation: Activation f.

    Example:
        >>> layer = DenseBlock(16, layers=2, growth=8)
        >>> layer.out, layer(torch.ones(1, 16, 4, 4)).shape
        (32, torch.Size([1, 32, 4, 4]))
    """

    def __init__(
        self,
        channels: int,
        *,
        layers: Layers = 6,
        growth: Dim = 32,
        bottleneck: Count = 4,
        dropout: Dropout = 0.0,
        norm: Build[FeatureNorm] = BatchNorm2d,
        activation: Build[Activation] = ReLU,
    ):
        super().__init__(channels)
        inner, self.layers = bottleneck * growth, nn.ModuleList()
        for number in range(layers):
            squeeze = NormFirst(channels + number * growth, inner, kernel_size=1, norm=norm, activation=activation)
            self.layers.append(nn.Sequential(squeeze, NormFirst(inner, growth, norm=norm, activation=activation)))
        self.drop = DropoutLayer(dropout)
        self.out = channels + layers * growth

    def forward(self, x_BCHW: Tensor) -> Tensor:
        for layer in self.layers:
            x_BCHW = torch.cat([x_BCHW, self.drop(layer(x_BCHW))], 1)
        return x_BCHW


@block("transition")
class Transition(FeatureLayer):
    """Transition between dense blocks: fewer channels and a lower resolution.

    y = pool(W * f(norm(x))), with a 1 x 1 kernel W to floor(compression C) of C channels

    Huang et al. 2017 (DenseNet-BC), https://arxiv.org/abs/1608.06993

    Args:
        compression: Fraction of the channels that remains.
        pool: Pooling.
        norm: Normalization before the convolution.
        activation: Activation f.

    Example:
        >>> Transition(16)(torch.ones(1, 16, 4, 4)).shape
        torch.Size([1, 8, 2, 2])
    """

    def __init__(
        self,
        channels: int,
        *,
        compression: Fraction = 0.5,
        pool: Build[FeaturePooling] = AveragePool2d,
        norm: Build[FeatureNorm] = BatchNorm2d,
        activation: Build[Activation] = ReLU,
    ):
        super().__init__(channels)
        kept = max(1, int(channels * compression))
        self.squeeze = NormFirst(channels, kept, kernel_size=1, norm=norm, activation=activation)
        self.pool = pool()
        self.out, self.stride = kept, pooling_stride(self.pool)

    def forward(self, x_BCHW: Tensor) -> Tensor:
        return self.pool(self.squeeze(x_BCHW))
