"""A number per example."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from weft.core.fields.base import Columns, Encoding, Field, InvalidCell, StoredColumn, field_kind
from weft.core.plain_number import plain_number

if TYPE_CHECKING:
    from weft.core.fields.info import Info, SyntheticSizes


@field_kind("number")
@dataclass(frozen=True)
class NumberField(Field):
    """A number: a float.

    Args:
        name: ``label``, ...

    Example:
        >>> NumberField("label").to_text(0.25), NumberField.json_value("0.25")
        ('0.25', 0.25)
    """

    @property
    def outputs(self) -> int:
        return 1

    def synthetic(self, rng: np.random.Generator, sizes: SyntheticSizes) -> float:
        return float(rng.normal())

    def columns(self) -> dict[str, StoredColumn]:
        return {self.name: StoredColumn(np.dtype("<f8"), ragged=False)}

    def encode(self, rows: Sequence[Mapping[str, str]], encoding: Encoding) -> Columns:
        return {self.name: np.array([finite_number(self.name, row.get(self.name, "0")) for row in rows], np.float64)}

    def assemble(self, values: Mapping[str, Any], info: Info) -> float:
        return float(values[self.name])

    def to_text(self, prediction: float) -> str:
        return f"{prediction:.6g}"

    @classmethod
    def json_value(cls, text: str) -> float:
        return float(text)


def finite_number(name: str, cell: str) -> float:
    """The number in a cell of this column. Raises InvalidCell."""
    try:
        number = plain_number(cell)
    except ValueError:
        number = math.nan
    if not math.isfinite(number):
        raise InvalidCell(f"column {name!r} must be a number, not {cell!r}")
    return number
