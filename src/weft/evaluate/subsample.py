"""Some of many rows, of all kinds that there are: whether kinds follow each other, as in files by class, or take turns."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

T = TypeVar("T")
_GOLDEN = (5**0.5 - 1) / 2


def evenly(rows: Sequence[T], most: int) -> list[T]:
    """At most so many of the rows, one from each of so many equal parts; 0 = all.

    Where in its part it stands goes by the golden ratio, so that what repeats in the rows does not fall in step with it.

    >>> evenly("abcdefgh", 4)
    ['a', 'd', 'e', 'h']
    """
    if not most or len(rows) <= most:
        return list(rows)
    edges = [part * len(rows) // most for part in range(most + 1)]
    return [rows[edges[part] + int(part * _GOLDEN % 1 * (edges[part + 1] - edges[part]))] for part in range(most)]
