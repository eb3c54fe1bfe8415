"""Model families: how a published config.json and its tensor names map to structures of weft, in both directions."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from torch import Tensor

from weft.blocks import ClassifierHead, Dense, FirstPooler, Tanh
from weft.core.contracts import Embedder, Head, Pooler, Structure
from weft.core.fields import ImageField, TextField
from weft.core.registry import Build, base_of, name_of, option_values
from weft.models.classifier import Classifier
from weft.models.multiple_choice import MultipleChoiceModel
from weft.models.span_extractor import SpanExtractor
from weft.models.tagger import Tagger
from weft.models.text_encoder import TextEncoder
from weft.models.zoo.config import ModelConfig, text_field
from weft.models.zoo.tensor_names import Rule

Task = Literal[
    "encode",
    "masked-lm",
    "next-sentence",
    "replaced-token",
    "classification",
    "token-classification",
    "multiple-choice",
    "question-answering",
    "generation",
]
"""Tasks of published models, each with its head. ``encode`` has none: it outputs hidden states."""

BERT_POOLER: Build[Pooler] = functools.partial(FirstPooler, transform=functools.partial(Dense, activation=Tanh))
"""BERT's pooler: a dense layer with tanh over the hidden state of the first token ([CLS])."""


def vocab_size(tensors: Mapping[str, Tensor]) -> dict[str, Any]:
    """``vocab_size`` of config.json: the number of token embeddings."""
    return {"vocab_size": next(t.shape[0] for n, t in tensors.items() if n.endswith("embedder.parts.0.weight"))}


@dataclass(frozen=True)
class Family:
    """Declaration of a model family.

    Args:
        model_type: Its ``model_type`` in config.json.
        prefix: Prefix of the body's tensor names in files of a model with a head.
        body: First components of those names after the prefix; files of a model without a head lack the prefix.
        from_config: (config.json, task, tensor names) -> structure.
        to_config: structure -> config.json, without the sizes that the data determines.
        rules: structure -> rules between its tensor names and ours.
        tasks: Class names of transformers (``architectures``) -> task.
        defaults: Values that transformers uses for keys missing in config.json; sizes have none.
        tied: Their tensor names that repeat the token embeddings when the head is tied.
        copies: Their tensor names that always repeat the token embeddings.
        zero: Pairs of our tensor names: the first is zero in files that have only the second.
        ignored: Patterns of their tensor names that are buffers or constants, not weights.
        field: config.json -> the input field.
        data_config: our tensors -> the keys of config.json that the data determines: for text, the vocabulary size.
        with_positions: For image models: (structure, position embedder) -> the structure with that position embedder.
    """

    model_type: str
    prefix: str
    body: Sequence[str]
    from_config: Callable[..., Build[Structure]]
    to_config: Callable[[Build[Structure]], dict[str, Any]]
    rules: Callable[[Build[Structure]], list[Rule]]
    tasks: Mapping[str, str]
    defaults: Mapping[str, Any]
    tied: Sequence[str] = ()
    copies: Sequence[str] = ()
    zero: Sequence[tuple[str, str]] = ()
    ignored: Sequence[str] = ()
    field: Callable[[ModelConfig], TextField | ImageField] = text_field
    data_config: Callable[[Mapping[str, Tensor]], dict[str, Any]] = vocab_size
    with_positions: Callable[[Build[Structure], Build[Embedder]], Build[Structure]] | None = None


FAMILIES: dict[str, Family] = {}


def register_family(family: Family) -> Family:
    """Register a model family under its ``model_type``."""
    FAMILIES[family.model_type] = family
    return family


def config_of(values: Mapping[str, Any], model_type: str | None = None) -> ModelConfig:
    """A config.json with the defaults of its family."""
    model_type = model_type or str(values.get("model_type"))
    defaults = FAMILIES[model_type].defaults if model_type in FAMILIES else {}
    return ModelConfig({**values, "model_type": model_type}, defaults=defaults)


def option_at(factory: Any, path: str) -> Any:
    """The option at a path of nested factories, defaults included: ``option_at(factory, "encoder.layer.mixer.heads")``."""
    for step in path.split("."):
        factory = factory[int(step)] if isinstance(factory, list | tuple) else option_values(factory)[step]
    return factory


def with_options(factory: Any, **changes: Any) -> Any:
    """A factory with some options replaced."""
    base: Any = base_of(factory)
    return functools.partial(base, **{**option_values(factory), **changes})


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
    linear_head = functools.partial(ClassifierHead, dropout=option_at(head, "dropout"))
    match task:
        case "classification":
            return functools.partial(Classifier, **body, **pooled, head=head)
        case "multiple-choice":
            return functools.partial(MultipleChoiceModel, **body, **pooled, head=linear_head)
        case "token-classification":
            return functools.partial(Tagger, **body, head=linear_head)
        case "question-answering":
            return functools.partial(SpanExtractor, **body)
    heads: dict[str, Any] = {"head": mlm_head if task == "masked-lm" else None}
    if with_segment_head or task == "next-sentence":
        heads["segment_head"] = ClassifierHead
        published_pooler = published_pooler or (FirstPooler if task == "next-sentence" else None)
    if task == "replaced-token":
        heads["discriminator"] = discriminator
    return functools.partial(TextEncoder, **body, pooler=pooler or published_pooler, **heads)


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


_WITH_LM_HEAD = ("LMHeadModel", "DoubleHeadsModel")  # T5 without a head tensor is tied, whatever its config


def has_own_head(config: ModelConfig, names: Iterable[str]) -> bool:
    """Whether a language model has an untied head: by config.json, where its class has a head or the file has the tensor.
    ``GPT2Model`` and ``GPT2ForSequenceClassification`` have none, whatever ``tie_word_embeddings`` is."""
    classes = config.get("architectures") or []
    expected = any(name.endswith(_WITH_LM_HEAD) for name in classes) or "lm_head.weight" in set(names)
    return expected and config.get("tie_word_embeddings", True) is False


def is_tied(head: Any) -> bool:
    """Whether a head shares its weight with the token embeddings."""
    return head is not None and name_of(head) == "tied"
