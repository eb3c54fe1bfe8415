"""Stateless shuffling and length bucketing: the rows of batch i of epoch e as a pure function.

Rows are sorted once by cost into length buckets. Shuffling is a keyed bijection, so that any batch can be computed directly, in
any process and any order.
"""

from __future__ import annotations

import math
from itertools import pairwise

import numpy as np

from weft.core.seeding import key

_WORD = (1 << 64) - 1
_GOLDEN = 0x9E3779B97F4A7C15
_FIRST, _SECOND = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)
_30, _27, _31 = np.uint64(30), np.uint64(27), np.uint64(31)
_ROUNDS = 6
MIN_BATCHES, MAX_PARTS = 8, 16  # a bucket of rows with two texts is divided into parts of at least 8 batches each
MIN_COST = 8  # minimum cost of a row: else a batch could have a thousand one-word rows


def mix(x: np.ndarray, key: int) -> np.ndarray:
    """Hash integers to 64 bits: the finalizer of SplitMix64 on x + key.

    Steele, Lea and Flood 2014, "Fast splittable pseudorandom number generators".
    """
    x = np.asarray(x, np.uint64) + np.uint64(key & _WORD)  # unsigned arrays wrap around, as intended
    x ^= x >> _30
    x *= _FIRST
    x ^= x >> _27
    x *= _SECOND
    x ^= x >> _31
    return x


def permute(i: np.ndarray, n: int, key: int) -> np.ndarray:
    """Apply a keyed pseudorandom permutation of 0 .. n-1 to the integers ``i``, in constant time and memory for each.

    A Feistel network of 6 rounds on pairs (left, right) of integers below a, the smallest a with a a >= n: each round computes
    (right, left + f(right) mod a). A result of n or more is permuted again (cycle walking) until it is below n; as a a exceeds
    n by less than 2 a, that is rare.

    >>> sorted(permute(np.arange(10), 10, key(1)).tolist())
    [0, 1, 2, 3, 4, 5, 6, 7, 8, 9]
    """
    i = np.array(i, np.int64, ndmin=1)
    if i.size and (i.min() < 0 or i.max() >= n):
        raise ValueError(f"permute: indices must be in 0 .. {n - 1}, not {i.min()} to {i.max()}")
    a = np.uint64(math.isqrt(max(0, n - 1)) + 1)
    x = i.astype(np.uint64)
    todo = np.arange(x.size)
    while todo.size:
        left, right = np.divmod(x[todo], a)
        for turn in range(_ROUNDS):
            left, right = right, (left + mix(right, key + turn * _GOLDEN) % a) % a
        x[todo] = left * a + right
        todo = todo[x[todo] >= n]
    return x.astype(np.int64)


def bucket_widths(longest: int, growth: float = 1.08) -> list[int]:
    """Return the maximum costs of buckets: 1 and more, each about ``growth`` times the one before, up to ``longest``."""
    widths = [1]
    while widths[-1] < longest:
        widths.append(max(widths[-1] + 1, int(widths[-1] * growth)))
    return widths


class Buckets:
    """Length buckets: rows of similar cost, and batches of them; every epoch has the same number of batches K.

    A bucket grows until it fills a batch, so that a small dataset has few batches and not one per length.

    Batch i of epoch e is batch p(i) of the concatenated buckets, with p a permutation of 0 .. K-1 that depends on the epoch;
    its rows are selected by a second permutation within the bucket. A bucket of n rows with maximum cost w is divided evenly
    into ceil(n / s) batches, s = max(1, budget // max(8, w)): none exceeds the budget, and none is a small remainder. Rows of
    several texts can have equal cost and different lengths (10 + 20 tokens, 20 + 10): buckets with many batches are divided
    once more by the length of one of the texts.

    Args:
        cost: Cost of each row in tokens.
        budget: Maximum number of tokens per batch, padding included. A row that costs more is a batch of its own.
        growth: Ratio of the widths of consecutive buckets.
        beside: Length of one of the texts of a row, if it has several.
        batch_size: Rows per batch instead of a token budget; None = the budget decides. All batches but those of the
            last bucket have this size.

    >>> order = Buckets(np.array([3, 9, 4, 8]), budget=16)
    >>> len(order), sorted(row for i in range(3) for row in order.rows(key(1), 0, i).tolist())
    (3, [0, 1, 2, 3])
    """

    def __init__(
        self,
        cost: np.ndarray,
        budget: int,
        growth: float = 1.08,
        beside: np.ndarray | None = None,
        batch_size: int | None = None,
    ):
        cost = np.asarray(cost)
        if cost.ndim != 1 or not cost.size:
            raise ValueError(f"cost must have one value per row, for at least one row, not shape {cost.shape}")
        if budget < 1:
            raise ValueError(f"the token budget of a batch must be at least 1, not {budget}")
        if growth <= 1:
            raise ValueError(f"growth must be greater than 1, not {growth}")
        small = np.uint32 if cost.size <= 1 << 32 else np.int64
        self.order = np.argsort(cost, kind="stable").astype(small)
        ranked = cost[self.order]
        edges = bucket_widths(int(ranked[-1]), growth)
        min_cost = min(MIN_COST, int(ranked[-1]))
        cuts = [0]
        for cut in np.searchsorted(ranked, edges, side="right").tolist():
            rows = cut - cuts[-1]
            if batch_size:
                cut -= rows % batch_size  # full batches; the other rows are in the next bucket
            if cut > cuts[-1] if batch_size else rows * max(min_cost, int(ranked[cut - 1])) >= budget:
                cuts.append(cut)
        cuts = np.unique([*cuts, cost.size])
        if beside is not None:
            cuts = self._divide(cuts, ranked, budget, np.asarray(beside), min_cost, batch_size)
            ranked = cost[self.order]
        self.start, self.size = cuts[:-1], np.diff(cuts)
        widest = np.maximum.reduceat(ranked, self.start)
        batch_rows = batch_size or np.maximum(1, budget // np.maximum(max(1, min_cost), widest.astype(np.int64)))
        self.batches = -(-self.size // batch_rows)
        self.ends = np.cumsum(self.batches)

    def _divide(
        self,
        cuts: np.ndarray,
        ranked: np.ndarray,
        budget: int,
        beside: np.ndarray,
        min_cost: int,
        batch_size: int | None,
    ) -> np.ndarray:
        """Sort each bucket by ``beside`` and divide it into parts of at least 8 batches; return the new boundaries."""
        finer = [np.zeros(1, np.int64)]
        for start, stop in pairwise(cuts):
            inside = self.order[start:stop]
            self.order[start:stop] = inside[np.argsort(beside[inside], kind="stable")]
            batches = (stop - start) // (batch_size or max(1, budget // max(1, min_cost, int(ranked[stop - 1]))))
            parts = min(max(1, int(batches) // MIN_BATCHES), MAX_PARTS)
            inner = np.arange(1, parts + 1) * (stop - start) // parts
            if batch_size:
                inner[:-1] -= inner[:-1] % batch_size
            finer.append(start + inner)
        return np.concatenate(finer)

    def __len__(self) -> int:
        """Return K, the number of batches per epoch."""
        return int(self.ends[-1])

    def rows(self, seed: int, epoch: int, index: int) -> np.ndarray:
        """Return the rows of batch ``index`` (0 .. K-1) of an epoch."""
        if not 0 <= index < len(self):
            raise ValueError(f"the batch index must be in 0 .. {len(self) - 1}, not {index}")
        position = int(permute(np.array([index]), len(self), key(seed, epoch, "batch"))[0])
        bucket = int(np.searchsorted(self.ends, position, side="right"))
        size, batches = int(self.size[bucket]), int(self.batches[bucket])
        nth = position - (int(self.ends[bucket]) - batches)
        inside = np.arange(nth * size // batches, (nth + 1) * size // batches)
        moved = permute(inside, size, key(seed, epoch, "row", bucket))
        return self.order[int(self.start[bucket]) + moved].astype(np.int64)

    def sample(self, seed: int, epoch: int, index: int) -> tuple[np.ndarray, np.ndarray]:
        """Return the rows of a batch, and how often each was passed before: once in each epoch."""
        rows = self.rows(seed, epoch, index)
        return rows, np.full(len(rows), epoch)
