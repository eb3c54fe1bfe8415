"""GPT, GPT-2 and GPT-3: decoder-only language models."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any, Literal, cast, get_args

from weft.blocks import (
    ClassifierHead,
    GELUTanh,
    LastPooler,
    LayerNorm,
    LearnedPositionEmbedder,
    MultiHeadAttention,
    PositionwiseFeedForward,
    PostNorm,
    PreNorm,
    SumEmbedder,
    TiedHead,
    TokenEmbedder,
    TransformerDecoder,
    TransformerLayer,
    UntiedHead,
)
from weft.core.contracts import Activation, Structure
from weft.core.options import Count, Dim, Dropout, FileOrFolder, Heads, Layers, NonNegative
from weft.core.registry import Build, composition
from weft.models.language_model import LanguageModel
from weft.models.zoo.config import ModelConfig
from weft.models.zoo.config_table import Constant, Key, Row, activation
from weft.models.zoo.family import TIED_EMBEDDINGS, Family, has_own_head, register_family
from weft.models.zoo.option_paths import has_option, option_at
from weft.models.zoo.sizes import ModelSize
from weft.models.zoo.tensor_names import Rule, rules

GPT2 = {
    "small": ModelSize(768, 12, 12),
    "medium": ModelSize(1024, 24, 16),
    "large": ModelSize(1280, 36, 20),
    "xl": ModelSize(1600, 48, 25),
}
"""Radford et al. 2019, table 2; the number of heads is that of the published weights."""
GPT3 = {
    "small": ModelSize(768, 12, 12),
    "medium": ModelSize(1024, 24, 16),
    "large": ModelSize(1536, 24, 16),
    "xl": ModelSize(2048, 24, 16),
    "2.7b": ModelSize(2560, 32, 32),
    "6.7b": ModelSize(4096, 32, 32),
    "13b": ModelSize(5140, 40, 40, head_dim=128),
    "175b": ModelSize(12288, 96, 96),
}
"""Brown et al. 2020, table 2.1. The table's 24 heads of 128 for xl do not give 1.3 billion parameters; 16 do."""


def causal_lm(
    size: ModelSize,
    *,
    length: int,
    activation: Build[Activation] = GELUTanh,
    eps: float = 1e-5,
    post_norm: bool = False,
    tied: bool = True,
    dropout: float = 0.1,
    attention_dropout: float | None = None,
    embedding_dropout: float | None = None,
) -> Build[Structure]:
    """A language model with token and learned position embeddings; pre-norm layers and a final norm, or post-norm layers."""
    norm = partial(LayerNorm, eps=eps)
    layer = partial(
        TransformerLayer,
        mixer=partial(
            MultiHeadAttention,
            heads=size.heads,
            head_dim=size.head_dim,
            dropout=dropout if attention_dropout is None else attention_dropout,
        ),
        feedforward=partial(PositionwiseFeedForward, hidden=size.hidden, activation=activation),
        residual=partial(PostNorm if post_norm else PreNorm, norm=norm, dropout=dropout),
    )
    return partial(
        LanguageModel,
        dim=size.dim,
        embedder=partial(
            SumEmbedder,
            parts=[partial(TokenEmbedder, scale=1.0), partial(LearnedPositionEmbedder, length=length)],
            dropout=dropout if embedding_dropout is None else embedding_dropout,
        ),
        decoder=partial(TransformerDecoder, layers=size.layers, layer=layer, position=None, norm=None if post_norm else norm),
        head=partial(TiedHead, scale=1.0, bias=False) if tied else partial(UntiedHead, bias=False),
    )


GPTTask = Literal["generation", "classification", "multiple-choice"]


def for_task(structure: Build[Structure], task: GPTTask, dropout: float) -> Build[Structure]:
    """Add the head of the task over the hidden state of the last token.

    The classification head is a matrix without bias (Radford et al. 2018, equation 3); the multiple-choice head has a bias, as in
    transformers.
    """
    if task == "generation":
        return structure
    return partial(
        structure, pooler=LastPooler, classifier=partial(ClassifierHead, dropout=dropout, bias=task == "multiple-choice")
    )


@composition("gpt")
def gpt(
    *,
    dim: Dim = 768,
    layers: Layers = 12,
    heads: Heads = 12,
    length: Count = 512,
    dropout: Dropout = 0.1,
    task: GPTTask = "generation",
    weights: FileOrFolder | None = None,
) -> Build[Structure]:
    """GPT: causal Transformer language model with post-norm.

    Radford et al. 2018, "Improving language understanding by generative pre-training"

    Args:
        dim: Hidden size.
        layers: Number of layers.
        heads: Attention heads per layer.
        length: Number of positions.
        dropout: Dropout probability of the sub-layers, the attention weights and the embeddings.
        task: generation; or classification or multiple-choice, with a head over the last hidden state beside the LM head.
        weights: Folder of a published model or of a run whose weights of the same name initialize this model; None = random.

    Example:
        >>> gpt().keywords["dim"]
        768
    """
    structure = causal_lm(ModelSize(dim, layers, heads), length=length, post_norm=True, dropout=dropout)
    return partial(for_task(structure, task, dropout), weights=weights)


@composition("gpt2")
def gpt2(
    *,
    size: Literal["small", "medium", "large", "xl"] = "small",
    dim: Dim | None = None,
    layers: Layers | None = None,
    heads: Heads | None = None,
    length: Count = 1024,
    dropout: Dropout = 0.1,
    task: GPTTask = "generation",
    weights: FileOrFolder | None = None,
) -> Build[Structure]:
    """GPT-2: causal Transformer language model with pre-norm.

    Radford et al. 2019, "Language models are unsupervised multitask learners"

    Args:
        size: A published size.
        dim: Hidden size; None = that of the size. If set, heads default to dim / 64.
        layers: Number of layers; None = that of the size.
        heads: Attention heads per layer; None = that of the size.
        length: Number of positions.
        dropout: Dropout probability of the sub-layers, the attention weights and the embeddings.
        task: generation; or classification or multiple-choice, with a head over the last hidden state beside the LM head.
        weights: Folder of a published model or of a run whose weights of the same name initialize this model; None = random.

    Example:
        >>> gpt2(size="xl").keywords["dim"]
        1600
    """
    structure = causal_lm(GPT2[size].override(dim, layers, heads), length=length, dropout=dropout)
    return partial(for_task(structure, task, dropout), weights=weights)


@composition("gpt3")
def gpt3(
    *,
    size: Literal["small", "medium", "large", "xl", "2.7b", "6.7b", "13b", "175b"] = "small",
    dim: Dim | None = None,
    layers: Layers | None = None,
    heads: Heads | None = None,
    length: Count = 2048,
    dropout: Dropout = 0.0,
) -> Build[Structure]:
    """GPT-3: GPT-2's architecture at the sizes of GPT-3.

    All layers have dense attention; those of the paper alternate dense and locally banded sparse attention.

    Brown et al. 2020, https://arxiv.org/abs/2005.14165

    Args:
        size: A published size.
        dim: Hidden size; None = that of the size. If set, heads default to dim / 64.
        layers: Number of layers; None = that of the size.
        heads: Attention heads per layer; None = that of the size.
        length: Number of positions.
        dropout: Dropout probability of the sub-layers, the attention weights and the embeddings.

    Example:
        >>> gpt3(size="175b").keywords["dim"]
        12288
    """
    return causal_lm(GPT3[size].override(dim, layers, heads), length=length, dropout=dropout)


# --------------------------------------------------------------------------------------------------- published models


def _rules(structure: Any, tokens: str, positions: str) -> list[Rule]:
    theirs, ours = "transformer.h.#", "decoder.stack.layers.#"
    plain = {
        f"transformer.{tokens}.weight": "embedder.parts.0.weight",
        f"transformer.{positions}.weight": "embedder.parts.1.weight",
        f"{theirs}.ln_1.*": f"{ours}.mixer_residual.norm.*",
        f"{theirs}.ln_2.*": f"{ours}.feedforward_residual.norm.*",
        "transformer.ln_f.*": "decoder.stack.norm.*",
        "lm_head.weight": "head.out.weight",
        "score.weight": "classifier.out.weight",
        "multiple_choice_head.summary.*": "choice_head.out.*",
    }
    transposed = {
        f"{theirs}.attn.c_attn.*": (f"{ours}.mixer.query.*", f"{ours}.mixer.key.*", f"{ours}.mixer.value.*"),
        f"{theirs}.attn.c_proj.*": f"{ours}.mixer.out.*",
        f"{theirs}.mlp.c_fc.*": f"{ours}.feedforward.up.*",
        f"{theirs}.mlp.c_proj.*": f"{ours}.feedforward.down.*",
    }
    return rules(plain) + rules(transposed, transpose=True)


def _structure(config: ModelConfig, task: str, names: set[str]) -> Build[Structure]:
    first = config["model_type"] == "openai-gpt"
    if task not in get_args(GPTTask):
        raise ValueError(f"task {task} is not supported by {config['model_type']}; use one of {', '.join(get_args(GPTTask))}")
    if task == "multiple-choice":
        config.require(summary_type="cls_index", summary_use_proj=True, summary_activation=None, summary_proj_to_labels=True)
    structure = causal_lm(GPT2["small"], length=1024, post_norm=first, tied=not has_own_head(config, names))
    return for_task(structure, cast(GPTTask, task), 0.0)


def _classifies(structure: Build[Structure], *, bias: bool) -> bool:
    """Whether a head with or without bias is over the last hidden state: that of multiple choice has one, in transformers."""
    pooled = has_option(structure, "pooler") and option_at(structure, "pooler") is not None
    return pooled and option_at(structure, "classifier.bias") is bias


_KEYS = (
    Constant("add_cross_attention", False),
    Constant("scale_attn_weights", True),
    Constant("scale_attn_by_inverse_layer_idx", False),
    Key("n_embd", Dim, "dim"),
    Key("n_layer", Layers, "decoder.layers"),
    Key("n_head", Heads, "decoder.layer.mixer.heads"),
    Key("n_positions", Dim, "embedder.parts.1.length"),
    Key("layer_norm_epsilon", NonNegative, "decoder.layer.residual.norm.eps", "decoder.norm.eps", default=1e-5),
    Key("resid_pdrop", Dropout, "decoder.layer.residual.dropout", default=0.1),
    Key("attn_pdrop", Dropout, "decoder.layer.mixer.dropout", default=0.1),
    Key("embd_pdrop", Dropout, "embedder.dropout", default=0.1),
    TIED_EMBEDDINGS,
    Key("summary_first_dropout", Dropout, "classifier.dropout", default=0.1, when=partial(_classifies, bias=True)),
    # transformers has no such dropout; the key is for loading the folder into weft again
    Key(
        "classifier_dropout",
        Dropout,
        "classifier.dropout",
        default=0.0,
        when=partial(_classifies, bias=False),
        optional=True,
    ),
)
_GPT_KEYS = (*_KEYS, Constant("afn", "gelu", written=True))
_GPT2_KEYS = (
    *_KEYS,
    Key("n_inner", Dim, "decoder.layer.feedforward.hidden", default=None),
    Key("activation_function", activation("activation_function"), "decoder.layer.feedforward.activation", default="gelu_new"),
)


def _register(model_type: str, title: str, tokens: str, positions: str, keys: Sequence[Row]) -> None:
    register_family(
        Family(
            model_type=model_type,
            prefix="transformer.",
            body=(tokens, positions, "h", "ln_f"),
            structure=_structure,
            config=keys,
            rules=partial(_rules, tokens=tokens, positions=positions),
            tasks={
                f"{title}LMHeadModel": "generation",
                f"{title}Model": "generation",
                f"{title}DoubleHeadsModel": "multiple-choice",
                f"{title}ForSequenceClassification": "classification",
            },
            tied=("lm_head.weight",),
            zero=(("classifier.out.bias", "classifier.out.weight"),),  # transformers' head has no bias
            ignored=("*.attn.bias", "*.attn.masked_bias", "*position_ids"),
        )
    )


_register("openai-gpt", "OpenAIGPT", "tokens_embed", "positions_embed", _GPT_KEYS)
_register("gpt2", "GPT2", "wte", "wpe", _GPT2_KEYS)
