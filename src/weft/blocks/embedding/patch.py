"""Patch embeddings of images. Shape suffixes: C channels, P side of a patch, N patches; others: see seq.py."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from weft.blocks.embedding.position import LearnedPositionEmbedder
from weft.core.contracts import Embedder
from weft.core.fields import Field, ImageField, VectorField
from weft.core.options import Count
from weft.core.registry import Build, block
from weft.core.seq import Seq


@block("patch")
class PatchEmbedder(Embedder):
    """Patch embeddings of an image: a linear projection of each patch, with a class token and position embeddings.

    x_n = W patch_n + b + p_n, with n over the patches in row-major order; a learned class token may precede them

    W is stored as D x C x P x P, the weight of a convolution with stride P. It is initialized such that pixels of variance 1 give
    embeddings of variance 1.

    Dosovitskiy et al. 2021 (ViT), https://arxiv.org/abs/2010.11929

    Args:
        size: Height and width of a patch in pixels; must divide those of the image.
        cls_token: Whether to prepend a learned class token ([CLS]), whose hidden state represents the image.
        position: Position embeddings; None = none.

    Example:
        >>> import torch
        >>> patch = PatchEmbedder(4, ImageField("image", 3, 8, 8), size=4)
        >>> patch(Seq(torch.ones(2, 3, 8, 8))).data.shape
        torch.Size([2, 5, 4])
    """

    images = True

    def __init__(
        self,
        dim: int,
        field: Field,
        *,
        size: Count = 16,
        cls_token: bool = True,
        position: Build[Embedder] | None = LearnedPositionEmbedder,
    ):
        super().__init__(dim, field)
        if not isinstance(field, ImageField):
            raise ValueError(f"the embedder patch needs images, but the field {field.name!r} is of type {field.kind}")
        self.number = patch_count(field, size)
        self.size, self.shape = size, field.shape
        self.weight = nn.Parameter(torch.empty(dim, field.channels, size, size))
        self.bias = nn.Parameter(torch.zeros(dim))
        self.cls_token = nn.Parameter(torch.empty(dim)) if cls_token else None
        grid = (field.height // size, field.width // size)
        patches = VectorField(field.name, dim, self.number + cls_token, grid)
        self.position = None if position is None else position(dim, patches)
        nn.init.normal_(self.weight, std=(field.channels * size * size) ** -0.5)
        if self.cls_token is not None:
            nn.init.normal_(self.cls_token)

    def forward(self, x: Seq) -> Seq:
        if x.data.shape[1:] != self.shape:
            found, expected = (" x ".join(map(str, shape)) for shape in (x.data.shape[1:], self.shape))
            raise ValueError(f"the image has {found} (channels x height x width), but the model expects {expected}")
        x_BDhw = F.conv2d(x.data.to(self.weight.dtype), self.weight, self.bias, stride=self.size)
        x_BTD = x_BDhw.flatten(2).transpose(1, 2)
        if self.cls_token is not None:
            x_BTD = torch.cat([self.cls_token.to(x_BTD.dtype).expand(len(x_BTD), 1, -1), x_BTD], 1)
        patches = x.with_data(x_BTD)
        return patches if self.position is None else patches.with_data(x_BTD + self.position(patches).data)


def patch_count(field: ImageField, size: int) -> int:
    """Number of patches of ``size`` x ``size`` pixels in an image of the field."""
    if field.height % size or field.width % size:
        sides = " and ".join(map(str, dict.fromkeys((field.height, field.width))))
        raise ValueError(
            f"images of {field.height} x {field.width} pixels are not divisible into patches of {size} x {size}; "
            f"set size to a divisor of {sides}"
        )
    return (field.height // size) * (field.width // size)


def patchify(image_BCHW: Tensor, size: int) -> Tensor:
    """B x N x (C P P): the pixels of each patch in row-major order, channels first as in ``PatchEmbedder.weight``.

    Example:
        >>> patchify(torch.arange(16.0).view(1, 1, 4, 4), 2)[0, 1].tolist()
        [2.0, 3.0, 6.0, 7.0]
    """
    height, width = image_BCHW.shape[2:]
    if height % size or width % size:
        raise ValueError(f"an image of {height} x {width} pixels is not divisible into patches of {size} x {size}")
    x_BChPwP = image_BCHW.unflatten(3, (-1, size)).unflatten(2, (-1, size))
    return x_BChPwP.permute(0, 2, 4, 1, 3, 5).flatten(3).flatten(1, 2)


def unpatchify(patches_BNE: Tensor, size: int, height: int, width: int) -> Tensor:
    """B x C x H x W: the image of the patches, the inverse of ``patchify``; E = C P P."""
    x_BhwCPP = patches_BNE.unflatten(2, (-1, size, size)).unflatten(1, (height // size, width // size))
    return x_BhwCPP.permute(0, 3, 1, 4, 2, 5).flatten(4).flatten(2, 3)
