"""Some of many, from the first to the last: files come class by class, and the first rows would all be of one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

T = TypeVar("T")


def evenly(rows: Sequence[T], most: int) -> list[T]:
    """At most so many of the rows, taken at equal distances; 0 = all.

    >>> evenly(["a", "b", "c", "d"], 2)
    ['a', 'c']
    """
    if not most or len(rows) <= most:
        return list(rows)
    return [rows[row * len(rows) // most] for row in range(most)]
