"""A set of classes per example."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from weft.core.fields.base import Columns, Encoding, StoredColumn, field_kind
from weft.core.fields.class_field import ClassField
from weft.core.ragged_array import RaggedArray

if TYPE_CHECKING:
    from weft.core.fields.info import Info, SyntheticSizes


@field_kind("labels")
@dataclass(frozen=True)
class LabelsField(ClassField):
    """A set of classes, separated by tabs in a cell: 0 or 1 for each class. See ``ClassField`` for the options.

    Example:
        >>> LabelsField("label", 3, labels=("a", "b", "c")).to_text([0, 2])
        'a\\tc'
    """

    may_be_empty: ClassVar[bool] = True

    def synthetic(self, rng: np.random.Generator, sizes: SyntheticSizes) -> np.ndarray:
        return rng.integers(0, 2, self.classes).astype(np.float32)

    def columns(self) -> dict[str, StoredColumn]:
        return self.class_column(ragged=True)

    def encode(self, rows: Sequence[Mapping[str, str]], encoding: Encoding) -> Columns:
        known, cells = self.ids(), [row.get(self.name) or "" for row in rows]
        return {
            self.name: RaggedArray.of([sorted({self.class_id(known, part) for part in self.class_names(cell)}) for cell in cells])
        }

    def assemble(self, values: Mapping[str, Any], info: Info) -> np.ndarray:
        return np.isin(np.arange(self.classes), values[self.name]).astype(np.float32)

    @classmethod
    def class_names(cls, cell: str) -> list[str]:
        return cell.split("\t") if cell else []

    def to_text(self, prediction: Sequence[int]) -> str:
        return "\t".join(map(self.class_name, prediction))

    @classmethod
    def json_value(cls, text: str) -> list[str]:
        return cls.class_names(text)
