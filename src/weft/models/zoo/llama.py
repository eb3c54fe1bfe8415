"""Llama, Mistral, Qwen2 and SmolLM2: decoder-only language models with rotary positions, RMS norm and SwiGLU."""

from __future__ import annotations

from functools import partial
from typing import Any, Literal, get_args

from weft.blocks import (
    GatedFeedForward,
    Llama3Scaling,
    MultiHeadAttention,
    PreNorm,
    RMSNorm,
    RotaryPosition,
    SumEmbedder,
    TiedHead,
    TokenEmbedder,
    TransformerDecoder,
    TransformerLayer,
    UntiedHead,
)
from weft.core.contracts import Layer, RotaryScaling, Structure
from weft.core.masks import Window
from weft.core.options import Count, Dim, Dropout, FileOrFolder, Heads, Layers, Natural, NonNegative
from weft.core.registry import Build, composition
from weft.models.language_model import LanguageModel
from weft.models.zoo.config import ModelConfig
from weft.models.zoo.config_table import HIDDEN, Computed, Constant, Conversion, DataKey, Key, activation, revised
from weft.models.zoo.family import Family, is_tied, register_family
from weft.models.zoo.gguf_names import GGUFNames
from weft.models.zoo.gpt import for_task
from weft.models.zoo.option_paths import option_at
from weft.models.zoo.rope_config import ROPE_KEYS, rope_base, rope_scaling
from weft.models.zoo.sizes import ModelSize
from weft.models.zoo.tensor_names import Rule, rules

LLAMA = {
    "7b": ModelSize(4096, 32, 32, 11008),
    "13b": ModelSize(5120, 40, 40, 13824),
    "33b": ModelSize(6656, 60, 52, 17920),
    "65b": ModelSize(8192, 80, 64, 22016),
}
"""Touvron et al. 2023, table 2."""
LLAMA2 = {**{size: LLAMA[size] for size in ("7b", "13b")}, "70b": ModelSize(8192, 80, 64, 28672, kv_heads=8)}
"""Touvron et al. 2023 (Llama 2), table 1."""
LLAMA3 = {"8b": ModelSize(4096, 32, 32, 14336, kv_heads=8), "70b": ModelSize(8192, 80, 64, 28672, kv_heads=8)}
"""Grattafiori et al. 2024, table 3."""
MISTRAL = ModelSize(4096, 32, 32, 14336, kv_heads=8)
"""Jiang et al. 2023, table 1."""
QWEN2 = {
    "0.5b": ModelSize(896, 24, 14, 4864, kv_heads=2),
    "1.5b": ModelSize(1536, 28, 12, 8960, kv_heads=2),
    "7b": ModelSize(3584, 28, 28, 18944, kv_heads=4),
    "72b": ModelSize(8192, 80, 64, 29568, kv_heads=8),
}
"""Yang et al. 2024, table 1; the hidden sizes of the feed-forward networks of 7b and 72b are those of the published weights."""
SMOLLM2 = {
    "135m": ModelSize(576, 30, 9, 1536, kv_heads=3),
    "360m": ModelSize(960, 32, 15, 2560, kv_heads=5),
    "1.7b": ModelSize(2048, 24, 32, 8192),
}
"""Ben Allal et al. 2025."""


def rotary_lm(
    size: ModelSize,
    *,
    base: float = 10_000.0,
    scaling: Build[RotaryScaling] | None = None,
    window: int | None = None,
    biases: bool = False,
    eps: float = 1e-6,
    tied: bool = False,
    dropout: float = 0.0,
) -> Build[Structure]:
    """A language model with rotary positions and pre-norm layers of grouped-query attention and SwiGLU.

    Args:
        size: Sizes.
        base: Base of the rotary frequencies.
        scaling: Scaling of the rotary frequencies.
        window: Number of positions that a query attends to, its own included; None = all before it.
        biases: Whether the projections of queries, keys and values have biases.
        eps: Added to the mean square in RMS norms.
        tied: Whether the head shares its weight with the token embeddings.
        dropout: Dropout probability of the attention weights.
    """
    norm = partial(RMSNorm, eps=eps)
    layer = partial(
        TransformerLayer,
        mixer=partial(
            MultiHeadAttention,
            heads=size.heads,
            head_dim=size.head_dim,
            kv_heads=size.kv_heads,
            bias=biases,
            out_bias=False if biases else None,
            dropout=dropout,
        ),
        mask=_window_mask(window),
        feedforward=partial(GatedFeedForward, hidden=size.hidden, bias=False),
        residual=partial(PreNorm, norm=norm),
    )
    position = partial(RotaryPosition, base=base, scaling=scaling)
    return partial(
        LanguageModel,
        dim=size.dim,
        embedder=partial(SumEmbedder, parts=[partial(TokenEmbedder, scale=1.0)]),
        decoder=partial(TransformerDecoder, layers=size.layers, layer=layer, position=position, norm=norm),
        head=partial(TiedHead, scale=1.0, bias=False) if tied else partial(UntiedHead, bias=False),
    )


def _window_mask(window: int | None) -> Build[Window] | None:
    return None if window is None else partial(Window, reach=window - 1)


LlamaTask = Literal["generation", "classification"]


@composition("llama")
def llama(
    *,
    size: Literal["7b", "13b", "33b", "65b"] = "7b",
    dim: Dim | None = None,
    layers: Layers | None = None,
    heads: Heads | None = None,
    hidden: Dim | None = None,
    dropout: Dropout = 0.0,
    task: LlamaTask = "generation",
    weights: FileOrFolder | None = None,
) -> Build[Structure]:
    """Llama: causal language model with rotary positions, RMS norm and SwiGLU.

    Touvron et al. 2023, https://arxiv.org/abs/2302.13971

    Args:
        size: A published size.
        dim: Hidden size; None = that of the size. If set, heads default to dim / 64 and hidden to 4 dim.
        layers: Number of layers; None = that of the size.
        heads: Attention heads per layer; None = that of the size.
        hidden: Inner dimension of the feed-forward network; None = that of the size.
        dropout: Dropout probability of the attention weights.
        task: generation, or classification with a head over the last hidden state beside the LM head.
        weights: Folder of a published model or of a run whose weights of the same name initialize this model; None = random.

    Example:
        >>> llama(size="13b").keywords["dim"]
        5120
    """
    structure = rotary_lm(LLAMA[size].override(dim, layers, heads, hidden), dropout=dropout)
    return partial(for_task(structure, task, 0.0), weights=weights)


@composition("llama2")
def llama2(
    *,
    size: Literal["7b", "13b", "70b"] = "7b",
    dim: Dim | None = None,
    layers: Layers | None = None,
    heads: Heads | None = None,
    kv_heads: Heads | None = None,
    hidden: Dim | None = None,
    dropout: Dropout = 0.0,
    task: LlamaTask = "generation",
    weights: FileOrFolder | None = None,
) -> Build[Structure]:
    """Llama 2: Llama with grouped-query attention in the largest size.

    Touvron et al. 2023, https://arxiv.org/abs/2307.09288

    Args:
        size: A published size.
        dim: Hidden size; None = that of the size. If set, heads default to dim / 64 and hidden to 4 dim.
        layers: Number of layers; None = that of the size.
        heads: Attention heads per layer; None = that of the size.
        kv_heads: Heads of keys and values; None = that of the size, or heads where dim or heads is set.
        hidden: Inner dimension of the feed-forward network; None = that of the size.
        dropout: Dropout probability of the attention weights.
        task: generation, or classification with a head over the last hidden state beside the LM head.
        weights: Folder of a published model or of a run whose weights of the same name initialize this model; None = random.

    Example:
        >>> llama2(size="70b").keywords["dim"]
        8192
    """
    chosen = LLAMA2[size].override(dim, layers, heads, hidden, kv_heads)
    return partial(for_task(rotary_lm(chosen, eps=1e-5, dropout=dropout), task, 0.0), weights=weights)


@composition("llama3")
def llama3(
    *,
    size: Literal["8b", "70b"] = "8b",
    dim: Dim | None = None,
    layers: Layers | None = None,
    heads: Heads | None = None,
    kv_heads: Heads | None = None,
    hidden: Dim | None = None,
    long: bool = False,
    dropout: Dropout = 0.0,
    task: LlamaTask = "generation",
    weights: FileOrFolder | None = None,
) -> Build[Structure]:
    """Llama 3: Llama with grouped-query attention and rotary frequencies of base 500,000.

    Grattafiori et al. 2024, https://arxiv.org/abs/2407.21783

    Args:
        size: A published size.
        dim: Hidden size; None = that of the size. If set, heads default to dim / 64 and hidden to 4 dim.
        layers: Number of layers; None = that of the size.
        heads: Attention heads per layer; None = that of the size.
        kv_heads: Heads of keys and values; None = that of the size, or heads where dim or heads is set.
        hidden: Inner dimension of the feed-forward network; None = that of the size.
        long: Whether the rotary frequencies are scaled for long contexts, as in Llama 3.1.
        dropout: Dropout probability of the attention weights.
        task: generation, or classification with a head over the last hidden state beside the LM head.
        weights: Folder of a published model or of a run whose weights of the same name initialize this model; None = random.

    Example:
        >>> llama3(size="70b").keywords["dim"]
        8192
    """
    chosen = LLAMA3[size].override(dim, layers, heads, hidden, kv_heads)
    scaling = Llama3Scaling if long else None
    structure = rotary_lm(chosen, base=500_000.0, scaling=scaling, eps=1e-5, dropout=dropout)
    return partial(for_task(structure, task, 0.0), weights=weights)


@composition("mistral")
def mistral(
    *,
    dim: Dim | None = None,
    layers: Layers | None = None,
    heads: Heads | None = None,
    kv_heads: Heads | None = None,
    hidden: Dim | None = None,
    window: Count | None = 4096,
    dropout: Dropout = 0.0,
    task: LlamaTask = "generation",
    weights: FileOrFolder | None = None,
) -> Build[Structure]:
    """Mistral 7B: Llama with grouped-query attention in a sliding window.

    Jiang et al. 2023, https://arxiv.org/abs/2310.06825

    Args:
        dim: Hidden size; None = 4096. If set, heads default to dim / 64 and hidden to 4 dim.
        layers: Number of layers; None = 32.
        heads: Attention heads per layer; None = 32.
        kv_heads: Heads of keys and values; None = 8, or heads where dim or heads is set.
        hidden: Inner dimension of the feed-forward network; None = 14336.
        window: Number of positions that a query attends to, its own included; None = all before it.
        dropout: Dropout probability of the attention weights.
        task: generation, or classification with a head over the last hidden state beside the LM head.
        weights: Folder of a published model or of a run whose weights of the same name initialize this model; None = random.

    Example:
        >>> mistral().keywords["dim"]
        4096
    """
    chosen = MISTRAL.override(dim, layers, heads, hidden, kv_heads)
    return partial(for_task(rotary_lm(chosen, window=window, eps=1e-5, dropout=dropout), task, 0.0), weights=weights)


@composition("qwen2")
def qwen2(
    *,
    size: Literal["0.5b", "1.5b", "7b", "72b"] = "0.5b",
    dim: Dim | None = None,
    layers: Layers | None = None,
    heads: Heads | None = None,
    kv_heads: Heads | None = None,
    hidden: Dim | None = None,
    dropout: Dropout = 0.0,
    task: LlamaTask = "generation",
    weights: FileOrFolder | None = None,
) -> Build[Structure]:
    """Qwen2: Llama with grouped-query attention and biases of queries, keys and values; small sizes have a tied head.

    Yang et al. 2024, https://arxiv.org/abs/2407.10671

    Args:
        size: A published size.
        dim: Hidden size; None = that of the size. If set, heads default to dim / 64 and hidden to 4 dim.
        layers: Number of layers; None = that of the size.
        heads: Attention heads per layer; None = that of the size.
        kv_heads: Heads of keys and values; None = that of the size, or heads where dim or heads is set.
        hidden: Inner dimension of the feed-forward network; None = that of the size.
        dropout: Dropout probability of the attention weights.
        task: generation, or classification with a head over the last hidden state beside the LM head.
        weights: Folder of a published model or of a run whose weights of the same name initialize this model; None = random.

    Example:
        >>> qwen2(size="7b").keywords["dim"]
        3584
    """
    chosen = QWEN2[size].override(dim, layers, heads, hidden, kv_heads)
    structure = rotary_lm(chosen, base=1e6, biases=True, tied=size in ("0.5b", "1.5b"), dropout=dropout)
    return partial(for_task(structure, task, 0.0), weights=weights)


@composition("smollm2")
def smollm2(
    *,
    size: Literal["135m", "360m", "1.7b"] = "135m",
    dim: Dim | None = None,
    layers: Layers | None = None,
    heads: Heads | None = None,
    kv_heads: Heads | None = None,
    hidden: Dim | None = None,
    dropout: Dropout = 0.0,
    task: LlamaTask = "generation",
    weights: FileOrFolder | None = None,
) -> Build[Structure]:
    """SmolLM2: small Llama with a tied head.

    Ben Allal et al. 2025, https://arxiv.org/abs/2502.02737

    Args:
        size: A published size.
        dim: Hidden size; None = that of the size. If set, heads default to dim / 64 and hidden to 4 dim.
        layers: Number of layers; None = that of the size.
        heads: Attention heads per layer; None = that of the size.
        kv_heads: Heads of keys and values; None = that of the size, or heads where dim or heads is set.
        hidden: Inner dimension of the feed-forward network; None = that of the size.
        dropout: Dropout probability of the attention weights.
        task: generation, or classification with a head over the last hidden state beside the LM head.
        weights: Folder of a published model or of a run whose weights of the same name initialize this model; None = random.

    Example:
        >>> smollm2().keywords["dim"]
        576
    """
    chosen = SMOLLM2[size].override(dim, layers, heads, hidden, kv_heads)
    return partial(for_task(rotary_lm(chosen, base=1e5, eps=1e-5, tied=True, dropout=dropout), task, 0.0), weights=weights)


# --------------------------------------------------------------------------------------------------- published models


def _rules(structure: Any) -> list[Rule]:
    theirs, ours = "model.layers.#", "decoder.stack.layers.#"
    attention = {"q_proj": "query", "k_proj": "key", "v_proj": "value", "o_proj": "out"}
    return rules(
        {
            "model.embed_tokens.weight": "embedder.parts.0.weight",
            f"{theirs}.input_layernorm.weight": f"{ours}.mixer_residual.norm.weight",
            f"{theirs}.post_attention_layernorm.weight": f"{ours}.feedforward_residual.norm.weight",
            **{f"{theirs}.self_attn.{name}.*": f"{ours}.mixer.{part}.*" for name, part in attention.items()},
            **{f"{theirs}.mlp.{name}_proj.*": f"{ours}.feedforward.{name}.*" for name in ("gate", "up", "down")},
            "model.norm.weight": "decoder.stack.norm.weight",
            "lm_head.weight": "head.out.weight",
            "score.weight": "classifier.out.weight",
        }
    )


def _structure(config: ModelConfig, task: str, names: set[str]) -> Build[Structure]:
    if task not in get_args(LlamaTask):
        raise ValueError(f"task {task} is not supported by {config['model_type']}; use one of {', '.join(get_args(LlamaTask))}")
    own_head = "lm_head.weight" in names or any(name.endswith("ForCausalLM") for name in config.get("architectures") or [])
    structure = rotary_lm(
        LLAMA["7b"],
        base=rope_base(config),
        scaling=rope_scaling(config),
        biases=config["model_type"] == "qwen2",
        tied=config["tie_word_embeddings"] or not own_head,
    )
    if config["model_type"] == "qwen2":
        structure = _with_windows(structure, config)
    return for_task(structure, "classification" if task == "classification" else "generation", 0.0)


def _layers(structure: Build[Structure]) -> list[Build[Layer]]:
    """The layers: one that all are, or a list."""
    layer = option_at(structure, "decoder.layer")
    return list(layer) if isinstance(layer, list | tuple) else [layer]


def _windows(structure: Build[Structure]) -> list[int | None]:
    """The window of each of the layers."""
    masks = [option_at(layer, "mask") for layer in _layers(structure)]
    return [None if mask is None else option_at(mask, "reach") + 1 for mask in masks]


def _with_windows(structure: Build[Structure], config: ModelConfig) -> Build[Structure]:
    """Qwen2 with a sliding window in the layers that ``layer_types`` names, or in those from ``max_window_layers`` on."""
    count, window = config["num_hidden_layers"], config["sliding_window"] if config["use_sliding_window"] else None
    full = [i < config["max_window_layers"] for i in range(count)]
    if types := config.get("layer_types"):
        if len(types) != count or not {*types} <= {"full_attention", "sliding_attention"}:
            raise ValueError(f"config.json: layer_types must have full_attention or sliding_attention for each of {count} layers")
        full = [type_ == "full_attention" for type_ in types]
    if window is None or all(full):
        return structure
    (layer,) = _layers(structure)
    near = partial(layer, mask=_window_mask(window))
    layers = [layer if is_full else near for is_full in full]
    decoder = partial(option_at(structure, "decoder"), layer=layers if any(full) else near)
    return partial(structure, decoder=decoder)


def _layer_types(structure: Build[Structure]) -> list[str] | None:
    windows, count = _windows(structure), option_at(structure, "decoder.layers")
    if not any(windows):
        return None
    return ["sliding_attention" if windows[i % len(windows)] else "full_attention" for i in range(count)]


_WINDOW = Conversion(
    Count,
    lambda value, _: _window_mask(value),
    lambda mask, _: None if mask is None else option_at(mask, "reach") + 1,
    null=True,
)
_KV_HEADS = Conversion(Heads, lambda value, _: value, lambda option, _: option, null=True)
_KEYS = (
    Key("hidden_size", Dim, "dim"),
    Key("num_hidden_layers", Layers, "decoder.layers"),
    Key("num_attention_heads", Heads, "decoder.layer.mixer.heads"),
    Key("num_key_value_heads", _KV_HEADS, "decoder.layer.mixer.kv_heads", default=None),
    Key("head_dim", Dim, "decoder.layer.mixer.head_dim", default=None, optional=True),
    Key("intermediate_size", HIDDEN, "decoder.layer.feedforward.hidden"),
    Key("hidden_act", activation("hidden_act"), "decoder.layer.feedforward.activation", default="silu"),
    Key("rms_norm_eps", NonNegative, "decoder.layer.residual.norm.eps", "decoder.norm.eps", default=1e-6),
    Key("attention_dropout", Dropout, "decoder.layer.mixer.dropout", default=0.0),
    Key("attention_bias", bool, "decoder.layer.mixer.bias", default=False),
    Key("mlp_bias", bool, "decoder.layer.feedforward.bias", default=False),
    DataKey("max_position_embeddings", Dim, default=2048),
    Computed("tie_word_embeddings", bool, lambda structure: is_tied(option_at(structure, "head")), default=False),
    *ROPE_KEYS,
)
_MISTRAL_KEYS = revised(
    _KEYS,
    Key("num_key_value_heads", _KV_HEADS, "decoder.layer.mixer.kv_heads", default=8),
    Key("sliding_window", _WINDOW, "decoder.layer.mask", default=4096),
    Constant("attention_bias", False),
    Constant("mlp_bias", False),
    Constant("layer_types", None),
    DataKey("max_position_embeddings", Dim, default=131_072),
)
_QWEN2_KEYS = revised(
    _KEYS,
    Key("num_key_value_heads", _KV_HEADS, "decoder.layer.mixer.kv_heads", default=32),
    Constant("mlp_bias", False),
    DataKey("max_position_embeddings", Dim, default=32_768),
    Computed("use_sliding_window", bool, lambda structure: any(_windows(structure)), default=False),
    Computed("sliding_window", Count, lambda structure: next(filter(None, _windows(structure)), None), default=4096),
    Computed("layer_types", list[str], _layer_types, default=None),
    DataKey("max_window_layers", Natural, default=28),
    without=("attention_bias",),
)


def _register(model_type: str, title: str, keys: Any, gguf: GGUFNames | None) -> None:
    register_family(
        Family(
            model_type=model_type,
            prefix="model.",
            body=("embed_tokens", "layers", "norm"),
            structure=_structure,
            config=keys,
            rules=_rules,
            tasks={
                f"{title}ForCausalLM": "generation",
                f"{title}Model": "generation",
                f"{title}ForSequenceClassification": "classification",
            },
            tied=("lm_head.weight",),
            zero=(("classifier.out.bias", "classifier.out.weight"),),  # transformers' head has no bias
            ignored=("*.rotary_emb.inv_freq",),
            gguf=gguf,
        )
    )


_register("llama", "Llama", _KEYS, GGUFNames("llama", "LlamaForCausalLM", interleaved=True))
_register("mistral", "Mistral", _MISTRAL_KEYS, None)  # GGUF files of Mistral have the architecture llama
_register("qwen2", "Qwen2", _QWEN2_KEYS, GGUFNames("qwen2", "Qwen2ForCausalLM"))
