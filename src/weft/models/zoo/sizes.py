"""Sizes of published models, and how options override them."""

from __future__ import annotations

from typing import NamedTuple

_HEAD_DIM = 64
"""Dimension of an attention head in nearly all published models."""
_MAX_HIDDEN = 10**6


class ModelSize(NamedTuple):
    """Hyperparameters that fix the size of a Transformer.

    Args:
        dim: Hidden size.
        layers: Number of layers; of an encoder-decoder, those of the encoder.
        heads: Attention heads per layer.
        hidden: Inner dimension of the feed-forward network; None = 4 dim.
        head_dim: Dimension of an attention head; None = dim / heads.
        decoder_layers: Layers of the decoder; None = as many as the encoder has.
        kv_heads: Heads of keys and values; None = heads.
    """

    dim: int
    layers: int
    heads: int
    hidden: int | None = None
    head_dim: int | None = None
    decoder_layers: int | None = None
    kv_heads: int | None = None

    def override(
        self, dim: int | None, layers: int | None, heads: int | None, hidden: int | None = None, kv_heads: int | None = None
    ) -> ModelSize:
        """This size with the options that are not None. A new ``dim`` sets heads to dim / 64 and hidden to 4 dim; it or new
        ``heads`` set kv_heads to heads."""
        size = self
        if dim is not None:
            inner = None if self.hidden is None else min(4 * dim, _MAX_HIDDEN)
            size = size._replace(dim=dim, heads=max(1, dim // _HEAD_DIM), hidden=inner, head_dim=None, kv_heads=None)
        if heads is not None:
            size = size._replace(heads=heads, head_dim=None, kv_heads=None)
        return size._replace(layers=layers or size.layers, hidden=hidden or size.hidden, kv_heads=kv_heads or size.kv_heads)

    def override_with_head_dim(self, dim: int | None, layers: int | None, heads: int | None, hidden: int | None) -> ModelSize:
        """This size with the options that are not None; the dimension of a head stays, as in T5."""
        return self._replace(
            dim=dim or self.dim,
            layers=layers or self.layers,
            heads=heads or self.heads,
            hidden=hidden or self.hidden,
            decoder_layers=layers or self.decoder_layers,
        )
