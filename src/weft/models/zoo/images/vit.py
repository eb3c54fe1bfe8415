"""A Vision Transformer as an image network: the hidden states of its patches as feature maps."""

from __future__ import annotations

from torch import Tensor

from weft.blocks import FirstPooler, PatchEmbedder
from weft.core.contracts import Backbone, Embedder, Encoder, Pooler
from weft.core.fields import ImageField
from weft.core.options import Dim
from weft.core.registry import Build, block
from weft.core.seq import Seq
from weft.models.zoo.sizes import ModelSize
from weft.models.zoo.vit import body

_TINY = body(ModelSize(192, 12, 3, 768), patch=16)
"""ViT-Ti/16 of Touvron et al. 2021 (DeiT), https://arxiv.org/abs/2012.12877."""


@block("vit")
class VisionTransformer(Backbone):
    """Vision Transformer: the hidden states of the patches as feature maps, in a single stage.

    maps(row, column) = hidden state of that patch,  vector = pooler(hidden states)

    The defaults are the size tiny of Touvron et al. 2021 (DeiT), https://arxiv.org/abs/2012.12877

    Dosovitskiy et al. 2021, https://arxiv.org/abs/2010.11929

    Args:
        dim: Hidden size.
        embedder: Embeds the patches: the embedder patch, perhaps inside of sum; its patches must divide the image.
        encoder: Maps the patch embeddings to hidden states.
        pooler: Pools the hidden states into the vector: first = the class token; mean, for an embedder without one.

    Example:
        >>> import torch
        >>> from functools import partial
        >>> from weft.blocks import Transformer
        >>> network = VisionTransformer(ImageField("image", 3, 32, 32), dim=8, encoder=partial(Transformer, layers=2))
        >>> [tuple(maps.shape) for maps in network(torch.ones(1, 3, 32, 32))], network.strides
        ([(1, 8, 2, 2)], (16,))
    """

    def __init__(
        self,
        field: ImageField,
        *,
        dim: Dim = 192,
        embedder: Build[Embedder] = _TINY["embedder"],
        encoder: Build[Encoder] = _TINY["encoder"],
        pooler: Build[Pooler] = FirstPooler,
    ):
        super().__init__(field)
        self.embedder = embedder(dim, field)
        patches = [module for module in self.embedder.modules() if isinstance(module, PatchEmbedder)]
        if len(patches) != 1:
            raise ValueError(f"embedder is {type(self.embedder).__name__} with {len(patches)} patch embedders; use patch")
        self.encoder = encoder(dim)
        self.pooler: Pooler | None = pooler(dim)
        size = patches[0].size
        self.grid = field.height // size, field.width // size
        self.set_stages([dim], [size])

    def _hidden(self, x_BCHW: Tensor) -> Seq:
        return self.encoder(self.embedder(Seq(x_BCHW)))

    def feature_maps(self, x_BCHW: Tensor) -> list[Tensor]:
        patches = self.grid[0] * self.grid[1]
        return [self._hidden(x_BCHW).data[:, -patches:].mT.unflatten(2, self.grid)]  # after the class token, if there is one

    def vector(self, x_BCHW: Tensor) -> Tensor:
        if self.pooler is None:
            return super().vector(x_BCHW)
        self.check_shape(x_BCHW)
        return self.pooler(self._hidden(x_BCHW))

    def keep_maps(self) -> None:
        self.pooler = None
