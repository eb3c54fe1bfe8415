"""BART, as choices over ``Seq2Seq`` and ``Seq2SeqClassifier``."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from typing import Any, Literal, NamedTuple

from weft.blocks import (
    GELU,
    ClassifierHead,
    LayerNorm,
    Learned,
    MultiHead,
    PositionwiseFeedForward,
    PostNorm,
    SharedToken,
    Sum,
    Tied,
    Token,
    Transformer,
    TransformerDecoder,
    TransformerLayer,
)
from weft.core.contracts import Activation, Structure
from weft.core.options import Count, Dropout, Heads, Layers, Place, Width
from weft.core.registry import Build, composition, name_of
from weft.models.seq2seq import Seq2Seq
from weft.models.seq2seq_classifier import Seq2SeqClassifier
from weft.models.zoo.family import Config, Layout, activation_name, at, layout
from weft.models.zoo.tensor_names import Rule, rules


class Size(NamedTuple):
    dim: int
    layers: int
    heads: int
    hidden: int


BART = {"base": Size(768, 6, 12, 3072), "large": Size(1024, 12, 16, 4096)}
"""Lewis et al. 2020, sections 2.1 and 5."""
OFFSET = 2
"""Rows of the tables of positions that the published models leave unused."""
END = 2
"""The end mark's id where a config.json does not say it."""
BartTask = Literal["generation", "classification"]


def reader_and_writer(
    encoder: Size,
    decoder: Size,
    *,
    length: int,
    activation: Build[Activation] = GELU,
    scale: float = 1.0,
    dropout: float = 0.1,
    attention_dropout: float = 0.0,
    hidden_dropout: float = 0.0,
    task: BartTask = "generation",
    class_dropout: float = 0.0,
) -> Build[Structure]:
    """Encoder and decoder with post-norm; one table of tokens, but each its own positions and norm of what is embedded."""

    def layer(size: Size) -> Build[Any]:
        return partial(
            TransformerLayer,
            mixer=partial(MultiHead, heads=size.heads, dropout=attention_dropout),
            feedforward=partial(PositionwiseFeedForward, hidden=size.hidden, activation=activation, dropout=hidden_dropout),
            residual=partial(PostNorm, dropout=dropout),
        )

    def embedder(tokens: Build[Any]) -> Build[Any]:
        positions = partial(Learned, length=length, offset=OFFSET)
        return partial(Sum, parts=[partial(tokens, scale=scale), positions], norm=LayerNorm, dropout=dropout)

    parts: dict[str, Any] = {
        "dim": encoder.dim,
        "embedder": embedder(Token),
        "target_embedder": embedder(SharedToken),
        "encoder": partial(Transformer, layers=encoder.layers, layer=layer(encoder), position=None, norm=None),
        "decoder": partial(TransformerDecoder, layers=decoder.layers, layer=layer(decoder), position=None, norm=None),
    }
    if task == "classification":
        return partial(Seq2SeqClassifier, **parts, head=partial(ClassifierHead, hidden=encoder.dim, dropout=class_dropout))
    return partial(Seq2Seq, **parts, head=partial(Tied, scale=1.0, bias=True))


@composition("bart")
def bart(
    *,
    size: Literal["base", "large"] = "base",
    dim: Width | None = None,
    layers: Layers | None = None,
    heads: Heads | None = None,
    hidden: Width | None = None,
    length: Count = 1024,
    dropout: Dropout = 0.1,
    task: BartTask = "generation",
    weights: Place | None = None,
) -> Build[Structure]:
    """BART: a Transformer that repairs what was done to a text.

    Lewis et al. 2020, https://arxiv.org/abs/1910.13461

    Args:
        size: A published size.
        dim: Width; None = that of the size. Where it is given, heads are 64 wide and the feed-forward maps 4 dim, unless said.
        layers: Layers of the encoder, and of the decoder; None = those of the size.
        heads: Heads of every attention; None = those of the size.
        hidden: Width inside the feed-forward maps; None = that of the size.
        length: Number of positions.
        dropout: Of every sub-layer's result and of the embedded tokens.
        task: What it is for: write, or classify (encoder and decoder both read the text; section 3.1).
        weights: A published model's folder, or a run's, from which all weights of the same name are taken; None = random ones.

    Example:
        >>> bart(size="large").keywords["dim"]
        1024
    """
    own = BART[size]
    if dim is not None:
        own = Size(dim, own.layers, max(1, dim // 64), min(4 * dim, 10**6))
    own = Size(own.dim, layers or own.layers, heads or own.heads, hidden or own.hidden)
    return partial(reader_and_writer(own, own, length=length, dropout=dropout, task=task), weights=weights)


# --------------------------------------------------------------------------------------------------- published layouts


def _rules(structure: Any) -> list[Rule]:
    named = {"model.shared.weight": "embedder.parts.0.weight"}
    for side, embedder in (("encoder", "embedder"), ("decoder", "target_embedder")):
        theirs, ours = f"model.{side}.layers.#", f"{side}.stack.layers.#"
        named[f"model.{side}.embed_positions.weight"] = f"{embedder}.parts.1.weight"
        named[f"model.{side}.layernorm_embedding.*"] = f"{embedder}.norm.*"
        for attention, mine in (("self_attn", "mixer"), ("encoder_attn", "context"))[: 1 + (side == "decoder")]:
            for short, word in (("q_proj", "query"), ("k_proj", "key"), ("v_proj", "value"), ("out_proj", "out")):
                named[f"{theirs}.{attention}.{short}.*"] = f"{ours}.{mine}.{word}.*"
            named[f"{theirs}.{attention}_layer_norm.*"] = f"{ours}.{mine}_residual.norm.*"
        named[f"{theirs}.fc1.*"] = f"{ours}.feedforward.up.*"
        named[f"{theirs}.fc2.*"] = f"{ours}.feedforward.down.*"
        named[f"{theirs}.final_layer_norm.*"] = f"{ours}.feedforward_residual.norm.*"
    named["classification_head.dense.*"] = "classifier.hidden.*"
    named["classification_head.out_proj.*"] = "classifier.out.*"
    return rules(named) + rules({"final_logits_bias": "head.bias"}, lead=1)


def _read(config: Config, task: str, names: Iterable[str]) -> Build[Structure]:
    if task != "generation" and task != "classification":
        raise ValueError(f"a bart is for the tasks write and classify, not {task}")
    config.refuse(tie_word_embeddings=True)
    begin, end = (config.get(f"{which}_token_id", END) for which in ("decoder_start", "eos"))
    if task == "classification" and begin != end:
        raise ValueError(
            f"config.json: decoder_start_token_id is {begin!r}, but a bart that classifies needs {end!r} there (eos_token_id)"
        )
    sizes = [
        Size(config["d_model"], *(config[f"{side}_{what}"] for what in ("layers", "attention_heads", "ffn_dim")))
        for side in ("encoder", "decoder")
    ]
    return reader_and_writer(
        *sizes,
        length=config["max_position_embeddings"],
        activation=config.activation("activation_function"),
        scale=config["d_model"] ** 0.5 if config.get("scale_embedding") else 1.0,
        dropout=config["dropout"],
        attention_dropout=config["attention_dropout"],
        hidden_dropout=config["activation_dropout"],
        task=task,
        class_dropout=config["classifier_dropout"],
    )


def _write(tree: Any) -> dict[str, Any]:
    layer = at(tree, "encoder.layer")
    config: dict[str, Any] = {
        "d_model": at(tree, "dim"),
        "max_position_embeddings": at(tree, "embedder.parts.1.length"),
        "activation_function": activation_name(at(layer, "feedforward.activation")),
        "scale_embedding": at(tree, "embedder.parts.0.scale") != 1.0,
        "dropout": at(layer, "residual.dropout"),
        "attention_dropout": at(layer, "mixer.dropout"),
        "activation_dropout": at(layer, "feedforward.dropout"),
        "is_encoder_decoder": True,
    }
    for side in ("encoder", "decoder"):
        config[f"{side}_layers"] = at(tree, f"{side}.layers")
        config[f"{side}_attention_heads"] = at(tree, f"{side}.layer.mixer.heads")
        config[f"{side}_ffn_dim"] = at(tree, f"{side}.layer.feedforward.hidden") or 4 * at(tree, "dim")
    if name_of(tree) == "seq2seq-classifier":
        config["classifier_dropout"] = at(tree, "head.dropout")
    return config


layout(
    Layout(
        type="bart",
        prefix="model.",
        body=("shared", "encoder", "decoder"),
        read=_read,
        write=_write,
        rules=_rules,
        tasks={
            "BartForConditionalGeneration": "generation",
            "BartModel": "generation",
            "BartForSequenceClassification": "classification",
        },
        defaults={
            "activation_function": "gelu",
            "dropout": 0.1,
            "attention_dropout": 0.0,
            "activation_dropout": 0.0,
            "classifier_dropout": 0.0,
        },
        copies=("model.encoder.embed_tokens.weight", "model.decoder.embed_tokens.weight", "lm_head.weight"),
        zero=(("head.bias", "embedder.parts.0.weight"),),  # a BartModel has no head
    )
)
