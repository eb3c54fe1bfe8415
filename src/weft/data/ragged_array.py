"""Lists of numbers, one for each row, without a Python object for each number."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import chain
from typing import Any, NamedTuple

import numpy as np


class Lists(NamedTuple):
    """The numbers of all rows one after another, and how many each row has.

    >>> Lists.of([[7, 8], [], [9]]).rows()
    [array([7, 8], dtype=uint32), array([], dtype=uint32), array([9], dtype=uint32)]
    """

    flat: np.ndarray
    sizes: np.ndarray

    @classmethod
    def of(cls, rows: Sequence[Sequence[int]]) -> Lists:
        sizes = np.fromiter(map(len, rows), np.int64, len(rows))
        return cls(np.fromiter(chain.from_iterable(rows), np.uint32, int(sizes.sum())), sizes)

    @classmethod
    def join(cls, rows: Sequence[np.ndarray]) -> Lists:
        """The same from an array for each row."""
        sizes = np.fromiter(map(len, rows), np.int64, len(rows))
        return cls(np.concatenate([np.empty(0, np.uint32), *rows]).astype(np.uint32), sizes)

    def rows(self) -> list[np.ndarray]:
        ends = np.cumsum(self.sizes).tolist()
        return [self.flat[start:stop] for start, stop in zip([0, *ends], ends, strict=False)]

    def pick(self, numbers: np.ndarray) -> Lists:
        """The rows of these numbers, some perhaps more than once."""
        sizes = self.sizes[numbers]
        first = (np.cumsum(self.sizes) - self.sizes)[numbers]
        before = np.cumsum(sizes) - sizes
        return Lists(self.flat[np.arange(int(sizes.sum())) + np.repeat(first - before, sizes)], sizes)

    def grow(self, rows: Iterable[Any]) -> Lists:
        """With more rows at the end."""
        more = Lists.of(list(rows))
        return Lists(np.concatenate([self.flat, more.flat]), np.concatenate([self.sizes, more.sizes]))
