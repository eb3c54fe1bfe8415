"""Residual units of ResNets, and the same unit without its shortcut."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from torch import Tensor, nn

from weft.blocks.activation import ReLU
from weft.blocks.conv.batch_norm import BatchNorm2d
from weft.blocks.conv.convolution import Convolution, Convolution2d, NormFirst
from weft.core.contracts import Activation, ConvUnit, FeatureGate, FeatureNorm
from weft.core.options import Count
from weft.core.registry import Build, block


class ResidualUnit(ConvUnit):
    """The shared implementation of residual units: convolutions and an optional gate, a shortcut, an activation of the sum."""

    def __init__(
        self,
        channels: int,
        out: int,
        stride: int,
        convolutions: Sequence[ConvUnit],
        norm: Build[FeatureNorm],
        activation: Build[Activation],
        gate: Build[FeatureGate] | None,
    ):
        super().__init__(channels, out, stride)
        self.convolutions = nn.ModuleList(convolutions)
        self.gate = None if gate is None else gate(out)
        self.shortcut = projection(channels, out, stride, norm)
        self.activation = activation()

    def residual(self, x_BCHW: Tensor) -> Tensor:
        """f(x), which the shortcut is added to."""
        for convolution in self.convolutions:
            x_BCHW = convolution(x_BCHW)
        return x_BCHW if self.gate is None else self.gate(x_BCHW)

    def forward(self, x_BCHW: Tensor) -> Tensor:
        shortcut_BCHW = x_BCHW if self.shortcut is None else self.shortcut(x_BCHW)
        return self.activation(self.residual(x_BCHW) + shortcut_BCHW)


def projection(channels: int, out: int, stride: int, norm: Build[FeatureNorm]) -> Convolution | None:
    """The 1 x 1 convolution of a shortcut between different shapes; None for the identity."""
    if stride == 1 and channels == out:
        return None
    return Convolution(channels, out, stride, kernel_size=1, norm=norm, activation=None)


@block("basic")
class BasicUnit(ResidualUnit):
    """Basic residual unit: two 3 x 3 convolutions, and a shortcut around them.

    y = f(norm(W_2 * f(norm(W_1 * x))) + shortcut(x)),  shortcut(x) = x, or norm(W_s * x) between different shapes

    He et al. 2016 (ResNet-18, ResNet-34), https://arxiv.org/abs/1512.03385

    Args:
        norm: Normalization after each convolution.
        activation: Activation f.
        gate: Gate of the channels before the sum, such as squeeze-excitation; None = none.

    Example:
        >>> import torch
        >>> BasicUnit(4, 8, 2)(torch.ones(1, 4, 6, 6)).shape
        torch.Size([1, 8, 3, 3])
    """

    def __init__(
        self,
        channels: int,
        out: int,
        stride: int,
        *,
        norm: Build[FeatureNorm] = BatchNorm2d,
        activation: Build[Activation] = ReLU,
        gate: Build[FeatureGate] | None = None,
    ):
        convolutions = [
            Convolution(channels, out, stride, norm=norm, activation=activation),
            Convolution(out, out, 1, norm=norm, activation=None),
        ]
        super().__init__(channels, out, stride, convolutions, norm, activation, gate)


@block("plain")
class PlainUnit(BasicUnit):
    """Plain unit: the two convolutions of a basic residual unit, without its shortcut.

    y = f(norm(W_2 * f(norm(W_1 * x))))

    He et al. 2016 (the plain networks, whose training loss increases with depth), https://arxiv.org/abs/1512.03385

    Args:
        norm: Normalization after each convolution.
        activation: Activation f.
        gate: Gate of the channels after the convolutions, such as squeeze-excitation; None = none.

    Example:
        >>> import torch
        >>> PlainUnit(4, 8, 2)(torch.ones(1, 4, 6, 6)).shape
        torch.Size([1, 8, 3, 3])
    """

    def __init__(
        self,
        channels: int,
        out: int,
        stride: int,
        *,
        norm: Build[FeatureNorm] = BatchNorm2d,
        activation: Build[Activation] = ReLU,
        gate: Build[FeatureGate] | None = None,
    ):
        super().__init__(channels, out, stride, norm=norm, activation=activation, gate=gate)
        self.shortcut = None

    def forward(self, x_BCHW: Tensor) -> Tensor:
        return self.activation(self.residual(x_BCHW))


@block("bottleneck")
class BottleneckUnit(ResidualUnit):
    """Bottleneck residual unit: a 1 x 1 convolution to fewer channels, 3 x 3, 1 x 1 back, and a shortcut around them.

    y = f(norm(W_3 * f(norm(W_2 * f(norm(W_1 * x))))) + shortcut(x)),  W_1 to out / expansion channels

    The 3 x 3 convolution has the stride, as in torchvision; in the paper it is the first one.

    He et al. 2016 (ResNet-50 to ResNet-152), https://arxiv.org/abs/1512.03385

    Args:
        expansion: Factor between the inner and the output channels; must divide the number of output channels.
        groups: Groups of the 3 x 3 convolution (ResNeXt: Xie et al. 2017, https://arxiv.org/abs/1611.05431).
        norm: Normalization after each convolution.
        activation: Activation f.
        gate: Gate of the channels before the sum, such as squeeze-excitation; None = none.

    Example:
        >>> import torch
        >>> BottleneckUnit(4, 16, 2)(torch.ones(1, 4, 6, 6)).shape
        torch.Size([1, 16, 3, 3])
    """

    def __init__(
        self,
        channels: int,
        out: int,
        stride: int,
        *,
        expansion: Count = 4,
        groups: Count = 1,
        norm: Build[FeatureNorm] = BatchNorm2d,
        activation: Build[Activation] = ReLU,
        gate: Build[FeatureGate] | None = None,
    ):
        if out % expansion:
            raise ValueError(f"expansion is {expansion}, but it must divide the number of output channels, {out}")
        inner, unit = out // expansion, partial(Convolution, norm=norm, activation=activation)
        convolutions = [
            unit(channels, inner, 1, kernel_size=1),
            unit(inner, inner, stride, groups=groups),
            Convolution(inner, out, 1, kernel_size=1, norm=norm, activation=None),
        ]
        super().__init__(channels, out, stride, convolutions, norm, activation, gate)


@block("pre-activation")
class PreActivationUnit(ConvUnit):
    """Pre-activation residual unit: normalization and activation precede each convolution; nothing follows the sum.

    y = x + W_2 * f(norm(W_1 * f(norm(x)))),  with W_s * x in place of x between different shapes

    So the shortcuts of all units together are the identity. The network needs a normalization after its last unit.

    He et al. 2016 (identity mappings), https://arxiv.org/abs/1603.05027

    Args:
        norm: Normalization before each convolution.
        activation: Activation f.

    Example:
        >>> import torch
        >>> PreActivationUnit(4, 8, 2)(torch.ones(1, 4, 6, 6)).shape
        torch.Size([1, 8, 3, 3])
    """

    def __init__(
        self,
        channels: int,
        out: int,
        stride: int,
        *,
        norm: Build[FeatureNorm] = BatchNorm2d,
        activation: Build[Activation] = ReLU,
    ):
        super().__init__(channels, out, stride)
        self.first = NormFirst(channels, out, stride, norm=norm, activation=activation)
        self.second = NormFirst(out, out, 1, norm=norm, activation=activation)
        same = stride == 1 and channels == out
        self.shortcut = None if same else Convolution2d(channels, out, 1, stride, bias=False)

    def forward(self, x_BCHW: Tensor) -> Tensor:
        shortcut_BCHW = x_BCHW if self.shortcut is None else self.shortcut(x_BCHW)
        return self.second(self.first(x_BCHW)) + shortcut_BCHW
