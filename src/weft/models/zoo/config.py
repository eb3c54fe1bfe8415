"""config.json of published models: typed access, defaults, checks."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from annotated_types import Ge, Le
from pydantic import TypeAdapter, ValidationError

from weft.blocks import GELU, GELUTanh, ReLU, SiLU, Tanh
from weft.core.contracts import Activation
from weft.core.fields import Field, LabelField, LabelsField, NumberField, TextField
from weft.core.options import Dim
from weft.core.registry import Build, name_of
from weft.recipe.describe import allowed

ACTIVATIONS: dict[str, Build[Activation]] = {
    "gelu": GELU,
    "gelu_new": GELUTanh,
    "gelu_pytorch_tanh": GELUTanh,
    "gelu_fast": GELUTanh,
    "relu": ReLU,
    "silu": SiLU,
    "swish": SiLU,
    "tanh": Tanh,
}
"""Names of activations in config.json."""

TYPES: dict[str, Any] = {
    "architectures": list[str],
    "vocab_size": Annotated[int, Ge(1), Le(10**8)],
    "pad_token_id": Annotated[int, Ge(-1), Le(10**8)],
    "decoder_start_token_id": Annotated[int, Ge(-1), Le(10**8)],
    "tie_word_embeddings": bool,
    "num_labels": Dim,
    "architecture": str,
    "num_classes": Dim,
    "label_names": list[str],
    "problem_type": Literal["regression", "single_label_classification", "multi_label_classification"],
}
"""Types of the keys of config.json that all families share."""
REQUIRED: Any = object()
"""Default of a key that config.json must have."""


@dataclass(frozen=True)
class SameAs:
    """Default of a key that has the value of another key where config.json lacks it."""

    key: str


@functools.cache
def _validator(type_: Any) -> TypeAdapter[Any]:
    return TypeAdapter(type_)


class ModelConfig(dict[str, Any]):
    """A config.json. A missing key, or one that is null, has the default of its family; without a default it is an error.

    Args:
        values: The content of config.json.
        defaults: The defaults of its family.
        types: The types of the keys of its family.
    """

    def __init__(self, values: Mapping[str, Any], *, defaults: Mapping[str, Any], types: Mapping[str, Any] = {}):
        super().__init__(values)
        self.defaults, self.types = defaults, {**TYPES, **types}

    def __getitem__(self, key: str) -> Any:
        value = super().__getitem__(key)
        return self.__missing__(key) if value is None else value

    def __missing__(self, key: str) -> Any:
        if key not in self.defaults:
            raise ValueError(f"config.json has no {key!r}, which a {self.get('model_type', 'model')} needs")
        default = self.defaults[key]
        return self[default.key] if isinstance(default, SameAs) else default

    def check(self) -> None:
        """Raise ValueError for values of the wrong type, and for features that no family here supports."""
        for key, value in self.items():
            type_ = self.types.get(key)
            if value is None or type_ is None:
                continue
            try:
                _validator(type_).validate_python(value, strict=True)
            except ValidationError:
                raise ValueError(f"config.json: {key} is {str(repr(value))[:100]}, but it must be {allowed(type_)}") from None
        self.require(quantization_config=None, pruned_heads={}, rotary=False)

    def require(self, **supported: Any) -> None:
        """Raise ValueError for unsupported features: each key must be missing or have the value given here."""
        for key, value in supported.items():
            if (found := self.get(key, value)) != value:
                raise ValueError(f"config.json: {key} is {found!r}, but only {value!r} is supported")

    def labels(self) -> tuple[str, ...]:
        """The class names, by class index."""
        if names := self.get("label_names"):
            if len(names) != self.get("num_classes", len(names)):
                raise ValueError(f"config.json: label_names has {len(names)} names, but num_classes is {self['num_classes']}")
            return tuple(names)
        number = self.get("num_labels", self.get("num_classes", 2))
        named = self.get("id2label") or {str(i): f"LABEL_{i}" for i in range(number)}
        if not isinstance(named, dict) or set(named) != {str(i) for i in range(len(named))}:
            raise ValueError(f"config.json: id2label is {named!r}, but it must name the classes 0, 1, 2, ..., each once")
        return tuple(str(named[str(i)]) for i in range(len(named)))

    def label_field(self) -> Field:
        """The target field of sequence classification: one class, several labels, or a number, by ``problem_type``."""
        names, problem = self.labels(), self.get("problem_type")
        if problem is None and len(names) == 1:
            problem = "regression"
        if problem == "regression":
            if len(names) > 1:
                raise ValueError(f"config.json: problem_type is 'regression' with {len(names)} labels, but only 1 is supported")
            return NumberField("label")
        kind = LabelsField if problem == "multi_label_classification" else LabelField
        return kind("label", len(names), names)


def activation_named(name: str, key: str) -> Build[Activation]:
    """The activation with this name in config.json; ``key`` is named in the error."""
    if name not in ACTIVATIONS:
        raise ValueError(f"config.json: {key} is {name!r}; supported are {', '.join(ACTIVATIONS)}")
    return ACTIVATIONS[name]


def activation_name(factory: Any) -> str:
    """The name of an activation in config.json."""
    for name, known in ACTIVATIONS.items():
        if name_of(known) == name_of(factory):
            return name
    raise ValueError(f"the activation {name_of(factory)} has no name in config.json; supported are {', '.join(ACTIVATIONS)}")


def text_field(config: ModelConfig) -> TextField:
    """The input field of a text model, as far as config.json determines it."""
    length = next((config[k] for k in ("max_position_embeddings", "n_positions") if config.get(k)), 512)
    return TextField("text", config["vocab_size"], max_length=length)
