"""A class per example."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from weft.core.fields.base import Columns, Encoding, StoredColumn, field_kind
from weft.core.fields.class_field import ClassField

if TYPE_CHECKING:
    from weft.core.fields.info import Info, SyntheticSizes


@field_kind("label")
@dataclass(frozen=True)
class LabelField(ClassField):
    """A class, or the index of one of the example's texts: an int. See ``ClassField`` for the options.

    Example:
        >>> field = LabelField("label", 2, labels=("bad", "good"))
        >>> field.outputs, field.to_text(1)
        (2, 'good')
    """

    def synthetic(self, rng: np.random.Generator, sizes: SyntheticSizes) -> int:
        return int(rng.integers(min(self.classes, sizes.choices or self.classes)))

    def columns(self) -> dict[str, StoredColumn]:
        return self.class_column(ragged=False)

    def encode(self, rows: Sequence[Mapping[str, str]], encoding: Encoding) -> Columns:
        known, cells = self.ids(), [row.get(self.name) for row in rows]
        return {self.name: np.array([0 if cell is None else self.class_id(known, cell) for cell in cells], np.uint32)}

    def assemble(self, values: Mapping[str, Any], info: Info) -> int:
        return int(values[self.name])
