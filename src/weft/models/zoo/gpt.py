"""GPT, GPT-2 and GPT-3: decoders alone, as choices over ``LanguageModel``."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from typing import Any, Literal, NamedTuple

from weft.blocks import (
    ClassifierHead,
    GELUTanh,
    Last,
    LayerNorm,
    Learned,
    MultiHead,
    PositionwiseFeedForward,
    PostNorm,
    PreNorm,
    Sum,
    Tied,
    Token,
    TransformerDecoder,
    TransformerLayer,
    Untied,
)
from weft.core.contracts import Activation, Structure
from weft.core.options import Count, Dropout, Heads, Layers, Place, Width
from weft.core.registry import Build, composition, name_of
from weft.models.language_model import LanguageModel
from weft.models.zoo.family import Config, Layout, activation_name, at, layout
from weft.models.zoo.tensor_names import Rule, rules


class Size(NamedTuple):
    dim: int
    layers: int
    heads: int
    head_dim: int | None = None


GPT2 = {"small": Size(768, 12, 12), "medium": Size(1024, 24, 16), "large": Size(1280, 36, 20), "xl": Size(1600, 48, 25)}
"""Radford et al. 2019, table 2, with the heads of the published weights."""
GPT3 = {
    "small": Size(768, 12, 12),
    "medium": Size(1024, 24, 16),
    "large": Size(1536, 24, 16),
    "xl": Size(2048, 24, 16),
    "2.7b": Size(2560, 32, 32),
    "6.7b": Size(4096, 32, 32),
    "13b": Size(5140, 40, 40, 128),
    "175b": Size(12288, 96, 96),
}
"""Brown et al. 2020, table 2.1. Of xl the table says 24 heads of 128, which its 1.3 billion parameters leave no room for: 16."""


def writer(
    size: Size,
    *,
    length: int,
    hidden: int | None = None,
    activation: Build[Activation] = GELUTanh,
    eps: float = 1e-5,
    post_norm: bool = False,
    tied: bool = True,
    dropout: float = 0.1,
    attention_dropout: float | None = None,
    embedding_dropout: float | None = None,
) -> Build[Structure]:
    """A language model of tokens and learned positions, and layers with pre-norm and a last norm, or with post-norm."""
    norm = partial(LayerNorm, eps=eps)
    layer = partial(
        TransformerLayer,
        mixer=partial(
            MultiHead,
            heads=size.heads,
            head_dim=size.head_dim,
            dropout=dropout if attention_dropout is None else attention_dropout,
        ),
        feedforward=partial(PositionwiseFeedForward, hidden=hidden, activation=activation),
        residual=partial(PostNorm if post_norm else PreNorm, norm=norm, dropout=dropout),
    )
    return partial(
        LanguageModel,
        dim=size.dim,
        embedder=partial(
            Sum,
            parts=[partial(Token, scale=1.0), partial(Learned, length=length)],
            dropout=dropout if embedding_dropout is None else embedding_dropout,
        ),
        decoder=partial(TransformerDecoder, layers=size.layers, layer=layer, position=None, norm=None if post_norm else norm),
        head=partial(Tied, scale=1.0, bias=False) if tied else partial(Untied, bias=False),
    )


GPTTask = Literal["generation", "classification", "multiple-choice"]


def reads(structure: Build[Structure], task: GPTTask, dropout: float) -> Build[Structure]:
    """The same for another task: a class, or which of several texts is right, is said of the last token's vector.

    That of a class is W_y alone (Radford et al. 2018, equation 3); transformers' for choices has a bias, and so has this one.
    """
    if task == "generation":
        return structure
    return partial(structure, pooler=Last, classifier=partial(ClassifierHead, dropout=dropout, bias=task == "multiple-choice"))


def chosen(size: Size, dim: int | None, layers: int | None, heads: int | None) -> Size:
    """A published size with what is chosen otherwise; a head stays 64 wide where heads are not said."""
    if dim is not None:
        size = Size(dim, size.layers, max(1, dim // 64))
    return Size(size.dim, layers or size.layers, heads or size.heads, None if heads else size.head_dim)


@composition("gpt")
def gpt(
    *,
    dim: Width = 768,
    layers: Layers = 12,
    heads: Heads = 12,
    length: Count = 512,
    dropout: Dropout = 0.1,
    task: GPTTask = "generation",
    weights: Place | None = None,
) -> Build[Structure]:
    """GPT: a Transformer that writes, with post-norm.

    Radford et al. 2018, "Improving language understanding by generative pre-training"

    Args:
        dim: Width.
        layers: Layers.
        heads: Heads of every attention.
        length: Number of positions.
        dropout: Of every sub-layer's result, of the attention weights and of the embedded tokens.
        task: What it is for: write; or also classify or choose, by the last token's vector.
        weights: A published model's folder, or a run's, from which all weights of the same name are taken; None = random ones.

    Example:
        >>> gpt().keywords["dim"]
        768
    """
    structure = writer(Size(dim, layers, heads), length=length, post_norm=True, dropout=dropout)
    return partial(reads(structure, task, dropout), weights=weights)


@composition("gpt2")
def gpt2(
    *,
    size: Literal["small", "medium", "large", "xl"] = "small",
    dim: Width | None = None,
    layers: Layers | None = None,
    heads: Heads | None = None,
    length: Count = 1024,
    dropout: Dropout = 0.1,
    task: GPTTask = "generation",
    weights: Place | None = None,
) -> Build[Structure]:
    """GPT-2: a Transformer that writes, with pre-norm.

    Radford et al. 2019, "Language models are unsupervised multitask learners"

    Args:
        size: A published size.
        dim: Width; None = that of the size. Where it is given, heads are 64 wide, unless said.
        layers: Layers; None = those of the size.
        heads: Heads of every attention; None = those of the size.
        length: Number of positions.
        dropout: Of every sub-layer's result, of the attention weights and of the embedded tokens.
        task: What it is for: write; or also classify or choose, by the last token's vector.
        weights: A published model's folder, or a run's, from which all weights of the same name are taken; None = random ones.

    Example:
        >>> gpt2(size="xl").keywords["dim"]
        1600
    """
    structure = writer(chosen(GPT2[size], dim, layers, heads), length=length, dropout=dropout)
    return partial(reads(structure, task, dropout), weights=weights)


@composition("gpt3")
def gpt3(
    *,
    size: Literal["small", "medium", "large", "xl", "2.7b", "6.7b", "13b", "175b"] = "small",
    dim: Width | None = None,
    layers: Layers | None = None,
    heads: Heads | None = None,
    length: Count = 2048,
    dropout: Dropout = 0.0,
) -> Build[Structure]:
    """GPT-3's sizes of GPT-2's structure (all layers dense: the paper's alternate with locally banded ones).

    Brown et al. 2020, https://arxiv.org/abs/2005.14165

    Args:
        size: A published size.
        dim: Width; None = that of the size. Where it is given, heads are 64 wide, unless said.
        layers: Layers; None = those of the size.
        heads: Heads of every attention; None = those of the size.
        length: Number of positions.
        dropout: Of every sub-layer's result, of the attention weights and of the embedded tokens.

    Example:
        >>> gpt3(size="175b").keywords["dim"]
        12288
    """
    return writer(chosen(GPT3[size], dim, layers, heads), length=length, dropout=dropout)


# --------------------------------------------------------------------------------------------------- published layouts


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
    turned = {
        f"{theirs}.attn.c_attn.*": (f"{ours}.mixer.query.*", f"{ours}.mixer.key.*", f"{ours}.mixer.value.*"),
        f"{theirs}.attn.c_proj.*": f"{ours}.mixer.out.*",
        f"{theirs}.mlp.c_fc.*": f"{ours}.feedforward.up.*",
        f"{theirs}.mlp.c_proj.*": f"{ours}.feedforward.down.*",
    }
    return rules(plain) + rules(turned, transpose=True)


def _read(config: Config, task: str, names: Iterable[str]) -> Build[Structure]:
    first = config["model_type"] == "openai-gpt"
    config.refuse(add_cross_attention=False, scale_attn_weights=True, scale_attn_by_inverse_layer_idx=False)
    if first and config.get("afn", "gelu") != "gelu":
        raise ValueError(f"config.json: afn is {config['afn']!r}, but only 'gelu' is supported")
    structure = writer(
        Size(config["n_embd"], config["n_layer"], config["n_head"]),
        length=config["n_positions"],
        hidden=None if first else config.get("n_inner"),
        activation=GELUTanh if first else config.activation("activation_function"),
        eps=config["layer_norm_epsilon"],
        post_norm=first,
        tied=config.get("tie_word_embeddings", True),
        dropout=config["resid_pdrop"],
        attention_dropout=config["attn_pdrop"],
        embedding_dropout=config["embd_pdrop"],
    )
    if task == "classification":
        return reads(structure, task, config.get("classifier_dropout") or 0.0)
    if task == "multiple-choice":
        config.refuse(summary_type="cls_index", summary_use_proj=True, summary_activation=None, summary_proj_to_labels=True)
        return reads(structure, task, config["summary_first_dropout"])
    if task != "generation":
        raise ValueError(f"a {config['model_type']} writes: it is for the tasks write, classify and choose, not {task}")
    return structure


def _write(tree: Any, kind: str) -> dict[str, Any]:
    layer = at(tree, "decoder.layer")
    config: dict[str, Any] = {
        "n_embd": at(tree, "dim"),
        "n_layer": at(tree, "decoder.layers"),
        "n_head": at(layer, "mixer.heads"),
        "n_positions": at(tree, "embedder.parts.1.length"),
        "layer_norm_epsilon": at(layer, "residual.norm.eps"),
        "resid_pdrop": at(layer, "residual.dropout"),
        "attn_pdrop": at(layer, "mixer.dropout"),
        "embd_pdrop": at(tree, "embedder.dropout"),
        "tie_word_embeddings": name_of(at(tree, "head")) == "tied",
    }
    if kind == "gpt2":
        config |= {
            "n_inner": at(layer, "feedforward.hidden"),
            "activation_function": activation_name(at(layer, "feedforward.activation")).replace("gelu_pytorch_tanh", "gelu_new"),
        }
    else:
        config |= {"afn": "gelu"}
    if at(tree, "pooler") is not None:
        dropout = at(tree, "classifier.dropout")
        if at(tree, "classifier.bias"):
            config["summary_first_dropout"] = dropout
        elif dropout:  # theirs has none before it says a class: this is for those who read it back
            config["classifier_dropout"] = dropout
    return config


def _family(kind: str, title: str, tokens: str, positions: str) -> None:
    layout(
        Layout(
            type=kind,
            prefix="transformer.",
            body=(tokens, positions, "h", "ln_f"),
            read=_read,
            write=partial(_write, kind=kind),
            rules=partial(_rules, tokens=tokens, positions=positions),
            tasks={
                f"{title}LMHeadModel": "generation",
                f"{title}Model": "generation",
                f"{title}DoubleHeadsModel": "multiple-choice",
                f"{title}ForSequenceClassification": "classification",
            },
            defaults={
                "activation_function": "gelu_new",
                "layer_norm_epsilon": 1e-5,
                "resid_pdrop": 0.1,
                "attn_pdrop": 0.1,
                "embd_pdrop": 0.1,
                "summary_first_dropout": 0.1,
            },
            tied=("lm_head.weight",),
            zero=(("classifier.out.bias", "classifier.out.weight"),),  # theirs has none
            ignored=("*.attn.bias", "*.attn.masked_bias", "*position_ids"),
        )
    )


_family("openai-gpt", "OpenAIGPT", "tokens_embed", "positions_embed")
_family("gpt2", "GPT2", "wte", "wpe")
