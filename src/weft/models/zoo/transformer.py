"""The Transformer of Vaswani et al. 2017: encoder-decoder with sinusoidal positions and post-norm."""

from __future__ import annotations

from functools import partial

from weft.blocks import (
    MultiHeadAttention,
    PositionwiseFeedForward,
    PostNorm,
    SinusoidalPositionEmbedder,
    SumEmbedder,
    TiedHead,
    TokenEmbedder,
    Transformer,
    TransformerDecoder,
    TransformerLayer,
)
from weft.core.contracts import Structure
from weft.core.options import Dim, Dropout, Heads, Layers
from weft.core.registry import Build, composition
from weft.models.seq2seq import Seq2Seq


@composition("transformer-base")
def transformer_base(
    *, dim: Dim = 512, layers: Layers = 6, heads: Heads = 8, hidden: Dim = 2048, dropout: Dropout = 0.1
) -> Build[Structure]:
    """Transformer (base): encoder-decoder for translation.

    Encoder and decoder of ``layers`` post-norm layers, sinusoidal positions, token embeddings times sqrt(dim) that source, target
    and head share.

    Vaswani et al. 2017, table 3, https://arxiv.org/abs/1706.03762

    Args:
        dim: Hidden size.
        layers: Number of encoder layers, and of decoder layers.
        heads: Attention heads per layer.
        hidden: Inner dimension of the feed-forward network.
        dropout: Dropout probability of the sub-layers and of the embeddings.

    Example:
        >>> transformer_base(layers=2).keywords["dim"]
        512
    """
    layer = partial(
        TransformerLayer,
        mixer=partial(MultiHeadAttention, heads=heads),
        feedforward=partial(PositionwiseFeedForward, hidden=hidden),
        residual=partial(PostNorm, dropout=dropout),
    )
    return partial(
        Seq2Seq,
        dim=dim,
        embedder=partial(SumEmbedder, parts=[TokenEmbedder, SinusoidalPositionEmbedder], dropout=dropout),
        encoder=partial(Transformer, layers=layers, layer=layer, position=None, norm=None),
        decoder=partial(TransformerDecoder, layers=layers, layer=layer, position=None, norm=None),
        head=partial(TiedHead, scale=1.0, bias=False),
    )


@composition("transformer-big")
def transformer_big(
    *, dim: Dim = 1024, layers: Layers = 6, heads: Heads = 16, hidden: Dim = 4096, dropout: Dropout = 0.3
) -> Build[Structure]:
    """Transformer (big): encoder-decoder for translation.

    ``transformer-base`` with twice the dimensions, 16 heads and dropout 0.3.

    Vaswani et al. 2017, table 3, https://arxiv.org/abs/1706.03762

    Args:
        dim: Hidden size.
        layers: Number of encoder layers, and of decoder layers.
        heads: Attention heads per layer.
        hidden: Inner dimension of the feed-forward network.
        dropout: Dropout probability of the sub-layers and of the embeddings.

    Example:
        >>> transformer_big(layers=2).keywords["dim"]
        1024
    """
    return transformer_base(dim=dim, layers=layers, heads=heads, hidden=hidden, dropout=dropout)
