"""Squeeze-and-excitation: channels weighted by a gate that the whole image determines."""

from __future__ import annotations

from torch import Tensor

from weft.blocks.activation import ReLU, Sigmoid
from weft.blocks.conv.convolution import Convolution2d
from weft.core.contracts import Activation, FeatureGate
from weft.core.options import Count
from weft.core.registry import Build, block


@block("squeeze-excitation")
class SqueezeExcitation(FeatureGate):
    """Squeeze-and-excitation: each channel is multiplied by a gate, computed from the averages of all channels.

    y_c = x_c g_c,  g = gate(V f(U z + a) + b),  z_c = mean_HW(x_c)

    Hu et al. 2018, https://arxiv.org/abs/1709.01507

    Args:
        reduction: Factor by which U reduces the number of channels.
        activation: Activation f.
        gate: Activation of the gate.

    Example:
        >>> import torch
        >>> SqueezeExcitation(8)(torch.ones(2, 8, 4, 4)).shape
        torch.Size([2, 8, 4, 4])
    """

    def __init__(
        self,
        channels: int,
        *,
        reduction: Count = 4,
        activation: Build[Activation] = ReLU,
        gate: Build[Activation] = Sigmoid,
    ):
        super().__init__(channels)
        inner = max(1, channels // reduction)
        self.squeeze, self.excite = Convolution2d(channels, inner, 1), Convolution2d(inner, channels, 1)
        self.activation, self.gate = activation(), gate()

    def forward(self, x_BCHW: Tensor) -> Tensor:
        z_BC11 = x_BCHW.mean((2, 3), keepdim=True)
        return x_BCHW * self.gate(self.excite(self.activation(self.squeeze(z_BC11))))
