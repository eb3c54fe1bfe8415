"""Image encoder: hidden states of patches."""

from __future__ import annotations

from functools import partial

from weft.blocks import PatchEmbedder, Transformer
from weft.core.contracts import Embedder, Encoder, EncodesImages, Pooler
from weft.core.fields import ImageField, Info
from weft.core.options import Dim, FileOrFolder
from weft.core.registry import Build, block
from weft.models.encoder_model import EncoderModel


def image_field(info: Info) -> ImageField:
    """The image of the data. Raises ValueError for data without one."""
    images = info.images()
    if not images:
        raise ValueError(
            f"the data ({info.data}) has no image field, only {', '.join(info.fields)}; use data such as labeled-images"
        )
    return images[0]


@block("image-encoder")
class ImageEncoder(EncoderModel, EncodesImages):
    """Encoder over the patches of an image.

    hidden = encoder(embedder(image)), one vector per patch

    Dosovitskiy et al. 2021 (ViT), https://arxiv.org/abs/2010.11929

    Args:
        dim: Hidden size.
        embedder: Embeds the patches.
        encoder: Maps the patch embeddings to hidden states.
        pooler: Pools the hidden states into one vector; None = no pooler.
        weights: Folder of a published model or of a run whose weights of the same name initialize this model; None = random.

    Example:
        >>> import torch
        >>> from weft.core.seq import Seq
        >>> model = ImageEncoder(Info({"image": ImageField("image", 3, 32, 32)}), dim=8)
        >>> model.encode(Seq(torch.zeros(1, 3, 32, 32))).data.shape
        torch.Size([1, 5, 8])
    """

    def __init__(
        self,
        info: Info,
        *,
        dim: Dim = 128,
        embedder: Build[Embedder] = PatchEmbedder,
        encoder: Build[Encoder] = partial(Transformer, position=None),
        pooler: Build[Pooler] | None = None,
        weights: FileOrFolder | None = None,
    ):
        super().__init__(info, image_field(info), dim=dim, embedder=embedder, encoder=encoder, pooler=pooler, weights=weights)
