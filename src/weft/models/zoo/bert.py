"""BERT and its relatives: encoders of a text with learned positions, segments and post-norm, as choices over blocks."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import partial
from typing import Any, Literal, NamedTuple

from weft.blocks import (
    GELU,
    ClassifierHead,
    Dense,
    First,
    GELUTanh,
    LayerNorm,
    Learned,
    MultiHead,
    PositionwiseFeedForward,
    PostNorm,
    SharedTransformer,
    Sum,
    Tied,
    Token,
    TokenType,
    Transformer,
    TransformerLayer,
    Untied,
)
from weft.core.contracts import Activation, Head, Pooler, Structure
from weft.core.options import Count, Dropout, Heads, Layers, Place, Width
from weft.core.registry import Build, composition, name_of
from weft.models.zoo.family import CLS, Config, Layout, Task, activation_name, at, class_rules, layout, out_of, reader
from weft.models.zoo.tensor_names import Rule, rules


class Size(NamedTuple):
    dim: int
    layers: int
    heads: int
    hidden: int


BERT = {
    "tiny": Size(128, 2, 2, 512),
    "mini": Size(256, 4, 4, 1024),
    "small": Size(512, 4, 8, 2048),
    "medium": Size(512, 8, 8, 2048),
    "base": Size(768, 12, 12, 3072),
    "large": Size(1024, 24, 16, 4096),
}
"""Devlin et al. 2019, section 3; the small ones: Turc et al. 2019, https://arxiv.org/abs/1908.08962"""
ALBERT = {
    "base": Size(768, 12, 12, 3072),
    "large": Size(1024, 24, 16, 4096),
    "xlarge": Size(2048, 24, 16, 8192),
    "xxlarge": Size(4096, 12, 64, 16384),
}
"""Lan et al. 2020, table 1."""
ELECTRA = {"small": Size(256, 12, 4, 1024), "base": BERT["base"], "large": BERT["large"]}
"""Clark et al. 2020, appendix B, table 6 (the discriminators)."""
WIDTHS = {"small": 128, "base": 768, "large": 1024}
"""Of ELECTRA's token vectors."""


def summary(activation: Build[Activation] | None = GELU) -> Build[Pooler]:
    """What transformers' ELECTRA chooses by: a dense map of the first token's vector, and GELU."""
    return partial(First, transform=partial(Dense, activation=activation))


def body(
    size: Size,
    *,
    length: int,
    offset: int = 0,
    segments: int = 2,
    width: int | None = None,
    project: bool = False,
    groups: int | None = None,
    activation: Build[Activation] = GELU,
    eps: float = 1e-12,
    dropout: float = 0.1,
    attention_dropout: float | None = None,
) -> dict[str, Any]:
    """dim, embedder and encoder of a BERT: tokens, positions and segments added and normalised, then layers with post-norm."""
    norm = partial(LayerNorm, eps=eps)
    layer = partial(
        TransformerLayer,
        mixer=partial(MultiHead, heads=size.heads, dropout=dropout if attention_dropout is None else attention_dropout),
        feedforward=partial(PositionwiseFeedForward, hidden=size.hidden, activation=activation),
        residual=partial(PostNorm, norm=norm, dropout=dropout),
    )
    stack = Transformer if groups is None else partial(SharedTransformer, groups=groups)
    positions = partial(Learned, length=length, offset=offset)
    return {
        "dim": size.dim,
        "embedder": partial(
            Sum,
            parts=[partial(Token, scale=1.0), positions, partial(TokenType, mark="segment", size=segments)],
            norm=norm,
            dropout=dropout,
            width=width,
            project=Dense if project else None,
        ),
        "encoder": partial(stack, layers=size.layers, layer=layer, position=None, norm=None),
    }


def fill_head(
    *, activation: Build[Activation] = GELU, eps: float = 1e-12, tied: bool = True, width: int | None = None
) -> Build[Head]:
    """The head that says hidden tokens: dense, activation, norm, then the tokens' own vectors (or others as wide) with a bias."""
    transform = partial(Dense, activation=activation, norm=partial(LayerNorm, eps=eps))
    return partial(Tied, scale=1.0, transform=transform) if tied else partial(Untied, transform=transform, width=width)


def chosen(size: Size, dim: int | None, layers: int | None, heads: int | None, hidden: int | None) -> Size:
    """A published size with what is chosen otherwise; heads stay 64 wide and the feed-forward 4 dim, where they are not said."""
    if dim is not None:
        size = Size(dim, size.layers, max(1, dim // 64), min(4 * dim, 10**6))
    return Size(size.dim, layers or size.layers, heads or size.heads, hidden or size.hidden)


# ------------------------------------------------------------------------------------------------------- the models


@composition("bert")
def bert(
    *,
    size: Literal["tiny", "mini", "small", "medium", "base", "large"] = "base",
    dim: Width | None = None,
    layers: Layers | None = None,
    heads: Heads | None = None,
    hidden: Width | None = None,
    length: Count = 512,
    dropout: Dropout = 0.1,
    task: Task = "masked-lm",
    pooler: Build[Pooler] | None = None,
    weights: Place | None = None,
) -> Build[Structure]:
    """BERT: a Transformer that reads in both directions.

    Tokens, learned positions and segments; ``layers`` layers with post-norm and GELU.

    Devlin et al. 2019, https://arxiv.org/abs/1810.04805

    Args:
        size: A published size.
        dim: Width; None = that of the size. Where it is given, heads are 64 wide and the feed-forward maps 4 dim, unless said.
        layers: Layers; None = those of the size.
        heads: Heads of every attention; None = those of the size.
        hidden: Width inside the feed-forward maps; None = that of the size.
        length: Number of positions.
        dropout: Of every sub-layer's result, of the attention weights and of the embedded tokens.
        task: What it is for: fill (say hidden tokens), relate (two segments), encode, classify, tag, choose, answer.
        pooler: Makes one vector of a text; None = a dense map of the first token's vector, as published.
        weights: A published model's folder, or a run's, from which all weights of the same name are taken; None = random ones.

    Example:
        >>> bert(size="tiny").keywords["dim"]
        128
    """
    parts = body(chosen(BERT[size], dim, layers, heads, hidden), length=length, dropout=dropout)
    head = partial(ClassifierHead, dropout=dropout)
    return partial(reader(task, parts, fill=fill_head(), relation=task == "masked-lm", head=head, pooler=pooler), weights=weights)


@composition("roberta")
def roberta(
    *,
    size: Literal["base", "large"] = "base",
    dim: Width | None = None,
    layers: Layers | None = None,
    heads: Heads | None = None,
    hidden: Width | None = None,
    length: Count = 512,
    dropout: Dropout = 0.1,
    task: Task = "masked-lm",
    pooler: Build[Pooler] | None = None,
    weights: Place | None = None,
) -> Build[Structure]:
    """RoBERTa: BERT without segments and next sentence, trained longer.

    Liu et al. 2019, https://arxiv.org/abs/1907.11692

    Args:
        size: A published size.
        dim: Width; None = that of the size. Where it is given, heads are 64 wide and the feed-forward maps 4 dim, unless said.
        layers: Layers; None = those of the size.
        heads: Heads of every attention; None = those of the size.
        hidden: Width inside the feed-forward maps; None = that of the size.
        length: Number of positions.
        dropout: Of every sub-layer's result, of the attention weights and of the embedded tokens.
        task: What it is for: fill (say hidden tokens), relate (two segments), encode, classify, tag, choose, answer.
        pooler: Makes one vector of a text; None = the first token's vector.
        weights: A published model's folder, or a run's, from which all weights of the same name are taken; None = random ones.

    Example:
        >>> roberta(size="large").keywords["dim"]
        1024
    """
    parts = body(chosen(BERT[size], dim, layers, heads, hidden), length=length, offset=2, segments=1, eps=1e-5, dropout=dropout)
    head = partial(ClassifierHead, hidden=parts["dim"], dropout=dropout)
    cls = CLS if task == "multiple-choice" else None
    return partial(reader(task, parts, fill=fill_head(eps=1e-5), cls=cls, head=head, pooler=pooler), weights=weights)


@composition("albert")
def albert(
    *,
    size: Literal["base", "large", "xlarge", "xxlarge"] = "base",
    dim: Width | None = None,
    layers: Layers | None = None,
    heads: Heads | None = None,
    hidden: Width | None = None,
    embedding_dim: Width = 128,
    groups: Layers = 1,
    length: Count = 512,
    dropout: Dropout = 0.0,
    task: Task = "masked-lm",
    pooler: Build[Pooler] | None = None,
    weights: Place | None = None,
) -> Build[Structure]:
    """ALBERT: BERT with narrow token vectors and one layer that is gone through many times.

    Lan et al. 2020, https://arxiv.org/abs/1909.11942

    Args:
        size: A published size.
        dim: Width; None = that of the size. Where it is given, heads are 64 wide and the feed-forward maps 4 dim, unless said.
        layers: Layers; None = those of the size.
        heads: Heads of every attention; None = those of the size.
        hidden: Width inside the feed-forward maps; None = that of the size.
        embedding_dim: Dimension of the token embeddings.
        groups: How many layers have weights of their own.
        length: Number of positions.
        dropout: Of every sub-layer's result, of the attention weights and of the embedded tokens.
        task: What it is for: fill (say hidden tokens), relate (two segments), encode, classify, tag, choose, answer.
        pooler: Makes one vector of a text; None = a dense map of the first token's vector, as published.
        weights: A published model's folder, or a run's, from which all weights of the same name are taken; None = random ones.

    Example:
        >>> albert().keywords["dim"]
        768
    """
    sizes = chosen(ALBERT[size], dim, layers, heads, hidden)
    parts = body(sizes, length=length, width=embedding_dim, project=True, groups=groups, activation=GELUTanh, dropout=dropout)
    fill = fill_head(activation=GELUTanh)
    head = partial(ClassifierHead, dropout=0.1)
    return partial(reader(task, parts, fill=fill, relation=task == "masked-lm", head=head, pooler=pooler), weights=weights)


@composition("electra")
def electra(
    *,
    size: Literal["small", "base", "large"] = "base",
    dim: Width | None = None,
    layers: Layers | None = None,
    heads: Heads | None = None,
    hidden: Width | None = None,
    embedding_dim: Width | None = None,
    length: Count = 512,
    dropout: Dropout = 0.1,
    task: Task = "replaced-token",
    pooler: Build[Pooler] | None = None,
    weights: Place | None = None,
) -> Build[Structure]:
    """ELECTRA: BERT's body, trained to tell which tokens were replaced.

    Clark et al. 2020, https://arxiv.org/abs/2003.10555

    Args:
        size: A published size.
        dim: Width; None = that of the size. Where it is given, heads are 64 wide and the feed-forward maps 4 dim, unless said.
        layers: Layers; None = those of the size.
        heads: Heads of every attention; None = those of the size.
        hidden: Width inside the feed-forward maps; None = that of the size.
        embedding_dim: Dimension of the token embeddings; None = that of the size, or dim where that is given.
        length: Number of positions.
        dropout: Of every sub-layer's result, of the attention weights and of the embedded tokens.
        task: What it is for: judge (say which tokens were replaced), encode, fill (the generator), classify, tag, choose, answer.
        pooler: Makes one vector of a text; None = the first token's vector.
        weights: A published model's folder, or a run's, from which all weights of the same name are taken; None = random ones.

    Example:
        >>> electra(size="small").keywords["dim"]
        256
    """
    sizes = chosen(ELECTRA[size], dim, layers, heads, hidden)
    narrow = embedding_dim or (WIDTHS[size] if dim is None else sizes.dim)
    parts = body(sizes, length=length, width=None if narrow == sizes.dim else narrow, dropout=dropout)
    head = partial(ClassifierHead, hidden=sizes.dim, activation=GELU, dropout=dropout)
    cls = summary() if task == "multiple-choice" else None
    judge = partial(ClassifierHead, hidden=sizes.dim, activation=GELU)
    return partial(reader(task, parts, fill=fill_head(), judge=judge, cls=cls, head=head, pooler=pooler), weights=weights)


# --------------------------------------------------------------------------------------------------- published layouts


def _layer(theirs: str, ours: str) -> list[Rule]:
    """The names of one layer of a BERT."""
    return rules(
        {
            f"{theirs}.attention.self.query.*": f"{ours}.mixer.query.*",
            f"{theirs}.attention.self.key.*": f"{ours}.mixer.key.*",
            f"{theirs}.attention.self.value.*": f"{ours}.mixer.value.*",
            f"{theirs}.attention.output.dense.*": f"{ours}.mixer.out.*",
            f"{theirs}.attention.output.LayerNorm.*": f"{ours}.mixer_residual.norm.*",
            f"{theirs}.intermediate.dense.*": f"{ours}.feedforward.up.*",
            f"{theirs}.output.dense.*": f"{ours}.feedforward.down.*",
            f"{theirs}.output.LayerNorm.*": f"{ours}.feedforward_residual.norm.*",
        }
    )


def _embeddings(prefix: str) -> list[Rule]:
    return rules(
        {
            f"{prefix}embeddings.word_embeddings.weight": "embedder.parts.0.weight",
            f"{prefix}embeddings.position_embeddings.weight": "embedder.parts.1.weight",
            f"{prefix}embeddings.token_type_embeddings.weight": "embedder.parts.2.weight",
            f"{prefix}embeddings.LayerNorm.*": "embedder.norm.*",
        }
    )


def _bert_rules(structure: Any) -> list[Rule]:
    heads = {
        "bert.pooler.dense.*": "pooler.transform.map.*",
        "cls.predictions.transform.dense.*": "head.transform.map.*",
        "cls.predictions.transform.LayerNorm.*": "head.transform.norm.*",
        "cls.predictions.decoder.*": "head.out.*",
        "cls.predictions.bias": f"{out_of(structure)}.bias",
        "cls.seq_relationship.*": "segment_head.out.*",
    }
    body_rules = _embeddings("bert.") + _layer("bert.encoder.layer.#", "encoder.stack.layers.#")
    return body_rules + rules(heads | class_rules(structure))


def _roberta_rules(structure: Any) -> list[Rule]:
    heads = {
        "roberta.pooler.dense.*": "pooler.transform.map.*",
        "lm_head.dense.*": "head.transform.map.*",
        "lm_head.layer_norm.*": "head.transform.norm.*",
        "lm_head.decoder.*": "head.out.*",
        "lm_head.bias": f"{out_of(structure)}.bias",
    }
    body_rules = _embeddings("roberta.") + _layer("roberta.encoder.layer.#", "encoder.stack.layers.#")
    return body_rules + rules(heads | class_rules(structure, hidden=True))


def _albert_rules(structure: Any) -> list[Rule]:
    theirs, ours = "albert.encoder.albert_layer_groups.#.albert_layers.0", "encoder.stack.layers.#"
    named = {
        "albert.encoder.embedding_hidden_mapping_in.*": "embedder.project.map.*",
        f"{theirs}.attention.query.*": f"{ours}.mixer.query.*",
        f"{theirs}.attention.key.*": f"{ours}.mixer.key.*",
        f"{theirs}.attention.value.*": f"{ours}.mixer.value.*",
        f"{theirs}.attention.dense.*": f"{ours}.mixer.out.*",
        f"{theirs}.attention.LayerNorm.*": f"{ours}.mixer_residual.norm.*",
        f"{theirs}.ffn.*": f"{ours}.feedforward.up.*",
        f"{theirs}.ffn_output.*": f"{ours}.feedforward.down.*",
        f"{theirs}.full_layer_layer_norm.*": f"{ours}.feedforward_residual.norm.*",
        "albert.pooler.*": "pooler.transform.map.*",
        "predictions.dense.*": "head.transform.map.*",
        "predictions.LayerNorm.*": "head.transform.norm.*",
        "predictions.decoder.*": "head.out.*",
        "predictions.bias": f"{out_of(structure)}.bias",
        "sop_classifier.classifier.*": "segment_head.out.*",
    }
    return _embeddings("albert.") + rules(named | class_rules(structure))


def _electra_rules(structure: Any) -> list[Rule]:
    heads = {
        "electra.embeddings_project.*": "embedder.project.map.*",
        "sequence_summary.summary.*": "pooler.transform.map.*",
        "discriminator_predictions.dense.*": "discriminator.hidden.*",
        "discriminator_predictions.dense_prediction.*": "discriminator.out.*",
        "generator_predictions.dense.*": "head.transform.map.*",
        "generator_predictions.LayerNorm.*": "head.transform.norm.*",
        "generator_lm_head.*": f"{out_of(structure)}.*",
    }
    body_rules = _embeddings("electra.") + _layer("electra.encoder.layer.#", "encoder.stack.layers.#")
    return body_rules + rules(heads | class_rules(structure, hidden=True))


def _read(config: Config, task: Task, names: Iterable[str]) -> Build[Structure]:
    """Any of the family from its config.json."""
    kind, names = config["model_type"], set(names)
    config.refuse(position_embedding_type="absolute", is_decoder=False, add_cross_attention=False, inner_group_num=1)
    size = Size(*(config[k] for k in ("hidden_size", "num_hidden_layers", "num_attention_heads", "intermediate_size")))
    activation, eps, dropout = config.activation("hidden_act"), config["layer_norm_eps"], config["hidden_dropout_prob"]
    offset = config["pad_token_id"] + 1 if kind == "roberta" else 0
    width = config["embedding_size"] if kind in ("albert", "electra") else size.dim
    narrow = None if width == size.dim else width
    parts = body(
        size,
        length=config["max_position_embeddings"] - offset,
        offset=offset,
        segments=config["type_vocab_size"],
        width=narrow,
        project=kind == "albert",
        groups=config["num_hidden_groups"] if kind == "albert" else None,
        activation=activation,
        eps=eps,
        dropout=dropout,
        attention_dropout=config["attention_probs_dropout_prob"],
    )
    fill_activation = GELU if kind in ("roberta", "electra") else activation  # theirs is not the config's
    fill = fill_head(activation=fill_activation, eps=eps, tied=config.get("tie_word_embeddings", True), width=narrow)
    rate = config["classifier_dropout_prob"] if kind == "albert" else config.get("classifier_dropout")
    head = partial(ClassifierHead, dropout=dropout if rate is None else rate)
    if kind in ("roberta", "electra"):
        head = partial(head, hidden=size.dim, activation=GELU if kind == "electra" else at(ClassifierHead, "activation"))
    made = task in ("classification", "next-sentence") and kind in ("bert", "albert")
    pooled = made or task == "multiple-choice" or any("pooler." in name for name in names)
    cls = CLS if pooled else None
    if kind == "electra" and task == "multiple-choice":
        config.refuse(summary_type="first", summary_use_proj=True, summary_proj_to_labels=False)
        named = Config({"summary_activation": "gelu"} | config)
        cls = summary(named.activation("summary_activation") if named.get("summary_activation") else None)
    relation = any("seq_relationship" in name or "sop_classifier" in name for name in names)
    judge = partial(ClassifierHead, hidden=size.dim, activation=activation)
    return reader(task, parts, fill=fill, relation=relation and task == "masked-lm", judge=judge, cls=cls, head=head)


def _write(tree: Any, kind: str) -> dict[str, Any]:
    """The config.json of a structure of this family."""
    layer, embedder, encoder = at(tree, "encoder.layer"), at(tree, "embedder"), at(tree, "encoder")
    offset, dim = at(embedder, "parts.1.offset"), at(tree, "dim")
    config: dict[str, Any] = {
        "hidden_size": dim,
        "num_hidden_layers": at(encoder, "layers"),
        "num_attention_heads": at(layer, "mixer.heads"),
        "intermediate_size": at(layer, "feedforward.hidden") or 4 * dim,
        "hidden_act": activation_name(at(layer, "feedforward.activation")),
        "hidden_dropout_prob": at(layer, "residual.dropout"),
        "attention_probs_dropout_prob": at(layer, "mixer.dropout"),
        "max_position_embeddings": at(embedder, "parts.1.length") + offset,
        "type_vocab_size": at(embedder, "parts.2.size"),
        "layer_norm_eps": at(layer, "residual.norm.eps"),
        "tie_word_embeddings": out_of(tree) == "head",
    }
    if name_of(tree) in ("classifier", "multiple-choice", "tagger"):
        config["classifier_dropout_prob" if kind == "albert" else "classifier_dropout"] = at(tree, "head.dropout")
    if kind == "roberta":
        config |= {"pad_token_id": offset - 1}
    if kind in ("albert", "electra"):
        config |= {"embedding_size": at(embedder, "width") or dim}
    if kind == "electra" and name_of(tree) == "multiple-choice":
        activation = at(tree, "pooler.transform.activation")
        config |= {"summary_activation": None if activation is None else activation_name(activation)}
    if kind == "albert":
        config |= {"num_hidden_groups": at(encoder, "groups"), "inner_group_num": 1}
    return config


_TASKS = {
    "Model": "encode",
    "ForMaskedLM": "masked-lm",
    "ForSequenceClassification": "classification",
    "ForTokenClassification": "token-classification",
    "ForMultipleChoice": "multiple-choice",
    "ForQuestionAnswering": "question-answering",
}


_DEFAULTS = {
    "hidden_act": "gelu",
    "hidden_dropout_prob": 0.1,
    "attention_probs_dropout_prob": 0.1,
    "type_vocab_size": 2,
    "layer_norm_eps": 1e-12,
}


def _family(
    kind: str,
    title: str,
    names: Any,
    tied: tuple[str, ...],
    more: Mapping[str, str] = {},
    defaults: Mapping[str, Any] = {},
) -> None:
    tasks = {title + ending: task for ending, task in _TASKS.items()} | {**more}
    layout(
        Layout(
            type=kind,
            prefix=f"{kind}.",
            body=("embeddings", "embeddings_project", "encoder", "pooler"),
            read=_read,
            write=partial(_write, kind=kind),
            rules=names,
            tasks=tasks,
            defaults={**_DEFAULTS, **defaults},
            tied=tied,
            ignored=("*position_ids", "*token_type_ids"),
        )
    )


_more = {"BertForPreTraining": "masked-lm", "BertForNextSentencePrediction": "next-sentence"}
_family("bert", "Bert", _bert_rules, ("cls.predictions.decoder.*",), _more)
_family("roberta", "Roberta", _roberta_rules, ("lm_head.decoder.*",), defaults={"pad_token_id": 1})
_albert = {
    "hidden_act": "gelu_new",
    "hidden_dropout_prob": 0.0,
    "attention_probs_dropout_prob": 0.0,
    "classifier_dropout_prob": 0.1,
    "embedding_size": 128,
    "num_hidden_groups": 1,
}
_family("albert", "Albert", _albert_rules, ("predictions.decoder.*",), {"AlbertForPreTraining": "masked-lm"}, _albert)
_judge = {"ElectraForPreTraining": "replaced-token"}
_family("electra", "Electra", _electra_rules, ("generator_lm_head.weight",), _judge, {"embedding_size": 128})
