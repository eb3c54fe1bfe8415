"""Numbers that stand for tuples: what every generator is seeded with, so that no generator's state has to be stored."""

from __future__ import annotations

import hashlib

import numpy as np

Key = int | str | tuple["Key", ...]


def key(*parts: Key) -> int:
    """64 bits that depend on all parts: BLAKE2b of their canonical form (a numpy integer counts as the int it is).

    >>> key(1, "train") == key(1, "train"), key(1, "train") == key("1", "train")
    (True, False)
    """
    return int.from_bytes(hashlib.blake2b(_canonical(parts).encode(), digest_size=8).digest(), "little")


def normal(shape: tuple[int, ...], *parts: Key) -> np.ndarray:
    """Normal numbers that depend on all parts: the noise of a row is its own, whatever else is in its batch.

    Of two shapes that differ in the first number, the smaller has the first numbers of the larger.

    >>> bool((normal((2, 3), "row", 1) == normal((4, 3), "row", 1)[:2]).all())
    True
    """
    return np.random.Generator(np.random.Philox(key=key(*parts))).standard_normal(shape, np.float32)


def _canonical(part: Key) -> str:
    if isinstance(part, tuple | list):
        return "(" + ",".join(map(_canonical, part)) + ")"
    if isinstance(part, str):
        return f"s{len(part)}:{part}"
    if isinstance(part, int | np.integer):
        return f"i{int(part)}"
    raise TypeError(f"a key is made of ints, strings and tuples of them, not of {type(part).__name__}")
