"""What fields with classes have in common: the number of classes and their names."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Self

from weft.core.fields.base import Field, InvalidCell, StoredColumn, integers, require_positive

_SHOWN = 20
"""Class names in a message."""


@dataclass(frozen=True)
class ClassField(Field):
    """Classes: ``LabelField``, ``LabelsField`` or ``TagsField``.

    Args:
        name: ``label``, ``tags``, ...
        classes: Number of classes.
        labels: Their names; empty, or fewer, while they are not known.
    """

    noun: ClassVar[str] = "label"
    """What messages call a class."""

    classes: int
    labels: tuple[str, ...] = ()

    def __post_init__(self):
        require_positive(self, "classes")
        if len(self.labels) > self.classes:
            raise ValueError(f"the field {self.name!r} has {self.classes} classes, but {len(self.labels)} names for them")

    @classmethod
    def declare(cls, name: str, labels: Sequence[str], of: str) -> Self:
        return cls(name, max(2, len(labels)), tuple(labels))

    @property
    def outputs(self) -> int:
        return self.classes

    def describe(self) -> str:
        if not self.labels and self.classes == 2:  # declared before the data is read
            return f"{self.kind}, 2 or more classes"
        return f"{self.kind}, up to {self.classes:,} classes"

    def class_column(self, ragged: bool) -> dict[str, StoredColumn]:
        """The column of the ids of classes."""
        return {self.name: StoredColumn(integers(self.classes), ragged)}

    def ids(self) -> dict[str, int]:
        """The id of each class name."""
        return {name: index for index, name in enumerate(self.labels)}

    def class_id(self, known: Mapping[str, int], name: str) -> int:
        """The id of a class name. Raises InvalidCell."""
        if (index := known.get(name)) is None:
            shown = ", ".join(self.labels[:_SHOWN]) + (", ..." if len(self.labels) > _SHOWN else "")
            raise InvalidCell(f"unknown {self.noun} {name!r}; known: {shown}")
        return index

    def class_name(self, index: int) -> str:
        """The name of a class; its index where it has none."""
        return self.labels[index] if index < len(self.labels) else str(index)

    @classmethod
    def class_names(cls, cell: str) -> list[str]:
        """The class names in a cell."""
        return [cell] if cell else []

    def to_text(self, prediction: Any) -> str:
        return self.class_name(prediction)
