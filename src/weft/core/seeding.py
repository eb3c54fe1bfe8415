"""Seeds by hashing: every random generator is seeded from a tuple, so that no generator state has to be stored."""

from __future__ import annotations

import contextlib
import hashlib
import random
from collections.abc import Iterator

import numpy as np
import torch

Key = int | str | tuple["Key", ...]


def key(*parts: Key) -> int:
    """A 64-bit seed that depends on all parts: BLAKE2b of their canonical form (NumPy integers count as ints).

    >>> key(1, "train") == key(1, "train"), key(1, "train") == key("1", "train")
    (True, False)
    """
    return int.from_bytes(hashlib.blake2b(_canonical(parts).encode(), digest_size=8).digest(), "little")


def normal(shape: tuple[int, ...], *parts: Key) -> np.ndarray:
    """Standard normal samples that depend on all parts: the noise of an example does not depend on its batch.

    Shapes that differ only in the first dimension share their leading rows.

    >>> bool((normal((2, 3), "row", 1) == normal((4, 3), "row", 1)[:2]).all())
    True
    """
    return np.random.Generator(np.random.Philox(key=key(*parts))).standard_normal(shape, np.float32)


@contextlib.contextmanager
def restored_generators() -> Iterator[None]:
    """A context after which the global generators of torch, NumPy and Python have the state that they had before it."""
    numpy_state, python_state = np.random.get_state(), random.getstate()
    with torch.random.fork_rng():
        try:
            yield
        finally:
            np.random.set_state(numpy_state)
            random.setstate(python_state)


@contextlib.contextmanager
def seeded(*parts: Key) -> Iterator[None]:
    """A context with the global generators of torch, NumPy and Python seeded by all parts; their state is restored after it.

    >>> before = torch.get_rng_state()
    >>> with seeded(1, "valid"):
    ...     noise = torch.rand(3)
    >>> bool((torch.get_rng_state() == before).all())
    True
    """
    seed = key(*parts)
    with restored_generators():
        torch.manual_seed(seed)
        np.random.seed(seed % 2**32)
        random.seed(seed)
        yield


def _canonical(part: Key) -> str:
    if isinstance(part, tuple | list):
        return "(" + ",".join(map(_canonical, part)) + ")"
    if isinstance(part, str):
        return f"s{len(part)}:{part}"
    if isinstance(part, int | np.integer):
        return f"i{int(part)}"
    raise TypeError(f"a key consists of ints, strings and tuples of them, not {type(part).__name__}")
