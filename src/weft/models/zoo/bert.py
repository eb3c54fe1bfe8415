"""BERT, RoBERTa, ALBERT and ELECTRA: encoder-only Transformers with learned positions, segment embeddings and post-norm."""

from __future__ import annotations

from functools import partial
from typing import Any, Literal

from weft.blocks import (
    GELU,
    ClassifierHead,
    Dense,
    FirstPooler,
    GELUTanh,
    LayerNorm,
    LearnedPositionEmbedder,
    MultiHeadAttention,
    PositionwiseFeedForward,
    PostNorm,
    SharedTransformer,
    SumEmbedder,
    TiedHead,
    TokenEmbedder,
    TokenTypeEmbedder,
    Transformer,
    TransformerLayer,
    UntiedHead,
)
from weft.core.contracts import Activation, Head, Pooler, Structure
from weft.core.options import Count, Dim, Dropout, FileOrFolder, Heads, Layers
from weft.core.registry import Build, composition
from weft.models.zoo.family import BERT_POOLER, Task, task_model
from weft.models.zoo.sizes import ModelSize

BERT = {
    "tiny": ModelSize(128, 2, 2, 512),
    "mini": ModelSize(256, 4, 4, 1024),
    "small": ModelSize(512, 4, 8, 2048),
    "medium": ModelSize(512, 8, 8, 2048),
    "base": ModelSize(768, 12, 12, 3072),
    "large": ModelSize(1024, 24, 16, 4096),
}
"""Devlin et al. 2019, section 3; the smaller ones: Turc et al. 2019, https://arxiv.org/abs/1908.08962"""
ALBERT = {
    "base": BERT["base"],
    "large": BERT["large"],
    "xlarge": ModelSize(2048, 24, 16, 8192),
    "xxlarge": ModelSize(4096, 12, 64, 16384),
}
"""Lan et al. 2020, table 1."""
ELECTRA = {"small": ModelSize(256, 12, 4, 1024), "base": BERT["base"], "large": BERT["large"]}
"""Clark et al. 2020, appendix B, table 6 (the discriminators)."""
ELECTRA_EMBEDDING_DIM = {"small": 128, "base": 768, "large": 1024}


def electra_summary(activation: Build[Activation] | None = GELU) -> Build[Pooler]:
    """The pooler of ELECTRA's multiple-choice model in transformers: a dense layer over the first hidden state."""
    return partial(FirstPooler, transform=partial(Dense, activation=activation))


def body(
    size: ModelSize,
    *,
    length: int,
    offset: int = 0,
    segments: int = 2,
    embedding_dim: int | None = None,
    project: bool = False,
    groups: int | None = None,
    activation: Build[Activation] = GELU,
    eps: float = 1e-12,
    dropout: float = 0.1,
    attention_dropout: float | None = None,
) -> dict[str, Any]:
    """``dim``, ``embedder`` and ``encoder`` of BERT: normalized token, position and segment embeddings, post-norm layers."""
    norm = partial(LayerNorm, eps=eps)
    layer = partial(
        TransformerLayer,
        mixer=partial(MultiHeadAttention, heads=size.heads, dropout=dropout if attention_dropout is None else attention_dropout),
        feedforward=partial(PositionwiseFeedForward, hidden=size.hidden, activation=activation),
        residual=partial(PostNorm, norm=norm, dropout=dropout),
    )
    stack = Transformer if groups is None else partial(SharedTransformer, groups=groups)
    positions = partial(LearnedPositionEmbedder, length=length, offset=offset)
    return {
        "dim": size.dim,
        "embedder": partial(
            SumEmbedder,
            parts=[partial(TokenEmbedder, scale=1.0), positions, partial(TokenTypeEmbedder, mark="segment", size=segments)],
            norm=norm,
            dropout=dropout,
            embedding_dim=embedding_dim,
            project=Dense if project else None,
        ),
        "encoder": partial(stack, layers=size.layers, layer=layer, position=None, norm=None),
    }


def masked_lm_head(
    *, activation: Build[Activation] = GELU, eps: float = 1e-12, tied: bool = True, embedding_dim: int | None = None
) -> Build[Head]:
    """The masked-LM head of BERT: dense layer, activation, layer norm, then the token embeddings or an untied matrix."""
    transform = partial(Dense, activation=activation, norm=partial(LayerNorm, eps=eps))
    return (
        partial(TiedHead, scale=1.0, transform=transform)
        if tied
        else partial(UntiedHead, transform=transform, embedding_dim=embedding_dim)
    )


@composition("bert")
def bert(
    *,
    size: Literal["tiny", "mini", "small", "medium", "base", "large"] = "base",
    dim: Dim | None = None,
    layers: Layers | None = None,
    heads: Heads | None = None,
    hidden: Dim | None = None,
    length: Count = 512,
    dropout: Dropout = 0.1,
    task: Task = "masked-lm",
    pooler: Build[Pooler] | None = None,
    weights: FileOrFolder | None = None,
) -> Build[Structure]:
    """BERT: bidirectional Transformer encoder.

    Token, learned position and segment embeddings; ``layers`` post-norm layers with GELU. The task masked-lm also has the
    next-sentence head, as in pre-training.

    Devlin et al. 2019, https://arxiv.org/abs/1810.04805

    Args:
        size: A published size.
        dim: Hidden size; None = that of the size. If set, heads default to dim / 64 and hidden to 4 dim.
        layers: Number of layers; None = that of the size.
        heads: Attention heads per layer; None = that of the size.
        hidden: Inner dimension of the feed-forward network; None = that of the size.
        length: Number of positions.
        dropout: Dropout probability of the sub-layers, the attention weights and the embeddings.
        task: The task, and so the head; encode has none.
        pooler: Pools the hidden states; None = a dense layer with tanh over the first hidden state, as published.
        weights: Folder of a published model or of a run whose weights of the same name initialize this model; None = random.

    Example:
        >>> bert(size="tiny").keywords["dim"]
        128
    """
    parts = body(BERT[size].override(dim, layers, heads, hidden), length=length, dropout=dropout)
    model = task_model(
        task,
        parts,
        mlm_head=masked_lm_head(),
        with_segment_head=task == "masked-lm",
        head=partial(ClassifierHead, dropout=dropout),
        pooler=pooler,
    )
    return partial(model, weights=weights)


@composition("roberta")
def roberta(
    *,
    size: Literal["base", "large"] = "base",
    dim: Dim | None = None,
    layers: Layers | None = None,
    heads: Heads | None = None,
    hidden: Dim | None = None,
    length: Count = 512,
    dropout: Dropout = 0.1,
    task: Task = "masked-lm",
    pooler: Build[Pooler] | None = None,
    weights: FileOrFolder | None = None,
) -> Build[Structure]:
    """RoBERTa: BERT without segments and without next-sentence prediction, trained longer.

    Liu et al. 2019, https://arxiv.org/abs/1907.11692

    Args:
        size: A published size.
        dim: Hidden size; None = that of the size. If set, heads default to dim / 64 and hidden to 4 dim.
        layers: Number of layers; None = that of the size.
        heads: Attention heads per layer; None = that of the size.
        hidden: Inner dimension of the feed-forward network; None = that of the size.
        length: Number of positions.
        dropout: Dropout probability of the sub-layers, the attention weights and the embeddings.
        task: The task, and so the head; encode has none.
        pooler: Pools the hidden states; None = the first hidden state.
        weights: Folder of a published model or of a run whose weights of the same name initialize this model; None = random.

    Example:
        >>> roberta(size="large").keywords["dim"]
        1024
    """
    sizes = BERT[size].override(dim, layers, heads, hidden)
    parts = body(sizes, length=length, offset=2, segments=1, eps=1e-5, dropout=dropout)
    model = task_model(
        task,
        parts,
        mlm_head=masked_lm_head(eps=1e-5),
        published_pooler=BERT_POOLER if task == "multiple-choice" else None,
        head=partial(ClassifierHead, hidden=sizes.dim, dropout=dropout),
        pooler=pooler,
    )
    return partial(model, weights=weights)


@composition("albert")
def albert(
    *,
    size: Literal["base", "large", "xlarge", "xxlarge"] = "base",
    dim: Dim | None = None,
    layers: Layers | None = None,
    heads: Heads | None = None,
    hidden: Dim | None = None,
    embedding_dim: Dim = 128,
    groups: Layers = 1,
    length: Count = 512,
    dropout: Dropout = 0.0,
    task: Task = "masked-lm",
    pooler: Build[Pooler] | None = None,
    weights: FileOrFolder | None = None,
) -> Build[Structure]:
    """ALBERT: BERT with factorized token embeddings and parameters shared across layers.

    Lan et al. 2020, https://arxiv.org/abs/1909.11942

    Args:
        size: A published size.
        dim: Hidden size; None = that of the size. If set, heads default to dim / 64 and hidden to 4 dim.
        layers: Number of layers; None = that of the size.
        heads: Attention heads per layer; None = that of the size.
        hidden: Inner dimension of the feed-forward network; None = that of the size.
        embedding_dim: Dimension of the token embeddings, projected to dim.
        groups: Number of layer groups; the layers of a group share their parameters.
        length: Number of positions.
        dropout: Dropout probability of the sub-layers, the attention weights and the embeddings.
        task: The task, and so the head; encode has none.
        pooler: Pools the hidden states; None = a dense layer with tanh over the first hidden state, as published.
        weights: Folder of a published model or of a run whose weights of the same name initialize this model; None = random.

    Example:
        >>> albert().keywords["dim"]
        768
    """
    sizes = ALBERT[size].override(dim, layers, heads, hidden)
    parts = body(
        sizes, length=length, embedding_dim=embedding_dim, project=True, groups=groups, activation=GELUTanh, dropout=dropout
    )
    model = task_model(
        task,
        parts,
        mlm_head=masked_lm_head(activation=GELUTanh),
        with_segment_head=task == "masked-lm",
        head=partial(ClassifierHead, dropout=0.1),
        pooler=pooler,
    )
    return partial(model, weights=weights)


@composition("electra")
def electra(
    *,
    size: Literal["small", "base", "large"] = "base",
    dim: Dim | None = None,
    layers: Layers | None = None,
    heads: Heads | None = None,
    hidden: Dim | None = None,
    embedding_dim: Dim | None = None,
    length: Count = 512,
    dropout: Dropout = 0.1,
    task: Task = "replaced-token",
    pooler: Build[Pooler] | None = None,
    weights: FileOrFolder | None = None,
) -> Build[Structure]:
    """ELECTRA: BERT's encoder, pre-trained as a discriminator of replaced tokens.

    Clark et al. 2020, https://arxiv.org/abs/2003.10555

    Args:
        size: A published size.
        dim: Hidden size; None = that of the size. If set, heads default to dim / 64 and hidden to 4 dim.
        layers: Number of layers; None = that of the size.
        heads: Attention heads per layer; None = that of the size.
        hidden: Inner dimension of the feed-forward network; None = that of the size.
        embedding_dim: Dimension of the token embeddings; None = that of the size, or dim where dim is set.
        length: Number of positions.
        dropout: Dropout probability of the sub-layers, the attention weights and the embeddings.
        task: The task, and so the head; encode has none, masked-lm is the generator.
        pooler: Pools the hidden states; None = the first hidden state.
        weights: Folder of a published model or of a run whose weights of the same name initialize this model; None = random.

    Example:
        >>> electra(size="small").keywords["dim"]
        256
    """
    sizes = ELECTRA[size].override(dim, layers, heads, hidden)
    embedding_dim = embedding_dim or (ELECTRA_EMBEDDING_DIM[size] if dim is None else sizes.dim)
    parts = body(sizes, length=length, embedding_dim=None if embedding_dim == sizes.dim else embedding_dim, dropout=dropout)
    model = task_model(
        task,
        parts,
        mlm_head=masked_lm_head(),
        discriminator=partial(ClassifierHead, hidden=sizes.dim, activation=GELU),
        published_pooler=electra_summary() if task == "multiple-choice" else None,
        head=partial(ClassifierHead, hidden=sizes.dim, activation=GELU, dropout=dropout),
        pooler=pooler,
    )
    return partial(model, weights=weights)
