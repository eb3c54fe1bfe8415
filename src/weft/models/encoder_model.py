"""The shared implementation of task models: embedder, encoder and, where there is one, a pooler. Suffixes: see seq.py."""

from __future__ import annotations

from torch import Tensor

from weft.core.contracts import Embedder, Encoder, Encodes, Pooler, Structure
from weft.core.fields import Field, Info
from weft.core.masks import Full, Mask
from weft.core.registry import Build
from weft.core.seq import Seq


class EncoderModel(Structure, Encodes):
    """Base class of structures that encode one sequence; subclasses add task heads.

    hidden = encoder(embedder(x)),  features = pooler(hidden)

    Args:
        info: The fields of the data.
        field: The field that is encoded.
        dim: Hidden size.
        embedder: Embeds the tokens or patches.
        encoder: Maps the embeddings to hidden states.
        pooler: Pools the hidden states into one vector; None = no pooler.
        weights: See ``Structure``.
    """

    def __init__(
        self,
        info: Info,
        field: Field,
        *,
        dim: int,
        embedder: Build[Embedder],
        encoder: Build[Encoder],
        pooler: Build[Pooler] | None = None,
        weights: str | None = None,
    ):
        super().__init__(info, weights=weights)
        self.dim = dim
        self.embedder = embedder(dim, field)
        self.encoder = encoder(dim)
        self.pooler = None if pooler is None else pooler(dim)

    def encode(self, x: Seq, mask: Mask = Full()) -> Seq:
        return self.encoder(self.embedder(x), mask)

    def features(self, x: Seq) -> Tensor:
        """B x D, the pooled hidden states."""
        if self.pooler is None:
            raise ValueError(f"this {type(self).__name__} has no pooler; set the option pooler, for example to mean or first")
        return self.pooler(self.encode(x))

    def forward(self, x: Seq | Tensor, mask: Tensor | None = None) -> Tensor:
        """B x T x D hidden states. See ``Structure``."""
        return self.encode(Seq.of(x, mask)).data
