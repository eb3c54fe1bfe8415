"""Ragged arrays: one list of numbers per row, stored in two flat arrays."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import chain
from typing import Any, NamedTuple

import numpy as np


class RaggedArray(NamedTuple):
    """The numbers of all rows in one flat array, and the size of each row.

    Example:
        >>> RaggedArray.of([[7, 8], [], [9]]).rows()
        [array([7, 8], dtype=uint32), array([], dtype=uint32), array([9], dtype=uint32)]
    """

    flat: np.ndarray
    sizes: np.ndarray

    @classmethod
    def of(cls, rows: Sequence[Sequence[int]]) -> RaggedArray:
        """Build from lists of integers."""
        sizes = np.fromiter(map(len, rows), np.int64, len(rows))
        return cls(np.fromiter(chain.from_iterable(rows), np.uint32, int(sizes.sum())), sizes)

    @classmethod
    def concatenate(cls, rows: Sequence[np.ndarray], dtype: np.dtype[Any] = np.dtype(np.uint32)) -> RaggedArray:
        """Build from one array per row."""
        sizes = np.fromiter(map(len, rows), np.int64, len(rows))
        return cls(np.concatenate([np.empty(0, dtype), *rows]).astype(dtype), sizes)

    def rows(self) -> list[np.ndarray]:
        """Return a view of each row."""
        ends = np.cumsum(self.sizes).tolist()
        return [self.flat[start:stop] for start, stop in zip([0, *ends], ends, strict=False)]

    def take(self, indices: np.ndarray) -> RaggedArray:
        """Return the rows at these indices, which may repeat."""
        sizes = self.sizes[indices]
        first = (np.cumsum(self.sizes) - self.sizes)[indices]
        before = np.cumsum(sizes) - sizes
        return RaggedArray(self.flat[np.arange(int(sizes.sum())) + np.repeat(first - before, sizes)], sizes)

    def append(self, rows: Iterable[Any]) -> RaggedArray:
        """Return a new array with more rows at the end."""
        more = RaggedArray.of(list(rows))
        return RaggedArray(np.concatenate([self.flat, more.flat]), np.concatenate([self.sizes, more.sizes]))
