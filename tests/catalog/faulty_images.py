"""Faults of image networks, each a block of weft with one thing wrong; test_planted.py plants them."""

from __future__ import annotations

from functools import partial
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from weft.blocks import BatchNorm2d, Convolution, ResNet

from . import checks

Network: Any = partial(ResNet, layers=[1, 1], dims=[4, 8], stem_dim=4)


class CentersBatch(BatchNorm2d):
    """Subtracts the mean image of the batch."""

    def forward(self, x_BCHW: Tensor) -> Tensor:
        return super().forward(x_BCHW - x_BCHW.mean(0, keepdim=True))


class AddsRamp(Convolution):
    """Adds the column to every output."""

    def forward(self, x_BCHW: Tensor) -> Tensor:
        y_BCHW = super().forward(x_BCHW)
        return y_BCHW + torch.arange(y_BCHW.shape[-1], device=y_BCHW.device, dtype=y_BCHW.dtype)


class PadsOneSide(Convolution):
    """Pads at the top and the left only."""

    def __init__(self, channels: int, out: int, stride: int):
        super().__init__(channels, out, stride, padding=0)

    def forward(self, x_BCHW: Tensor) -> Tensor:
        return super().forward(F.pad(x_BCHW, (2, 0, 2, 0)))


class NeverUpdates(BatchNorm2d):
    """Its running statistics stay as they were initialized."""

    def forward(self, x_BCHW: Tensor) -> Tensor:
        if not self.training:
            return super().forward(x_BCHW)
        return F.batch_norm(x_BCHW, None, None, self.weight, self.bias, True)


class AlwaysUpdates(BatchNorm2d):
    """Updates its running statistics in evaluation mode too."""

    def forward(self, x_BCHW: Tensor) -> Tensor:
        self.running_mean.add_(x_BCHW.mean((0, 2, 3)))
        return super().forward(x_BCHW)


class ForgetsShift(BatchNorm2d):
    """Leaves out the shift in evaluation mode."""

    def forward(self, x_BCHW: Tensor) -> Tensor:
        y_BCHW = super().forward(x_BCHW)
        return y_BCHW if self.training else y_BCHW - self.bias[:, None, None]


class CoarseFirst(ResNet):
    """Its stages are in the wrong order."""

    def feature_maps(self, x_BCHW: Tensor) -> list[Tensor]:
        return super().feature_maps(x_BCHW)[::-1]


class WrongStrides(ResNet):
    """Declares the strides without that of the stem."""

    def set_stages(self, channels: Any, strides: Any, dim: int | None = None) -> None:
        super().set_stages(channels, [stride // 2 for stride in strides], dim)


class AnyShape(ResNet):
    """Accepts images of any size."""

    def check_shape(self, x_BCHW: Tensor) -> None:
        pass


def small(network: type[ResNet]) -> Any:
    """The network with one unit in each of two stages."""
    return partial(network, **Network.keywords)


PLANTED: list[tuple[checks.Check, Any, Any]] = [
    (checks.check_feature_shapes, Convolution, partial(Convolution, padding=0)),
    (checks.check_feature_shapes, BatchNorm2d, CentersBatch),
    (checks.check_translation, Convolution, AddsRamp),
    (checks.check_alignment, Convolution, PadsOneSide),
    (checks.check_running_statistics, BatchNorm2d, NeverUpdates),
    (checks.check_running_statistics, BatchNorm2d, AlwaysUpdates),
    (checks.check_running_statistics, BatchNorm2d, ForgetsShift),
    (checks.check_pyramid, Network, small(CoarseFirst)),
    (checks.check_pyramid, Network, small(WrongStrides)),
    (checks.check_image_shape, Network, small(AnyShape)),
]
