"""Select some of many examples, spread over all of them: files are often sorted by class or alternate between classes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

T = TypeVar("T")
_GOLDEN = (5**0.5 - 1) / 2


def subsample(items: Sequence[T], size: int) -> list[T]:
    """Return ``size`` items in order, one from each of ``size`` equal parts; all if there are fewer, or if ``size`` is 0.

    The position within a part follows a golden-ratio sequence, so that the selection does not alias with periodic data.

    >>> subsample("abcdefgh", 4)
    ['a', 'd', 'e', 'h']
    """
    if not size or len(items) <= size:
        return list(items)
    edges = [part * len(items) // size for part in range(size + 1)]
    return [items[edges[part] + int(part * _GOLDEN % 1 * (edges[part + 1] - edges[part]))] for part in range(size)]
