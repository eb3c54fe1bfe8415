"""Pooling of feature maps B x C x H x W over windows of neighboring positions."""

from __future__ import annotations

import torch.nn.functional as F
from torch import Tensor

from weft.core.contracts import FeaturePooling
from weft.core.options import Count, KernelSide, Natural
from weft.core.registry import block


class PoolingWindow(FeaturePooling):
    """A pooling window: its size, stride and padding."""

    def __init__(self, kernel_size: int, stride: int, padding: int, ceil: bool):
        super().__init__()
        if 2 * padding > kernel_size:
            raise ValueError(f"padding is {padding}, but at most half of kernel_size ({kernel_size}) is allowed")
        self.kernel_size, self.stride, self.padding, self.ceil = kernel_size, stride, padding, ceil


@block("max-pool")
class MaxPool2d(PoolingWindow):
    """Max pooling: the maximum of each channel in a k x k window.

    y_chw = max over (i, j) of x_c,(s h + i),(s w + j),  0 <= i, j < k

    Ranzato et al. 2007; stride below the kernel size (overlapping): Krizhevsky et al. 2012 (AlexNet)

    Args:
        kernel_size: Height and width k of the window.
        stride: Distance s of neighboring windows.
        padding: Positions added on every side, which are never the maximum.
        ceil: Whether a window that is partly outside counts too, so that the output size is rounded up.

    Example:
        >>> import torch
        >>> MaxPool2d(kernel_size=2)(torch.arange(16.0).view(1, 1, 4, 4)).flatten().tolist()
        [5.0, 7.0, 13.0, 15.0]
    """

    def __init__(self, *, kernel_size: KernelSide = 2, stride: Count = 2, padding: Natural = 0, ceil: bool = False):
        super().__init__(kernel_size, stride, padding, ceil)

    def forward(self, x_BCHW: Tensor) -> Tensor:
        return F.max_pool2d(x_BCHW, self.kernel_size, self.stride, self.padding, ceil_mode=self.ceil)


@block("average-pool")
class AveragePool2d(PoolingWindow):
    """Average pooling: the mean of each channel in a k x k window.

    y_chw = 1 / k^2 sum over (i, j) of x_c,(s h + i),(s w + j),  0 <= i, j < k

    LeCun et al. 1989

    Args:
        kernel_size: Height and width k of the window.
        stride: Distance s of neighboring windows.
        padding: Zeros added on every side, which count in the mean.
        ceil: Whether a window that is partly outside counts too, so that the output size is rounded up.

    Example:
        >>> import torch
        >>> AveragePool2d(kernel_size=2)(torch.arange(16.0).view(1, 1, 4, 4)).flatten().tolist()
        [2.5, 4.5, 10.5, 12.5]
    """

    def __init__(self, *, kernel_size: KernelSide = 2, stride: Count = 2, padding: Natural = 0, ceil: bool = False):
        super().__init__(kernel_size, stride, padding, ceil)

    def forward(self, x_BCHW: Tensor) -> Tensor:
        return F.avg_pool2d(x_BCHW, self.kernel_size, self.stride, self.padding, ceil_mode=self.ceil)


@block("adaptive-average-pool")
class AdaptiveAveragePool2d(FeaturePooling):
    """Adaptive average pooling: the mean of each channel in the cells of a grid of fixed size, whatever the input size.

    y_chw = mean of x_c over rows floor(h H / size) to ceil((h + 1) H / size) - 1, and columns likewise

    With size 1 this is global average pooling (Lin et al. 2014, https://arxiv.org/abs/1312.4400); grids of fixed size: He et al.
    2014 (spatial pyramid pooling), https://arxiv.org/abs/1406.4729

    Args:
        size: Height and width of the grid.

    Example:
        >>> import torch
        >>> AdaptiveAveragePool2d(size=2)(torch.arange(16.0).view(1, 1, 4, 4)).flatten().tolist()
        [2.5, 4.5, 10.5, 12.5]
    """

    def __init__(self, *, size: Count = 1):
        super().__init__()
        self.size = size

    def forward(self, x_BCHW: Tensor) -> Tensor:
        return F.adaptive_avg_pool2d(x_BCHW, self.size)
