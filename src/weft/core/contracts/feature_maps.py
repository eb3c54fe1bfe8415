"""Contracts of the parts of image networks, over feature maps B x C x H x W."""

from __future__ import annotations

from abc import ABC, abstractmethod

from torch import Tensor, nn

from weft.core.registry import slot


@slot
class FeatureNorm(nn.Module, ABC):
    """Normalization of feature maps with ``channels`` channels; in training it may use the statistics of the batch."""

    def __init__(self, channels: int):
        super().__init__()

    @abstractmethod
    def forward(self, x_BCHW: Tensor) -> Tensor:
        """A tensor of the shape of ``x_BCHW``."""


@slot
class ConvUnit(nn.Module, ABC):
    """A unit of a convolutional network: ``channels`` feature maps to ``out``, at every ``stride``-th position.

    A stage of a network is a chain of units, of which the first has the stride: single convolutions, residual units, inverted
    residuals.
    """

    def __init__(self, channels: int, out: int, stride: int):
        super().__init__()

    @abstractmethod
    def forward(self, x_BCHW: Tensor) -> Tensor:
        """B x out x ceil(H / stride) x ceil(W / stride)."""


@slot
class FeatureGate(nn.Module, ABC):
    """Weights ``channels`` feature maps, by their own content; their shape stays."""

    def __init__(self, channels: int):
        super().__init__()

    @abstractmethod
    def forward(self, x_BCHW: Tensor) -> Tensor:
        """A tensor of the shape of ``x_BCHW``."""


@slot
class FeaturePooling(nn.Module, ABC):
    """Pooling of feature maps over windows of positions; each channel on its own."""

    stride: int | None = None
    """Distance of neighboring windows; None = the output has a fixed size."""

    def __init__(self):
        super().__init__()

    @abstractmethod
    def forward(self, x_BCHW: Tensor) -> Tensor:
        """B x C feature maps with fewer positions."""


@slot
class FeatureLayer(nn.Module, ABC):
    """A layer over feature maps that determines the number of its output channels itself: Inception, a dense block."""

    out: int
    """Number of output channels."""
    stride: int = 1
    """Distance of the input positions of neighboring outputs."""

    def __init__(self, channels: int):
        super().__init__()
        self.out = channels

    @abstractmethod
    def forward(self, x_BCHW: Tensor) -> Tensor:
        """B x out feature maps."""


def pooling_stride(pool: FeaturePooling) -> int:
    """The stride of a pooling inside of a network. Raises ValueError for one whose output has a fixed size."""
    if pool.stride is None:
        raise ValueError(f"pool is {type(pool).__name__}, whose output has a fixed size; use max-pool or average-pool")
    return pool.stride
