"""T5, T5 v1.1, mT5 and ByT5, as choices over ``Seq2Seq``."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from typing import Any, Literal, NamedTuple

from weft.blocks import (
    Dot,
    Gated,
    GELUTanh,
    MultiHead,
    PositionwiseFeedForward,
    PreNorm,
    RelativeBias,
    ReLU,
    RMSNorm,
    Sum,
    Tied,
    Token,
    Transformer,
    TransformerDecoder,
    TransformerLayer,
    Untied,
)
from weft.core.contracts import Activation, Head, Structure
from weft.core.options import Dropout, Heads, Layers, Place, Width
from weft.core.registry import Build, composition, name_of
from weft.models.seq2seq import Seq2Seq
from weft.models.zoo.family import Config, Layout, activation_name, at, layout
from weft.models.zoo.tensor_names import Rule, rules


class Size(NamedTuple):
    dim: int
    layers: int
    heads: int
    hidden: int
    head_dim: int = 64
    decoder_layers: int | None = None


T5 = {
    "small": Size(512, 6, 8, 2048),
    "base": Size(768, 12, 12, 3072),
    "large": Size(1024, 24, 16, 4096),
    "3b": Size(1024, 24, 32, 16384, 128),
    "11b": Size(1024, 24, 128, 65536, 128),
}
"""Raffel et al. 2020, sections 3.1.1 and 3.7."""
GATED = {
    "small": Size(512, 8, 6, 1024),
    "base": Size(768, 12, 12, 2048),
    "large": Size(1024, 24, 16, 2816),
    "xl": Size(2048, 24, 32, 5120),
    "xxl": Size(4096, 24, 64, 10240),
}
"""Of the published T5 v1.1 and mT5 (Xue et al. 2021)."""
BYT5 = {
    "small": Size(1472, 12, 6, 3584, 64, 4),
    "base": Size(1536, 18, 12, 3968, 64, 6),
    "large": Size(1536, 36, 16, 3840, 64, 12),
    "xl": Size(2560, 36, 32, 6720, 64, 12),
    "xxl": Size(4672, 36, 64, 12352, 64, 12),
}
"""Xue et al. 2022, table 1."""


def reader_and_writer(
    size: Size,
    *,
    gated: bool,
    activation: Build[Activation],
    head: Build[Head],
    eps: float = 1e-6,
    buckets: int = 32,
    distance: int = 128,
    dropout: float = 0.1,
) -> Build[Structure]:
    """Encoder and decoder with pre-norm (RMS), no bias anywhere, plain inner products, and a bias for distances in each stack."""
    norm = partial(RMSNorm, eps=eps)
    attention = partial(MultiHead, heads=size.heads, head_dim=size.head_dim, score=Dot, bias=False, dropout=dropout)
    feedforward = partial(
        Gated if gated else PositionwiseFeedForward, hidden=size.hidden, activation=activation, dropout=dropout, bias=False
    )
    layer = partial(
        TransformerLayer, mixer=attention, feedforward=feedforward, residual=partial(PreNorm, norm=norm, dropout=dropout)
    )
    distances = partial(RelativeBias, heads=size.heads, buckets=buckets, distance=distance)
    return partial(
        Seq2Seq,
        dim=size.dim,
        embedder=partial(Sum, parts=[partial(Token, scale=1.0)], dropout=dropout),
        encoder=partial(Transformer, layers=size.layers, layer=layer, position=distances, norm=norm),
        decoder=partial(
            TransformerDecoder,
            layers=size.decoder_layers or size.layers,
            layer=layer,
            position=partial(distances, both=False),
            norm=norm,
        ),
        head=head,
    )


def chosen(size: Size, dim: int | None, layers: int | None, heads: int | None, hidden: int | None) -> Size:
    """A published size with what is chosen otherwise; heads stay as wide as they are."""
    return Size(
        dim or size.dim,
        layers or size.layers,
        heads or size.heads,
        hidden or size.hidden,
        size.head_dim,
        layers or size.decoder_layers,
    )


@composition("t5")
def t5(
    *,
    size: Literal["small", "base", "large", "3b", "11b"] = "base",
    dim: Width | None = None,
    layers: Layers | None = None,
    heads: Heads | None = None,
    hidden: Width | None = None,
    dropout: Dropout = 0.1,
    weights: Place | None = None,
) -> Build[Structure]:
    """T5: a Transformer from text to text, with distances instead of positions.

    Raffel et al. 2020, https://arxiv.org/abs/1910.10683

    Args:
        size: A published size.
        dim: Width; None = that of the size.
        layers: Layers of the encoder, and of the decoder; None = those of the size.
        heads: Heads of every attention, 64 wide (128 in the two largest); None = those of the size.
        hidden: Width inside the feed-forward maps; None = that of the size.
        dropout: Of every sub-layer's result, of attention weights, of the feed-forward's hidden numbers and of embedded tokens.
        weights: A published model's folder, or a run's, from which all weights of the same name are taken; None = random ones.

    Example:
        >>> t5(size="small").keywords["dim"]
        512
    """
    sizes = chosen(T5[size], dim, layers, heads, hidden)
    head = partial(Tied, scale=sizes.dim**-0.5, bias=False)
    return partial(reader_and_writer(sizes, gated=False, activation=ReLU, head=head, dropout=dropout), weights=weights)


@composition("t5-v1-1")
def t5_v1_1(
    *,
    size: Literal["small", "base", "large", "xl", "xxl"] = "base",
    dim: Width | None = None,
    layers: Layers | None = None,
    heads: Heads | None = None,
    hidden: Width | None = None,
    dropout: Dropout = 0.0,
    weights: Place | None = None,
) -> Build[Structure]:
    """T5 v1.1: T5 with gated feed-forward maps and a head of its own, pre-trained without dropout. mT5 is the same.

    Shazeer 2020, https://arxiv.org/abs/2002.05202; mT5: Xue et al. 2021, https://arxiv.org/abs/2010.11934

    Args:
        size: A published size.
        dim: Width; None = that of the size.
        layers: Layers of the encoder, and of the decoder; None = those of the size.
        heads: Heads of every attention, 64 wide; None = those of the size.
        hidden: Width inside the feed-forward maps; None = that of the size.
        dropout: Of every sub-layer's result, of attention weights, of the feed-forward's hidden numbers and of embedded tokens.
        weights: A published model's folder, or a run's, from which all weights of the same name are taken; None = random ones.

    Example:
        >>> t5_v1_1(size="small").keywords["dim"]
        512
    """
    return partial(_gated(chosen(GATED[size], dim, layers, heads, hidden), dropout), weights=weights)


@composition("mt5")
def mt5(
    *,
    size: Literal["small", "base", "large", "xl", "xxl"] = "base",
    dim: Width | None = None,
    layers: Layers | None = None,
    heads: Heads | None = None,
    hidden: Width | None = None,
    dropout: Dropout = 0.0,
    weights: Place | None = None,
) -> Build[Structure]:
    """mT5: T5 v1.1 for a hundred languages, with a vocabulary of 250,000 pieces.

    Xue et al. 2021, https://arxiv.org/abs/2010.11934

    Args:
        size: A published size.
        dim: Width; None = that of the size.
        layers: Layers of the encoder, and of the decoder; None = those of the size.
        heads: Heads of every attention, 64 wide; None = those of the size.
        hidden: Width inside the feed-forward maps; None = that of the size.
        dropout: Of every sub-layer's result, of attention weights, of the feed-forward's hidden numbers and of embedded tokens.
        weights: A published model's folder, or a run's, from which all weights of the same name are taken; None = random ones.

    Example:
        >>> mt5(size="xl").keywords["dim"]
        2048
    """
    return t5_v1_1(size=size, dim=dim, layers=layers, heads=heads, hidden=hidden, dropout=dropout, weights=weights)


@composition("byt5")
def byt5(
    *,
    size: Literal["small", "base", "large", "xl", "xxl"] = "base",
    dim: Width | None = None,
    layers: Layers | None = None,
    heads: Heads | None = None,
    hidden: Width | None = None,
    dropout: Dropout = 0.0,
    weights: Place | None = None,
) -> Build[Structure]:
    """ByT5: T5 v1.1 on bytes, with an encoder three times as deep as its decoder.

    Xue et al. 2022, https://arxiv.org/abs/2105.13626

    Args:
        size: A published size.
        dim: Width; None = that of the size.
        layers: Layers of the encoder, and of the decoder; None = those of the size.
        heads: Heads of every attention, 64 wide; None = those of the size.
        hidden: Width inside the feed-forward maps; None = that of the size.
        dropout: Of every sub-layer's result, of attention weights, of the feed-forward's hidden numbers and of embedded tokens.
        weights: A published model's folder, or a run's, from which all weights of the same name are taken; None = random ones.

    Example:
        >>> byt5(size="small").keywords["dim"]
        1472
    """
    return partial(_gated(chosen(BYT5[size], dim, layers, heads, hidden), dropout), weights=weights)


def _gated(size: Size, dropout: float) -> Build[Structure]:
    return reader_and_writer(size, gated=True, activation=GELUTanh, head=partial(Untied, bias=False), dropout=dropout)


# --------------------------------------------------------------------------------------------------- published layouts


def _rules(structure: Any) -> list[Rule]:
    named = {"shared.weight": "embedder.parts.0.weight", "lm_head.weight": "head.out.weight"}
    gated = name_of(at(structure, "encoder.layer.feedforward")) == "gated"
    maps = {"wi_0": "gate", "wi_1": "up", "wo": "down"} if gated else {"wi": "up", "wo": "down"}
    for side, last in (("encoder", 1), ("decoder", 2)):
        theirs, ours = f"{side}.block.#.layer", f"{side}.stack.layers.#"
        named[f"{side}.final_layer_norm.*"] = f"{side}.stack.norm.*"
        first = f"{side}.block.0.layer.0.SelfAttention.relative_attention_bias.weight"
        named[first] = f"{side}.stack.position.weight"
        for i, attention, mine in ((0, "SelfAttention", "mixer"), (1, "EncDecAttention", "context"))[:last]:
            for letter, word in (("q", "query"), ("k", "key"), ("v", "value"), ("o", "out")):
                named[f"{theirs}.{i}.{attention}.{letter}.*"] = f"{ours}.{mine}.{word}.*"
            named[f"{theirs}.{i}.layer_norm.*"] = f"{ours}.{mine}_residual.norm.*"
        for name, mine in maps.items():
            named[f"{theirs}.{last}.DenseReluDense.{name}.*"] = f"{ours}.feedforward.{mine}.*"
        named[f"{theirs}.{last}.layer_norm.*"] = f"{ours}.feedforward_residual.norm.*"
    return rules(named)


def _read(config: Config, task: str, names: Iterable[str]) -> Build[Structure]:
    if task != "generation":
        raise ValueError(f"a {config['model_type']} is for the task write, not {task}")
    kind, dim = config["feed_forward_proj"], config["d_model"]
    gated, activation = kind.startswith("gated-"), Config(config, feed_forward_proj=kind.removeprefix("gated-"))
    own = config.get("tie_word_embeddings", True) is False and "lm_head.weight" in names
    scaled = config["model_type"] == "t5" and config.get("scale_decoder_outputs", config.get("tie_word_embeddings", True))
    tied = partial(Tied, scale=dim**-0.5 if scaled else 1.0, bias=False)
    return reader_and_writer(
        Size(
            dim,
            config["num_layers"],
            config["num_heads"],
            config["d_ff"],
            config["d_kv"],
            config.get("num_decoder_layers") or config["num_layers"],
        ),
        gated=gated,
        activation=GELUTanh if kind == "gated-gelu" else activation.activation("feed_forward_proj"),  # as transformers has it
        head=partial(Untied, bias=False) if own else tied,
        eps=config["layer_norm_epsilon"],
        buckets=config["relative_attention_num_buckets"],
        distance=config["relative_attention_max_distance"],
        dropout=config["dropout_rate"],
    )


def _write(tree: Any, kind: str) -> dict[str, Any]:
    layer, dim = at(tree, "encoder.layer"), at(tree, "dim")
    gated, activation = name_of(at(layer, "feedforward")) == "gated", activation_name(at(layer, "feedforward.activation"))
    tied = name_of(at(tree, "head")) == "tied"
    config: dict[str, Any] = {
        "d_model": dim,
        "num_layers": at(tree, "encoder.layers"),
        "num_decoder_layers": at(tree, "decoder.layers"),
        "num_heads": at(layer, "mixer.heads"),
        "d_ff": at(layer, "feedforward.hidden") or 4 * dim,
        "d_kv": at(layer, "mixer.head_dim") or dim // at(layer, "mixer.heads"),
        "layer_norm_epsilon": at(layer, "residual.norm.eps"),
        "relative_attention_num_buckets": at(tree, "encoder.position.buckets"),
        "relative_attention_max_distance": at(tree, "encoder.position.distance"),
        "dropout_rate": at(layer, "residual.dropout"),
        "feed_forward_proj": "gated-gelu" if gated and activation == "gelu_new" else "gated-" * gated + activation,
        "is_encoder_decoder": True,
        "tie_word_embeddings": tied,
    }
    if tied and kind == "t5":
        config["scale_decoder_outputs"] = at(tree, "head.scale") != 1.0
    return config


def _family(kind: str, title: str, feedforward: str) -> None:
    layout(
        Layout(
            type=kind,
            prefix="",
            body=(),
            read=_read,
            write=partial(_write, kind=kind),
            rules=_rules,
            tasks={f"{title}ForConditionalGeneration": "generation", f"{title}Model": "generation"},
            defaults={
                "feed_forward_proj": feedforward,
                "layer_norm_epsilon": 1e-6,
                "relative_attention_num_buckets": 32,
                "relative_attention_max_distance": 128,
                "dropout_rate": 0.1,
            },
            tied=("lm_head.weight",),
            copies=("encoder.embed_tokens.weight", "decoder.embed_tokens.weight"),
            ignored=("decoder.block.*.layer.1.EncDecAttention.relative_attention_bias.weight",),
        )
    )


_family("t5", "T5", "relu")
_family("mt5", "MT5", "gated-gelu")
