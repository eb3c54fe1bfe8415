"""The Transformer as it was published, as choices over ``Seq2Seq``."""

from __future__ import annotations

from functools import partial

from weft.blocks import (
    MultiHead,
    PositionwiseFeedForward,
    PostNorm,
    Sinusoidal,
    Sum,
    Tied,
    Token,
    Transformer,
    TransformerDecoder,
    TransformerLayer,
)
from weft.core.contracts import Structure
from weft.core.options import Dropout, Heads, Layers, Width
from weft.core.registry import Build, composition
from weft.models.seq2seq import Seq2Seq


@composition("transformer-base")
def transformer_base(
    *, dim: Width = 512, layers: Layers = 6, heads: Heads = 8, hidden: Width = 2048, dropout: Dropout = 0.1
) -> Build[Structure]:
    """The Transformer for translation, base model.

    Encoder and decoder of ``layers`` layers with post-norm, sinusoidal positions, vectors times sqrt(dim), one table for
    source, target and head.

    Vaswani et al. 2017, table 3, https://arxiv.org/abs/1706.03762

    Args:
        dim: Width.
        layers: Layers of the encoder, and of the decoder.
        heads: Heads of every attention.
        hidden: Width inside the feed-forward maps.
        dropout: Of every sub-layer's result and of the embedded tokens.

    Example:
        >>> transformer_base(layers=2).keywords["dim"]
        512
    """
    layer = partial(
        TransformerLayer,
        mixer=partial(MultiHead, heads=heads),
        feedforward=partial(PositionwiseFeedForward, hidden=hidden),
        residual=partial(PostNorm, dropout=dropout),
    )
    return partial(
        Seq2Seq,
        dim=dim,
        embedder=partial(Sum, parts=[Token, Sinusoidal], dropout=dropout),
        encoder=partial(Transformer, layers=layers, layer=layer, position=None, norm=None),
        decoder=partial(TransformerDecoder, layers=layers, layer=layer, position=None, norm=None),
        head=partial(Tied, scale=1.0, bias=False),
    )


@composition("transformer-big")
def transformer_big(
    *, dim: Width = 1024, layers: Layers = 6, heads: Heads = 16, hidden: Width = 4096, dropout: Dropout = 0.3
) -> Build[Structure]:
    """The Transformer for translation, big model.

    As ``transformer-base``, twice as wide, with 16 heads and more dropout.

    Vaswani et al. 2017, table 3, https://arxiv.org/abs/1706.03762

    Args:
        dim: Width.
        layers: Layers of the encoder, and of the decoder.
        heads: Heads of every attention.
        hidden: Width inside the feed-forward maps.
        dropout: Of every sub-layer's result and of the embedded tokens.

    Example:
        >>> transformer_big(layers=2).keywords["dim"]
        1024
    """
    return transformer_base(dim=dim, layers=layers, heads=heads, hidden=hidden, dropout=dropout)
