"""Model families: how a published config.json and its tensor names map to structures of weft, in both directions."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

from torch import nn

from weft.core.contracts import Embedder, Structure
from weft.core.fields import ImageField, TextField
from weft.core.registry import Build, name_of
from weft.models.zoo.config import REQUIRED, ModelConfig, text_field
from weft.models.zoo.config_table import Computed, Row, config_of_structure, structure_of
from weft.models.zoo.gguf_names import GGUFNames
from weft.models.zoo.option_paths import has_option, option_at
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


def vocab_size(model: nn.Module) -> dict[str, Any]:
    """``vocab_size`` of config.json: the number of token embeddings."""
    return {"vocab_size": next(t.shape[0] for n, t in model.state_dict().items() if n.endswith("embedder.parts.0.weight"))}


@dataclass(frozen=True)
class Family:
    """Declaration of a model family.

    Args:
        model_type: Its ``model_type`` in config.json.
        prefix: Prefix of the body's tensor names in files of a model with a head.
        body: First components of those names after the prefix; files of a model without a head lack the prefix.
        structure: (config.json, task, tensor names) -> a structure with the right parts, whose options may have any values.
        config: The table of config.json: the options that its keys set.
        rules: structure -> rules between its tensor names and ours.
        tasks: Class names of transformers (``architectures``) -> task.
        tied: Their tensor names that repeat the token embeddings when the head is tied.
        copies: Their tensor names that always repeat the token embeddings.
        zero: Pairs of our tensor names: the first is zero in files that have only the second.
        ignored: Patterns of their tensor names that are buffers or constants, not weights.
        field: config.json -> the input field.
        data_config: our model -> the keys of config.json that the data determines: for text, the vocabulary size.
        gguf: How its models are stored in GGUF files; None = they are not supported.
        with_positions: For image models: (structure, position embedder) -> the structure with that position embedder.
        networks: For image networks: the values of the key ``architecture``, which their config.json has in place of
            ``model_type`` and ``architectures``, as those of the package timm do.
    """

    model_type: str
    prefix: str
    body: Sequence[str]
    structure: Callable[[ModelConfig, Any, set[str]], Build[Structure]]
    config: Sequence[Row]
    rules: Callable[[Build[Structure]], list[Rule]]
    tasks: Mapping[str, str]
    tied: Sequence[str] = ()
    copies: Sequence[str] = ()
    zero: Sequence[tuple[str, str]] = ()
    ignored: Sequence[str] = ()
    field: Callable[[ModelConfig], TextField | ImageField] = text_field
    data_config: Callable[[nn.Module], dict[str, Any]] = vocab_size
    gguf: GGUFNames | None = None
    with_positions: Callable[[Build[Structure], Build[Embedder]], Build[Structure]] | None = None
    networks: Sequence[str] = ()

    @cached_property
    def defaults(self) -> dict[str, Any]:
        """Values that transformers uses for keys missing in config.json; sizes have none."""
        return {row.name: row.default for row in self.config if row.default is not REQUIRED}

    @cached_property
    def types(self) -> dict[str, Any]:
        """Types of the values in config.json."""
        return {row.name: row.type for row in self.config if row.type is not None}

    def from_config(self, config: ModelConfig, task: str, names: Iterable[str]) -> Build[Structure]:
        """The structure for a task that config.json describes; ``names`` of the tensors tell which heads the file has."""
        if task == "question-answering" and (labels := len(config.labels())) != 2:
            raise ValueError(f"config.json: {labels} labels (num_labels, id2label); question answering has 2, for start and end")
        return structure_of(config, self.structure(config, task, set(names)), self.config)

    def to_config(self, structure: Build[Structure]) -> dict[str, Any]:
        """config.json of a structure, without the sizes that the data determines."""
        return config_of_structure(structure, self.config)


FAMILIES: dict[str, Family] = {}


def register_family(family: Family) -> Family:
    """Register a model family under its ``model_type``."""
    FAMILIES[family.model_type] = family
    return family


def model_type_of(values: Mapping[str, Any]) -> str:
    """The model type of a config.json: its own, or that of the family of its ``architecture``."""
    if "model_type" in values or "architecture" not in values:
        return str(values.get("model_type"))
    name = str(values["architecture"])
    return next((family.model_type for family in FAMILIES.values() if name in family.networks), name)


def config_of(values: Mapping[str, Any], model_type: str | None = None) -> ModelConfig:
    """A config.json with the defaults of its family."""
    model_type = model_type or model_type_of(values)
    family = FAMILIES.get(model_type)
    defaults, types = ({}, {}) if family is None else (family.defaults, family.types)
    return ModelConfig({**values, "model_type": model_type}, defaults=defaults, types=types)


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


def _is_tied_model(structure: Build[Structure]) -> bool:
    head = option_at(structure, "head") if has_option(structure, "head") else None
    return head is None or name_of(head) != "untied"


TIED_EMBEDDINGS = Computed("tie_word_embeddings", bool, _is_tied_model, default=True)
"""Whether the head over the vocabulary shares its weight with the token embeddings; the family's ``structure`` reads it."""
