"""In-memory datasets: the ids of all rows in one array, with the offset of each row."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np


class Column:
    """The ids of one text field: row r is ``ids[offsets[r] : offsets[r + 1]]``.

    Args:
        ids: The ids of all rows.
        offsets: Start of each row, and the end of the last.

    Example:
        >>> Column.of([[7, 8], [], [9]])[2].tolist()
        [9]
    """

    def __init__(self, ids: np.ndarray, offsets: np.ndarray):
        self.ids, self.offsets = np.asarray(ids, np.int32), np.asarray(offsets, np.int64)
        if not self.offsets.size or self.offsets[0] != 0 or self.offsets[-1] != len(ids) or (self.lengths < 0).any():
            raise ValueError(f"offsets must increase from 0 to {len(ids)}, the number of ids")

    @classmethod
    def of(cls, rows: Iterable[Iterable[int]]) -> Column:
        """Build a column from rows of ids."""
        flat, ends = array("i"), [0]
        for row in rows:
            flat.extend(row)
            ends.append(len(flat))
        return cls(np.array(flat, np.int32), np.array(ends))

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def __getitem__(self, row: int) -> np.ndarray:
        """Return a copy: objectives may modify their example."""
        return self.ids[self.offsets[row] : self.offsets[row + 1]].astype(np.int64)

    @property
    def lengths(self) -> np.ndarray:
        return np.diff(self.offsets)


class TokenDataset:
    """In-memory dataset of text fields.

    Args:
        columns: Columns by field name.
        raw: Returns the raw cells of a row.
    """

    def __init__(self, columns: Mapping[str, Column], raw: Callable[[int], dict[str, str]]):
        sizes = {name: len(column) for name, column in columns.items()}
        if len(set(sizes.values())) != 1:
            raise ValueError(f"all columns must have the same number of rows, not {sizes}")
        self.columns, self._raw = dict(columns), raw
        self._rows = next(iter(sizes.values()))
        self.lengths: Mapping[str, np.ndarray] = {name: column.lengths for name, column in columns.items()}

    def __len__(self) -> int:
        return self._rows

    def __getitem__(self, row: int) -> dict[str, Any]:
        row = self._check(row)
        return {name: column[row] for name, column in self.columns.items()}

    def raw(self, row: int) -> dict[str, str]:
        """Return the raw cells of a row."""
        return self._raw(self._check(row))

    def _check(self, row: int) -> int:
        if not 0 <= row < self._rows:
            raise IndexError(f"row {row} is out of range: the dataset has {self._rows} rows, from 0")
        return int(row)
