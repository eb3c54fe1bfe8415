"""2-D convolution with normalization and activation."""

from __future__ import annotations

from typing import Literal

import torch.nn.functional as F
from torch import Tensor, nn

from weft.blocks.activation import ReLU
from weft.blocks.conv.batch_norm import BatchNorm2d
from weft.core.contracts import Activation, ConvUnit, FeatureNorm
from weft.core.options import Count, KernelSide, Natural
from weft.core.registry import Build, block

Padding = Literal["symmetric", "tensorflow"] | Natural
"""Where zeros are added; see ``Convolution``."""


class Convolution2d(nn.Conv2d):
    """2-D convolution whose weights are initialized for rectified linear units: N(0, 2 / (out k^2 / groups)), zero bias.

    He et al. 2015, https://arxiv.org/abs/1502.01852
    """

    def reset_parameters(self) -> None:
        nn.init.kaiming_normal_(self.weight, mode="fan_out", nonlinearity="relu")
        if self.bias is not None:
            nn.init.zeros_(self.bias)


def total_padding(size: int, kernel_size: int, stride: int, dilation: int = 1) -> int:
    """Zeros along one side such that an input of ``size`` positions gives ceil(size / stride).

    Example:
        >>> total_padding(224, 3, 2), total_padding(224, 3, 1)
        (1, 2)
    """
    return max(0, (-(-size // stride) - 1) * stride + (kernel_size - 1) * dilation + 1 - size)


def _zeros_each_side(padding: Padding, kernel_size: int, dilation: int) -> int:
    """Zeros that the convolution itself adds."""
    if padding == "symmetric":
        return (kernel_size - 1) * dilation // 2
    return 0 if padding == "tensorflow" else padding


@block("convolution")
class Convolution(ConvUnit):
    """2-D convolution with normalization and activation.

    y_o = f(norm(sum_c w_oc * x_c + b_o)), where * is the cross-correlation of a k x k kernel and c a channel of o's group

    With ``groups`` g, each of g groups of channels is convolved on its own; ``depthwise`` has one group per channel
    (Sifre 2014). A dilation d spreads the kernel over (k - 1) d + 1 positions (Yu and Koltun 2016, https://arxiv.org/abs/1511.07122).

    LeCun et al. 1989; grouped: Krizhevsky et al. 2012 (AlexNet)

    Args:
        kernel_size: Height and width k of the kernel.
        width: Width of the kernel where it differs from the height k; None = k.
        groups: Number of groups, which divides both numbers of channels; depthwise = one per channel.
        dilation: Distance of neighboring kernel positions.
        padding: symmetric = floor((k - 1) d / 2) zeros on every side; tensorflow = as many zeros as ceil(size / stride) outputs
            need, the odd one at the bottom and right, as in networks that TensorFlow trained; a number = on every side.
        bias: Whether to add the bias b; None = only without norm, which has a shift of its own.
        norm: Normalization; None = none.
        activation: Activation f; None = none.

    Example:
        >>> import torch
        >>> Convolution(3, 8, 2, kernel_size=5)(torch.ones(1, 3, 9, 8)).shape
        torch.Size([1, 8, 5, 4])
    """

    def __init__(
        self,
        channels: int,
        out: int,
        stride: int,
        *,
        kernel_size: KernelSide = 3,
        width: KernelSide | None = None,
        groups: Count | Literal["depthwise"] = 1,
        dilation: Count = 1,
        padding: Padding = "symmetric",
        bias: bool | None = None,
        norm: Build[FeatureNorm] | None = BatchNorm2d,
        activation: Build[Activation] | None = ReLU,
    ):
        super().__init__(channels, out, stride)
        number = channels if groups == "depthwise" else groups
        if channels % number or out % number:
            raise ValueError(f"groups is {groups}, but it must divide the numbers of channels, {channels} and {out}")
        kernel = (kernel_size, width or kernel_size)
        zeros = [_zeros_each_side(padding, k, dilation) for k in kernel]
        self.tensorflow = padding == "tensorflow"
        self.convolution = Convolution2d(
            channels,
            out,
            kernel,
            stride,
            (zeros[0], zeros[1]),
            dilation,
            number,
            bias=norm is None if bias is None else bias,
        )
        self.norm = None if norm is None else norm(out)
        self.activation = None if activation is None else activation()

    def forward(self, x_BCHW: Tensor) -> Tensor:
        if self.tensorflow:
            x_BCHW = F.pad(x_BCHW, self._zeros(x_BCHW))
        x_BCHW = self.convolution(x_BCHW)
        x_BCHW = x_BCHW if self.norm is None else self.norm(x_BCHW)
        return x_BCHW if self.activation is None else self.activation(x_BCHW)

    def _zeros(self, x_BCHW: Tensor) -> list[int]:
        """Left, right, top and bottom padding."""
        own, zeros = self.convolution, list[int]()
        for dim in (1, 0):
            total = total_padding(x_BCHW.shape[2 + dim], own.kernel_size[dim], own.stride[dim], own.dilation[dim])
            zeros += [total // 2, total - total // 2]
        return zeros


class NormFirst(nn.Module):
    """Normalization and activation, then a convolution without bias: the order of pre-activation units and DenseNets."""

    def __init__(
        self,
        channels: int,
        out: int,
        stride: int = 1,
        kernel_size: int = 3,
        *,
        norm: Build[FeatureNorm],
        activation: Build[Activation],
    ):
        super().__init__()
        self.norm, self.activation = norm(channels), activation()
        self.convolution = Convolution2d(channels, out, kernel_size, stride, kernel_size // 2, bias=False)

    def forward(self, x_BCHW: Tensor) -> Tensor:
        return self.convolution(self.activation(self.norm(x_BCHW)))
