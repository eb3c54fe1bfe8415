"""Tokenised columns: the ids of all rows in one flat store, with the places where rows begin."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Protocol

import numpy as np


class Store(Protocol):
    """A flat run of ids, read by position: from memory, or from a file that is not kept open whole."""

    def __len__(self) -> int: ...

    def read(self, start: int, stop: int) -> np.ndarray:
        """Ids ``start`` to ``stop`` (not included)."""
        ...


class InMemory:
    """A store that is one int32 array."""

    def __init__(self, ids: np.ndarray):
        self.ids = np.asarray(ids, np.int32)

    def __len__(self) -> int:
        return len(self.ids)

    def read(self, start: int, stop: int) -> np.ndarray:
        return self.ids[start:stop]


class Column:
    """The ids of one text field for every row: row r is ``store[offsets[r] : offsets[r + 1]]``."""

    def __init__(self, store: Store, offsets: np.ndarray):
        offsets = np.asarray(offsets, np.int64)
        if not offsets.size or offsets[0] != 0 or offsets[-1] != len(store) or (np.diff(offsets) < 0).any():
            raise ValueError(f"offsets of a column must rise from 0 to the {len(store)} ids that it has")
        self.store, self.offsets = store, offsets

    @classmethod
    def of(cls, rows: Iterable[Iterable[int]]) -> Column:
        """A column in memory of these rows.

        >>> Column.of([[7, 8], [], [9]])[2].tolist()
        [9]
        """
        flat, ends = array("i"), [0]
        for row in rows:
            flat.extend(row)
            ends.append(len(flat))
        return cls(InMemory(np.array(flat, np.int32)), np.array(ends))

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def __getitem__(self, row: int) -> np.ndarray:
        """A copy: an objective that writes into its example does not write into the corpus."""
        return self.store.read(int(self.offsets[row]), int(self.offsets[row + 1])).astype(np.int64)

    @property
    def lengths(self) -> np.ndarray:
        return np.diff(self.offsets)


class TokenDataset:
    """Examples from columns: ids for each text field, an int for each label.

    Args:
        columns: Text fields by name.
        labels: Numbers of classes by name of the field.
        raw: The row as a person wrote it.
    """

    def __init__(
        self, columns: Mapping[str, Column], raw: Callable[[int], dict[str, str]], labels: Mapping[str, np.ndarray] | None = None
    ):
        sizes = {name: len(column) for name, column in {**columns, **(labels or {})}.items()}
        if len(set(sizes.values())) != 1:
            raise ValueError(f"all columns of a dataset need the same number of rows, not {sizes}")
        self.columns, self.labels, self._raw = dict(columns), dict(labels or {}), raw
        self._rows = next(iter(sizes.values()))
        self.lengths: Mapping[str, np.ndarray] = {name: column.lengths for name, column in columns.items()}

    def __len__(self) -> int:
        return self._rows

    def __getitem__(self, row: int) -> dict[str, Any]:
        row = self._check(row)
        example: dict[str, Any] = {name: column[row] for name, column in self.columns.items()}
        example.update((name, int(numbers[row])) for name, numbers in self.labels.items())
        return example

    def raw(self, row: int) -> dict[str, str]:
        return self._raw(self._check(row))

    def _check(self, row: int) -> int:
        if not 0 <= row < self._rows:
            raise IndexError(f"row {row} does not exist: the dataset has {self._rows} rows, counted from 0")
        return int(row)
