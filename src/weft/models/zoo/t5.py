"""T5, T5 v1.1, mT5 and ByT5: encoder-decoder models with relative position biases."""

from __future__ import annotations

from functools import partial
from typing import Any, Literal

from weft.blocks import (
    DotScore,
    GatedFeedForward,
    GELUTanh,
    MultiHeadAttention,
    PositionwiseFeedForward,
    PreNorm,
    RelativePositionBias,
    ReLU,
    RMSNorm,
    SumEmbedder,
    TiedHead,
    TokenEmbedder,
    Transformer,
    TransformerDecoder,
    TransformerLayer,
    UntiedHead,
)
from weft.core.contracts import Activation, Head, Structure
from weft.core.options import Dim, Dropout, FileOrFolder, Heads, Layers, NonNegative
from weft.core.registry import Build, composition, name_of
from weft.models.seq2seq import Seq2Seq
from weft.models.zoo.config import ModelConfig, SameAs, activation_name, activation_named
from weft.models.zoo.config_table import HIDDEN, Computed, Constant, Conversion, Key, Row
from weft.models.zoo.family import TIED_EMBEDDINGS, Family, has_own_head, register_family
from weft.models.zoo.option_paths import option_at
from weft.models.zoo.sizes import ModelSize
from weft.models.zoo.tensor_names import Rule, rules

T5 = {
    "small": ModelSize(512, 6, 8, 2048, 64),
    "base": ModelSize(768, 12, 12, 3072, 64),
    "large": ModelSize(1024, 24, 16, 4096, 64),
    "3b": ModelSize(1024, 24, 32, 16384, 128),
    "11b": ModelSize(1024, 24, 128, 65536, 128),
}
"""Raffel et al. 2020, sections 3.1.1 and 3.7."""
T5_V1_1 = {
    "small": ModelSize(512, 8, 6, 1024, 64),
    "base": ModelSize(768, 12, 12, 2048, 64),
    "large": ModelSize(1024, 24, 16, 2816, 64),
    "xl": ModelSize(2048, 24, 32, 5120, 64),
    "xxl": ModelSize(4096, 24, 64, 10240, 64),
}
"""Sizes of the published T5 v1.1 and mT5 (Xue et al. 2021)."""
BYT5 = {
    "small": ModelSize(1472, 12, 6, 3584, 64, 4),
    "base": ModelSize(1536, 18, 12, 3968, 64, 6),
    "large": ModelSize(1536, 36, 16, 3840, 64, 12),
    "xl": ModelSize(2560, 36, 32, 6720, 64, 12),
    "xxl": ModelSize(4672, 36, 64, 12352, 64, 12),
}
"""Xue et al. 2022, table 1."""


def encoder_and_decoder(
    size: ModelSize,
    *,
    gated: bool,
    activation: Build[Activation],
    head: Build[Head],
    eps: float = 1e-6,
    buckets: int = 32,
    max_distance: int = 128,
    dropout: float = 0.1,
) -> Build[Structure]:
    """Encoder and decoder with RMS pre-norm, without biases, unscaled dot-product attention, relative position bias per stack."""
    norm = partial(RMSNorm, eps=eps)
    attention = partial(MultiHeadAttention, heads=size.heads, head_dim=size.head_dim, score=DotScore, bias=False, dropout=dropout)
    feedforward = partial(
        GatedFeedForward if gated else PositionwiseFeedForward,
        hidden=size.hidden,
        activation=activation,
        dropout=dropout,
        bias=False,
    )
    layer = partial(
        TransformerLayer, mixer=attention, feedforward=feedforward, residual=partial(PreNorm, norm=norm, dropout=dropout)
    )
    position = partial(RelativePositionBias, heads=size.heads, buckets=buckets, max_distance=max_distance)
    return partial(
        Seq2Seq,
        dim=size.dim,
        embedder=partial(SumEmbedder, parts=[partial(TokenEmbedder, scale=1.0)], dropout=dropout),
        encoder=partial(Transformer, layers=size.layers, layer=layer, position=position, norm=norm),
        decoder=partial(
            TransformerDecoder,
            layers=size.decoder_layers or size.layers,
            layer=layer,
            position=partial(position, bidirectional=False),
            norm=norm,
        ),
        head=head,
    )


@composition("t5")
def t5(
    *,
    size: Literal["small", "base", "large", "3b", "11b"] = "base",
    dim: Dim | None = None,
    layers: Layers | None = None,
    heads: Heads | None = None,
    hidden: Dim | None = None,
    dropout: Dropout = 0.1,
    weights: FileOrFolder | None = None,
) -> Build[Structure]:
    """T5: text-to-text Transformer with relative position biases.

    Raffel et al. 2020, https://arxiv.org/abs/1910.10683

    Args:
        size: A published size.
        dim: Hidden size; None = that of the size.
        layers: Number of encoder layers and of decoder layers; None = those of the size.
        heads: Attention heads per layer, of 64 dimensions each (128 in the two largest sizes); None = that of the size.
        hidden: Inner dimension of the feed-forward network; None = that of the size.
        dropout: Dropout probability of sub-layers, attention weights, feed-forward activations and embeddings.
        weights: Folder of a published model or of a run whose weights of the same name initialize this model; None = random.

    Example:
        >>> t5(size="small").keywords["dim"]
        512
    """
    sizes = T5[size].override_with_head_dim(dim, layers, heads, hidden)
    head = partial(TiedHead, scale=sizes.dim**-0.5, bias=False)
    return partial(encoder_and_decoder(sizes, gated=False, activation=ReLU, head=head, dropout=dropout), weights=weights)


@composition("t5-v1-1")
def t5_v1_1(
    *,
    size: Literal["small", "base", "large", "xl", "xxl"] = "base",
    dim: Dim | None = None,
    layers: Layers | None = None,
    heads: Heads | None = None,
    hidden: Dim | None = None,
    dropout: Dropout = 0.0,
    weights: FileOrFolder | None = None,
) -> Build[Structure]:
    """T5 v1.1: T5 with gated feed-forward networks and an untied head, pre-trained without dropout.

    Shazeer 2020, https://arxiv.org/abs/2002.05202; mT5: Xue et al. 2021, https://arxiv.org/abs/2010.11934

    Args:
        size: A published size.
        dim: Hidden size; None = that of the size.
        layers: Number of encoder layers and of decoder layers; None = those of the size.
        heads: Attention heads per layer, of 64 dimensions each; None = that of the size.
        hidden: Inner dimension of the feed-forward network; None = that of the size.
        dropout: Dropout probability of sub-layers, attention weights, feed-forward activations and embeddings.
        weights: Folder of a published model or of a run whose weights of the same name initialize this model; None = random.

    Example:
        >>> t5_v1_1(size="small").keywords["dim"]
        512
    """
    return partial(_gated(T5_V1_1[size].override_with_head_dim(dim, layers, heads, hidden), dropout), weights=weights)


@composition("mt5")
def mt5(
    *,
    size: Literal["small", "base", "large", "xl", "xxl"] = "base",
    dim: Dim | None = None,
    layers: Layers | None = None,
    heads: Heads | None = None,
    hidden: Dim | None = None,
    dropout: Dropout = 0.0,
    weights: FileOrFolder | None = None,
) -> Build[Structure]:
    """mT5: T5 v1.1 for 101 languages, with a vocabulary of 250,000 subwords.

    Xue et al. 2021, https://arxiv.org/abs/2010.11934

    Args:
        size: A published size.
        dim: Hidden size; None = that of the size.
        layers: Number of encoder layers and of decoder layers; None = those of the size.
        heads: Attention heads per layer, of 64 dimensions each; None = that of the size.
        hidden: Inner dimension of the feed-forward network; None = that of the size.
        dropout: Dropout probability of sub-layers, attention weights, feed-forward activations and embeddings.
        weights: Folder of a published model or of a run whose weights of the same name initialize this model; None = random.

    Example:
        >>> mt5(size="xl").keywords["dim"]
        2048
    """
    return t5_v1_1(size=size, dim=dim, layers=layers, heads=heads, hidden=hidden, dropout=dropout, weights=weights)


@composition("byt5")
def byt5(
    *,
    size: Literal["small", "base", "large", "xl", "xxl"] = "base",
    dim: Dim | None = None,
    layers: Layers | None = None,
    heads: Heads | None = None,
    hidden: Dim | None = None,
    dropout: Dropout = 0.0,
    weights: FileOrFolder | None = None,
) -> Build[Structure]:
    """ByT5: T5 v1.1 on UTF-8 bytes, with an encoder three times as deep as the decoder.

    Xue et al. 2022, https://arxiv.org/abs/2105.13626

    Args:
        size: A published size.
        dim: Hidden size; None = that of the size.
        layers: Number of encoder layers and of decoder layers; None = those of the size.
        heads: Attention heads per layer, of 64 dimensions each; None = that of the size.
        hidden: Inner dimension of the feed-forward network; None = that of the size.
        dropout: Dropout probability of sub-layers, attention weights, feed-forward activations and embeddings.
        weights: Folder of a published model or of a run whose weights of the same name initialize this model; None = random.

    Example:
        >>> byt5(size="small").keywords["dim"]
        1472
    """
    return partial(_gated(BYT5[size].override_with_head_dim(dim, layers, heads, hidden), dropout), weights=weights)


def _gated(size: ModelSize, dropout: float) -> Build[Structure]:
    return encoder_and_decoder(size, gated=True, activation=GELUTanh, head=partial(UntiedHead, bias=False), dropout=dropout)


# --------------------------------------------------------------------------------------------------- published models


def _rules(structure: Any) -> list[Rule]:
    named = {"shared.weight": "embedder.parts.0.weight", "lm_head.weight": "head.out.weight"}
    gated = name_of(option_at(structure, "encoder.layer.feedforward")) == "gated"
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


def _structure(config: ModelConfig, task: str, names: set[str]) -> Build[Structure]:
    if task != "generation":
        raise ValueError(f"task {task} is not supported by {config['model_type']}; use generation")
    _check_buckets(config)
    scaled = config["model_type"] == "t5" and config.get("scale_decoder_outputs", config.get("tie_word_embeddings", True))
    tied = partial(TiedHead, scale=config["d_model"] ** -0.5 if scaled else 1.0, bias=False)
    return encoder_and_decoder(
        T5["base"],
        gated=config["feed_forward_proj"].startswith("gated-"),
        activation=ReLU,
        head=partial(UntiedHead, bias=False) if has_own_head(config, names) else tied,
    )


def _check_buckets(config: ModelConfig) -> None:
    """Raise ValueError where T5's formula has no meaning: its logarithms divide by log(max_distance / exact), with a bucket for
    each of the ``exact`` smallest distances, which are half of the decoder's buckets and a quarter of the encoder's."""
    buckets, distance = (config[f"relative_attention_{what}"] for what in ("num_buckets", "max_distance"))
    if buckets < 4:
        raise ValueError(f"config.json: relative_attention_num_buckets is {buckets}, but it must be at least 4")
    if distance <= buckets // 2:
        raise ValueError(
            f"config.json: relative_attention_max_distance is {distance}, but it must be above {buckets // 2}, half of "
            f"relative_attention_num_buckets ({buckets}): smaller distances have a bucket each"
        )


def _both(path: str) -> tuple[str, str]:
    """An option of the encoder and of the decoder."""
    return f"encoder.{path}", f"decoder.{path}"


def _activation_of(projection: str, config: ModelConfig) -> Build[Activation]:
    found = activation_named(projection.removeprefix("gated-"), "feed_forward_proj")
    return GELUTanh if projection == "gated-gelu" else found  # as in transformers


def _projection_of(activation: Build[Activation], structure: Build[Structure]) -> str:
    name = activation_name(activation)
    gated = name_of(option_at(structure, "encoder.layer.feedforward")) == "gated"
    return "gated-gelu" if gated and name == "gelu_new" else "gated-" * gated + name


def _is_scaled(structure: Build[Structure]) -> bool | None:
    """Whether the output of the decoder is scaled by the tied head; None without one."""
    head = option_at(structure, "head")
    return option_at(head, "scale") != 1.0 if name_of(head) == "tied" else None


_HEAD_DIM = Conversion(
    Dim,
    lambda dim, _: dim,
    lambda option, structure: option or option_at(structure, "dim") // option_at(structure, "encoder.layer.mixer.heads"),
)
_KEYS = (
    Key("d_model", Dim, "dim"),
    Key("num_layers", Layers, "encoder.layers"),
    Key("num_decoder_layers", Layers, "decoder.layers", default=SameAs("num_layers")),
    Key("num_heads", Heads, *_both("layer.mixer.heads"), *_both("position.heads")),
    Key("d_ff", HIDDEN, *_both("layer.feedforward.hidden")),
    Key("d_kv", _HEAD_DIM, *_both("layer.mixer.head_dim")),
    Key("layer_norm_epsilon", NonNegative, *_both("layer.residual.norm.eps"), *_both("norm.eps"), default=1e-6),
    Key("relative_attention_num_buckets", Dim, *_both("position.buckets"), default=32),
    Key("relative_attention_max_distance", Dim, *_both("position.max_distance"), default=128),
    Key(
        "dropout_rate",
        Dropout,
        *_both("layer.residual.dropout"),
        *_both("layer.mixer.dropout"),
        *_both("layer.feedforward.dropout"),
        "embedder.dropout",
        default=0.1,
    ),
    Constant("is_encoder_decoder", True, written=True),
    TIED_EMBEDDINGS,
)
_PROJECTION = Conversion(str, _activation_of, _projection_of)


def _register(model_type: str, title: str, *keys: Row) -> None:
    register_family(
        Family(
            model_type=model_type,
            prefix="",
            body=(),
            structure=_structure,
            config=(*_KEYS, *keys),
            rules=_rules,
            tasks={f"{title}ForConditionalGeneration": "generation", f"{title}Model": "generation"},
            tied=("lm_head.weight",),
            copies=("encoder.embed_tokens.weight", "decoder.embed_tokens.weight"),
            ignored=("decoder.block.*.layer.1.EncDecAttention.relative_attention_bias.weight",),
        )
    )


_register(
    "t5",
    "T5",
    Key("feed_forward_proj", _PROJECTION, *_both("layer.feedforward.activation"), default="relu"),
    Computed("scale_decoder_outputs", bool, _is_scaled),
)
_register("mt5", "MT5", Key("feed_forward_proj", _PROJECTION, *_both("layer.feedforward.activation"), default="gated-gelu"))
