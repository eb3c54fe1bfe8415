"""n -> n over the patches of an image. Suffixes: see seq.py."""

from __future__ import annotations

from functools import partial

from torch import Tensor

from weft.blocks import Patch, Transformer
from weft.core.contracts import Embedder, Encoder, Encodes, EncodesImages, Pooler, Structure
from weft.core.fields import Info
from weft.core.masks import Full, Mask
from weft.core.options import Place, Width
from weft.core.registry import Build, block
from weft.core.seq import Seq


@block("image-encoder")
class ImageEncoder(Structure, Encodes, EncodesImages):
    """Looks at an image and makes a vector of each of its patches.

    y = encoder(embedder(image))

    Dosovitskiy et al. 2021 (ViT), https://arxiv.org/abs/2010.11929

    Args:
        dim: Width of all vectors between the parts.
        embedder: Vectors of the patches.
        encoder: n -> n, over the patches.
        pooler: Makes one vector of an image; None = it has none.
        weights: A published model's folder, or a run's, from which all weights of the same name are taken; None = random ones.

    Example:
        >>> import torch
        >>> from weft.core.fields import Field
        >>> model = ImageEncoder(Info({"image": Field("image", 3, kind="image", length=32)}), dim=8)
        >>> model.encode(Seq(torch.zeros(1, 3, 32, 32))).data.shape
        torch.Size([1, 5, 8])
    """

    def __init__(
        self,
        info: Info,
        *,
        dim: Width = 128,
        embedder: Build[Embedder] = Patch,
        encoder: Build[Encoder] = partial(Transformer, position=None),
        pooler: Build[Pooler] | None = None,
        weights: Place | None = None,
    ):
        super().__init__(info, weights=weights)
        if not info.images():
            raise ValueError(f"looks at images, but the data ({info.data}) gives: {', '.join(info.fields)}")
        self.dim = dim
        self.embedder = embedder(dim, info.images()[0])
        self.encoder = encoder(dim)
        self.pooler = None if pooler is None else pooler(dim)

    def encode(self, x: Seq, mask: Mask = Full()) -> Seq:
        return self.encoder(self.embedder(x), mask)

    def features(self, x: Seq) -> Tensor:
        if self.pooler is None:
            raise ValueError("this encoder makes no vector of a whole image; give it a pooler, such as mean or first")
        return self.pooler(self.encode(x))
