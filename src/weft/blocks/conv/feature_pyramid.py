"""Feature pyramid network over the stages of an image network."""

from __future__ import annotations

import torch.nn.functional as F
from torch import Tensor, nn

from weft.blocks.conv.convolution import Convolution2d
from weft.core.contracts import Backbone
from weft.core.fields import ImageField
from weft.core.options import Dim
from weft.core.registry import Build, block


@block("feature-pyramid")
class FeaturePyramid(Backbone):
    """Feature pyramid network: every stage of an image network with the context of the coarser stages, all with ``dim`` channels.

    P_s = W_s * M_s,  M_s = L_s * C_s + upsample(M_s+1), with the feature maps C_s of the stages, L_s 1 x 1 and W_s 3 x 3

    The coarsest stage has no M_s+1. The vector is the average of the coarsest P_s.

    Lin et al. 2017, https://arxiv.org/abs/1612.03144

    Args:
        encoder: The image network.
        dim: Channels of every stage.

    Example:
        >>> import torch
        >>> from functools import partial
        >>> from weft.blocks import ResNet
        >>> pyramid = FeaturePyramid(ImageField("image", 3, 32, 32), encoder=partial(ResNet, dims=[8, 16], layers=[1, 1]), dim=4)
        >>> [tuple(maps.shape) for maps in pyramid(torch.ones(1, 3, 32, 32))]
        [(1, 4, 8, 8), (1, 4, 4, 4)]
    """

    def __init__(self, field: ImageField, *, encoder: Build[Backbone], dim: Dim = 256):
        super().__init__(field)
        self.encoder = encoder(field)
        self.encoder.keep_maps()
        self.lateral = nn.ModuleList([Convolution2d(channels, dim, 1) for channels in self.encoder.channels])
        self.smooth = nn.ModuleList([Convolution2d(dim, dim, 3, padding=1) for _ in self.encoder.channels])
        self.set_stages([dim] * len(self.encoder.channels), self.encoder.strides)

    def feature_maps(self, x_BCHW: Tensor) -> list[Tensor]:
        merged: list[Tensor] = []  # from coarse to fine
        for maps_BCHW, lateral in zip(reversed(self.encoder(x_BCHW)), reversed(self.lateral), strict=True):
            own_BCHW = lateral(maps_BCHW)
            merged.append(own_BCHW + F.interpolate(merged[-1], own_BCHW.shape[2:]) if merged else own_BCHW)
        return [smooth(maps_BCHW) for smooth, maps_BCHW in zip(self.smooth, reversed(merged), strict=True)]
