"""Numbers that stand for tuples: what every generator is seeded with, so that no generator's state has to be stored."""

from __future__ import annotations

import hashlib


def key(*parts: int | str) -> int:
    """A 63-bit hash of a tuple; the same on every machine and in every process."""
    return int.from_bytes(hashlib.blake2b(repr(parts).encode(), digest_size=8).digest(), "little") >> 1
