"""What the families of encoders share: BERT's body, heads, table of config.json and tensor names."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

from weft.blocks import (
    GELU,
    ClassifierHead,
    Dense,
    FirstPooler,
    LayerNorm,
    LearnedPositionEmbedder,
    MultiHeadAttention,
    PositionwiseFeedForward,
    PostNorm,
    SharedTransformer,
    SumEmbedder,
    Tanh,
    TiedHead,
    TokenEmbedder,
    TokenTypeEmbedder,
    Transformer,
    TransformerLayer,
    UntiedHead,
)
from weft.core.contracts import Activation, Embedder, Head, Pooler, Position, Structure
from weft.core.options import Dim, Dropout, Heads, Layers, NonNegative
from weft.core.registry import Build, name_of, option_values
from weft.models.classifier import Classifier
from weft.models.multiple_choice import MultipleChoiceModel
from weft.models.span_extractor import SpanExtractor
from weft.models.tagger import Tagger
from weft.models.text_encoder import TextEncoder
from weft.models.zoo.config import SameAs
from weft.models.zoo.config_table import HIDDEN, Constant, Conversion, Key, activation
from weft.models.zoo.family import TIED_EMBEDDINGS, Task
from weft.models.zoo.option_paths import option_at
from weft.models.zoo.sizes import ModelSize
from weft.models.zoo.tensor_names import Rule, rules

BERT_POOLER: Build[Pooler] = partial(FirstPooler, transform=partial(Dense, activation=Tanh))
"""BERT's pooler: a dense layer with tanh over the hidden state of the first token ([CLS])."""
CLASSIFIED = ("classifier:", "tagger:", "multiple-choice:")
"""Structures with a classification head that has dropout."""

# ------------------------------------------------------------------------------------------------------------ structure


def body(
    size: ModelSize,
    *,
    length: int,
    offset: int = 0,
    segments: int | None = 2,
    embedding_dim: int | None = None,
    project: bool = False,
    groups: int | None = None,
    activation: Build[Activation] = GELU,
    eps: float = 1e-12,
    dropout: float = 0.1,
    position: Build[Position] | None = None,
) -> dict[str, Any]:
    """``dim``, ``embedder`` and ``encoder`` of BERT: normalized token, position and segment embeddings, post-norm layers."""
    norm = partial(LayerNorm, eps=eps)
    layer = partial(
        TransformerLayer,
        mixer=partial(MultiHeadAttention, heads=size.heads, dropout=dropout),
        feedforward=partial(PositionwiseFeedForward, hidden=size.hidden, activation=activation),
        residual=partial(PostNorm, norm=norm, dropout=dropout),
    )
    stack = Transformer if groups is None else partial(SharedTransformer, groups=groups)
    positions = partial(LearnedPositionEmbedder, length=length, offset=offset)
    parts: list[Build[Embedder]] = [partial(TokenEmbedder, scale=1.0), positions]
    if segments is not None:
        parts.append(partial(TokenTypeEmbedder, mark="segment", size=segments))
    return {
        "dim": size.dim,
        "embedder": partial(
            SumEmbedder,
            parts=parts,
            norm=norm,
            dropout=dropout,
            embedding_dim=embedding_dim,
            project=Dense if project else None,
        ),
        "encoder": partial(stack, layers=size.layers, layer=layer, position=position, norm=None),
    }


def masked_lm_head(*, activation: Build[Activation] = GELU, eps: float = 1e-12, tied: bool = True) -> Build[Head]:
    """The masked-LM head of BERT: dense layer, activation, layer norm, then the token embeddings or an untied matrix."""
    transform = partial(Dense, activation=activation, norm=partial(LayerNorm, eps=eps))
    return partial(TiedHead, scale=1.0, transform=transform) if tied else partial(UntiedHead, transform=transform)


def task_model(
    task: Task,
    body: Mapping[str, Any],
    *,
    mlm_head: Build[Head] | None,
    with_segment_head: bool = False,
    discriminator: Build[Head] = ClassifierHead,
    published_pooler: Build[Pooler] | None = BERT_POOLER,
    head: Build[Head] = ClassifierHead,
    pooler: Build[Pooler] | None = None,
) -> Build[Structure]:
    """The structure of an encoder-only model for a task.

    Args:
        task: The task.
        body: Options ``dim``, ``embedder`` and ``encoder``.
        mlm_head: The masked-LM head, for the task ``masked-lm``.
        with_segment_head: Whether a head for the relation of two segments is added; the task ``next-sentence`` always has it.
        discriminator: The replaced-token head, for the task ``replaced-token``.
        published_pooler: The pooler of the published model.
        head: The classification head.
        pooler: Replaces the published pooler.
    """
    pooled: dict[str, Any] = {"pooler": pooler or published_pooler or FirstPooler}
    linear_head = partial(ClassifierHead, dropout=option_at(head, "dropout"))
    match task:
        case "classification":
            return partial(Classifier, **body, **pooled, head=head)
        case "multiple-choice":
            return partial(MultipleChoiceModel, **body, **pooled, head=linear_head)
        case "token-classification":
            return partial(Tagger, **body, head=linear_head)
        case "question-answering":
            return partial(SpanExtractor, **body)
    heads: dict[str, Any] = {"head": mlm_head if task == "masked-lm" else None}
    if with_segment_head or task == "next-sentence":
        heads["segment_head"] = ClassifierHead
        published_pooler = published_pooler or (FirstPooler if task == "next-sentence" else None)
    if task == "replaced-token":
        heads["discriminator"] = discriminator
    return partial(TextEncoder, **body, pooler=pooler or published_pooler, **heads)


def task_head_rules(structure: Any, hidden: bool = False) -> dict[str, str]:
    """Tensor names of the task head; ``hidden``: the classification head has a hidden layer."""
    match name_of(structure):
        case "multiple-choice":
            return {"classifier.*": "choice_head.out.*"}
        case "span-extractor":
            return {"qa_outputs.*": "span_head.out.*"}
        case "tagger":
            return {"classifier.*": "tag_head.out.*"}
    if hidden:
        return {"classifier.dense.*": "classifier.hidden.*", "classifier.out_proj.*": "classifier.out.*"}
    return {"classifier.*": "classifier.out.*"}


def mlm_bias_module(structure: Any) -> str:
    """Our module that has the bias of the masked-LM head: the head itself, or its output layer where it is untied."""
    head = option_values(structure).get("head") if name_of(structure) == "text-encoder" else None
    return "head.out" if head is not None and name_of(head) == "untied" else "head"


def pooler_of(task: str, names: set[str], needed: tuple[str, ...] = ()) -> Build[Pooler] | None:
    """BERT's pooler where the file has one, where multiple choice needs it, and for the tasks ``needed``."""
    return BERT_POOLER if task in (*needed, "multiple-choice") or any("pooler." in name for name in names) else None


def has_segment_head(task: str, names: set[str]) -> bool:
    """Whether a file for masked language modeling has the head for the relation of two segments."""
    return task == "masked-lm" and any("seq_relationship" in name or "sop_classifier" in name for name in names)


# ---------------------------------------------------------------------------------------------------------- config.json

EMBEDDING_DIM = Conversion(
    Dim,
    lambda size, config: None if size == config["hidden_size"] else size,
    lambda option, structure: option or option_at(structure, "dim"),
)
"""Dimension of the token embeddings; an option that is None stands for dim."""
EMBEDDING_PATHS = ("embedder.embedding_dim", "text-encoder:head.embedding_dim")

BERT_KEYS = (
    Constant("position_embedding_type", "absolute"),
    Constant("is_decoder", False),
    Constant("add_cross_attention", False),
    Key("hidden_size", Dim, "dim", "text-encoder:discriminator.hidden"),
    Key("num_hidden_layers", Layers, "encoder.layers"),
    Key("num_attention_heads", Heads, "encoder.layer.mixer.heads"),
    Key("intermediate_size", HIDDEN, "encoder.layer.feedforward.hidden"),
    Key(
        "hidden_act",
        activation("hidden_act"),
        "encoder.layer.feedforward.activation",
        "text-encoder:head.transform.activation",
        "text-encoder:discriminator.activation",
        default="gelu",
    ),
    Key("hidden_dropout_prob", Dropout, "encoder.layer.residual.dropout", "embedder.dropout", default=0.1),
    Key("attention_probs_dropout_prob", Dropout, "encoder.layer.mixer.dropout", default=0.1),
    Key("max_position_embeddings", Dim, "embedder.parts.1.length"),
    Key("type_vocab_size", Dim, "embedder.parts.2.size", default=2),
    Key(
        "layer_norm_eps",
        NonNegative,
        "encoder.layer.residual.norm.eps",
        "embedder.norm.eps",
        "text-encoder:head.transform.norm.eps",
        default=1e-12,
    ),
    TIED_EMBEDDINGS,
    Key("classifier_dropout", Dropout, *(f"{of}head.dropout" for of in CLASSIFIED), default=SameAs("hidden_dropout_prob")),
)
"""BERT's config.json; families that differ revise it."""

# -------------------------------------------------------------------------------------------------- tensors and classes

TASKS: Mapping[str, str] = {
    "Model": "encode",
    "ForMaskedLM": "masked-lm",
    "ForSequenceClassification": "classification",
    "ForTokenClassification": "token-classification",
    "ForMultipleChoice": "multiple-choice",
    "ForQuestionAnswering": "question-answering",
}
"""Endings of the classes of transformers for encoders."""
BODY = ("embeddings", "embeddings_project", "encoder", "pooler")
"""First components of the tensor names of encoders."""
BUFFERS = ("*position_ids", "*token_type_ids")


def tasks(title: str, **more: str) -> dict[str, str]:
    """The classes of transformers for an encoder: their names after ``title``, and the task of each."""
    return {title + ending: task for ending, task in {**TASKS, **more}.items()}


def layer_rules(theirs: str, ours: str) -> list[Rule]:
    """Rules for the layers of BERT, whose names start with ``theirs`` and ``ours``."""
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


def embedding_rules(prefix: str) -> list[Rule]:
    """Rules for the embeddings of BERT."""
    return rules(
        {
            f"{prefix}embeddings.word_embeddings.weight": "embedder.parts.0.weight",
            f"{prefix}embeddings.position_embeddings.weight": "embedder.parts.1.weight",
            f"{prefix}embeddings.token_type_embeddings.weight": "embedder.parts.2.weight",
            f"{prefix}embeddings.LayerNorm.*": "embedder.norm.*",
        }
    )
