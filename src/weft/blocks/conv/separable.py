"""Units of depthwise and 1 x 1 convolutions: depthwise-separable convolution, inverted residual."""

from __future__ import annotations

from functools import partial

from torch import Tensor, nn

from weft.blocks.activation import ReLU, ReLU6
from weft.blocks.conv.batch_norm import BatchNorm2d
from weft.blocks.conv.convolution import Convolution, Padding
from weft.core.contracts import Activation, ConvUnit, FeatureGate, FeatureNorm
from weft.core.options import Count, KernelSide
from weft.core.registry import Build, block


@block("depthwise-separable")
class DepthwiseSeparable(ConvUnit):
    """Depthwise-separable convolution: a convolution of each channel on its own, then a 1 x 1 convolution across channels.

    y = f(norm(P * f(norm(D * x)))), with one k x k kernel per channel in D, and a 1 x 1 kernel P

    Howard et al. 2017 (MobileNet), https://arxiv.org/abs/1704.04861

    Args:
        kernel_size: Height and width k of the depthwise kernels.
        norm: Normalization after each convolution.
        activation: Activation f.

    Example:
        >>> import torch
        >>> DepthwiseSeparable(4, 8, 2)(torch.ones(1, 4, 6, 6)).shape
        torch.Size([1, 8, 3, 3])
    """

    def __init__(
        self,
        channels: int,
        out: int,
        stride: int,
        *,
        kernel_size: KernelSide = 3,
        norm: Build[FeatureNorm] = BatchNorm2d,
        activation: Build[Activation] = ReLU,
    ):
        super().__init__(channels, out, stride)
        unit = partial(Convolution, norm=norm, activation=activation)
        self.depthwise = unit(channels, channels, stride, kernel_size=kernel_size, groups="depthwise")
        self.pointwise = unit(channels, out, 1, kernel_size=1)

    def forward(self, x_BCHW: Tensor) -> Tensor:
        return self.pointwise(self.depthwise(x_BCHW))


@block("inverted-residual")
class InvertedResidual(ConvUnit):
    """Inverted residual: expansion to more channels, a depthwise convolution, a linear projection, and a shortcut.

    y = x + norm(P * gate(f(norm(D * f(norm(E * x)))))),  E from C to expansion C channels

    The shortcut exists only between equal shapes; without expansion (1) there is no E.

    Sandler et al. 2018 (MobileNet v2), https://arxiv.org/abs/1801.04381; with a gate: Tan and Le 2019 (EfficientNet),
    https://arxiv.org/abs/1905.11946

    Args:
        expansion: Factor of the number of channels inside.
        kernel_size: Height and width of the depthwise kernels.
        padding: Padding of the depthwise convolution; see the unit convolution.
        norm: Normalization after each convolution.
        activation: Activation f.
        gate: Gate of the channels before the projection, such as squeeze-excitation; None = none.

    Example:
        >>> import torch
        >>> InvertedResidual(4, 8, 2)(torch.ones(1, 4, 6, 6)).shape
        torch.Size([1, 8, 3, 3])
    """

    def __init__(
        self,
        channels: int,
        out: int,
        stride: int,
        *,
        expansion: Count = 6,
        kernel_size: KernelSide = 3,
        padding: Padding = "symmetric",
        norm: Build[FeatureNorm] = BatchNorm2d,
        activation: Build[Activation] = ReLU6,
        gate: Build[FeatureGate] | None = None,
    ):
        super().__init__(channels, out, stride)
        inner, unit = channels * expansion, partial(Convolution, norm=norm, activation=activation)
        expand = [] if expansion == 1 else [unit(channels, inner, 1, kernel_size=1)]
        depthwise = unit(inner, inner, stride, kernel_size=kernel_size, padding=padding, groups="depthwise")
        self.convolutions = nn.Sequential(*expand, depthwise)
        self.gate = None if gate is None else gate(inner)
        self.project = Convolution(inner, out, 1, kernel_size=1, norm=norm, activation=None)
        self.has_shortcut = stride == 1 and channels == out

    def forward(self, x_BCHW: Tensor) -> Tensor:
        y_BCHW = self.convolutions(x_BCHW)
        y_BCHW = self.project(y_BCHW if self.gate is None else self.gate(y_BCHW))
        return x_BCHW + y_BCHW if self.has_shortcut else y_BCHW
