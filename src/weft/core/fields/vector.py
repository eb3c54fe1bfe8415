"""Vectors per example."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from weft.core.fields.base import Columns, Encoding, Field, InvalidCell, StoredColumn, field_kind, require_positive
from weft.core.fields.number import finite_number
from weft.core.ragged_array import RaggedArray

if TYPE_CHECKING:
    from weft.core.fields.info import Info, SyntheticSizes


@field_kind("vector")
@dataclass(frozen=True)
class VectorField(Field):
    """A vector, or a sequence of them (the patches of an image): floats, separated by blanks in a cell.

    Args:
        name: ``point``; of patches, the name of the image.
        size: Size of a vector.
        length: Number of vectors.
        grid: Rows and columns of vectors that lie on a grid, such as patches; a class token may precede them. Empty = no grid.

    Example:
        >>> VectorField("image", size=64, length=13, grid=(3, 4)).positions  # 3 x 4 patches and a class token
        13
    """

    size: int
    length: int = 1
    grid: tuple[int, ...] = ()

    def __post_init__(self):
        require_positive(self, "size", "length")

    @property
    def outputs(self) -> int:
        return self.size

    @property
    def positions(self) -> int:
        return self.length

    def describe(self) -> str:
        return f"vector, size {self.size:,}" if self.length == 1 else f"{self.length:,} vectors of size {self.size:,}"

    def synthetic(self, rng: np.random.Generator, sizes: SyntheticSizes) -> np.ndarray:
        return self._shaped(rng.normal(size=self.length * self.size))

    def columns(self) -> dict[str, StoredColumn]:
        return {self.name: StoredColumn(np.dtype("<f4"))}

    def encode(self, rows: Sequence[Mapping[str, str]], encoding: Encoding) -> Columns:
        vectors = [self._numbers(row.get(self.name)) for row in rows]
        return {self.name: RaggedArray.concatenate(vectors, np.dtype(np.float32))}

    def _numbers(self, cell: str | None) -> np.ndarray:
        size = self.length * self.size
        parts = ["0"] * size if cell is None else cell.split()
        if len(parts) != size:
            raise InvalidCell(f"column {self.name!r} must have {size} numbers, not {len(parts)}")
        return np.array([finite_number(self.name, part) for part in parts], np.float32)

    def assemble(self, values: Mapping[str, Any], info: Info) -> np.ndarray:
        return self._shaped(np.array(values[self.name]))

    def _shaped(self, numbers: np.ndarray) -> np.ndarray:
        return numbers.astype(np.float32).reshape((self.size,) if self.length == 1 else (self.length, self.size))

    def to_text(self, prediction: Any) -> str:
        return " ".join(f"{number:.6g}" for number in np.asarray(prediction).ravel().tolist())

    @classmethod
    def json_value(cls, text: str) -> list[float]:
        return [float(part) for part in text.split()]
