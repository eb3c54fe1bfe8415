"""The order of examples as a pure function: which rows are in batch i of epoch e, without any state.

Rows are sorted once by cost into length buckets. What is random is a bijection computed from a key, so that any batch can
be found at once, in any process, in any order.
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
_ALIKE, _PARTS = 8, 16  # a bucket of rows with two texts is parted so far that 8 batches can still be drawn from each part
_LEAST = 8  # shorter rows count as so many tokens: a batch of a thousand words would be one update for a thousand rows


def mix(x: np.ndarray, key: int) -> np.ndarray:
    """A number of 64 random-looking bits for each number: the finaliser of SplitMix64 on x + key.

    Steele, Lea and Flood 2014, "Fast splittable pseudorandom number generators".
    """
    x = np.asarray(x, np.uint64) + np.uint64(key & _WORD)  # arrays of unsigned numbers wrap around, as is meant here
    x ^= x >> _30
    x *= _FIRST
    x ^= x >> _27
    x *= _SECOND
    x ^= x >> _31
    return x


def permute(i: np.ndarray, n: int, key: int) -> np.ndarray:
    """Where a keyed permutation of 0 .. n-1 sends each of the numbers ``i``, in constant time and memory for each.

    A Feistel network of 6 rounds on pairs (left, right) of numbers below a, the smallest a with a a >= n: each round makes them
    (right, left + f(right) mod a). A result of n or more is sent through again (cycle walking) until it falls below n; as
    a a exceeds n by less than 2 a, that is rare.

    >>> sorted(permute(np.arange(10), 10, key(1)).tolist())
    [0, 1, 2, 3, 4, 5, 6, 7, 8, 9]
    """
    i = np.array(i, np.int64, ndmin=1)
    if i.size and (i.min() < 0 or i.max() >= n):
        raise ValueError(f"permute: numbers must lie in 0 .. {n - 1}, but they reach from {i.min()} to {i.max()}")
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


class Buckets:
    """Rows sorted once by cost into buckets of similar cost, and batches of them: K per epoch, the same number in each.

    A bucket grows until it fills a batch, so that few rows make few batches and not one for each length.

    Batch i of epoch e is batch p(i) of all buckets' batches in a row, p a permutation of 0 .. K-1 that depends on the epoch;
    its rows are found by a second permutation inside the bucket. A bucket of n rows whose longest costs w is shared out
    evenly to ceil(n / s) batches, s = max(1, budget // max(8, w)): none costs more than the budget, and none is a tiny rest.
    Rows of several texts can cost the same and still differ (10 + 20 tokens, 20 + 10): buckets with many batches are parted
    once more by the length of one of the texts.

    Args:
        cost: Tokens of each row.
        budget: Most tokens of a batch, counting each row as its longest. A row that costs more is a batch by itself.
        growth: How much wider each bucket is than the one before.
        beside: Length of one of a row's texts, when it has several.

    >>> order = Buckets(np.array([3, 9, 4, 8]), budget=16)
    >>> len(order), sorted(row for i in range(3) for row in order.rows(key(1), 0, i).tolist())
    (3, [0, 1, 2, 3])
    """

    def __init__(self, cost: np.ndarray, budget: int, growth: float = 1.08, beside: np.ndarray | None = None):
        cost = np.asarray(cost)
        if cost.ndim != 1 or not cost.size:
            raise ValueError(f"there are no rows to put in order (cost has shape {cost.shape})")
        if budget < 1:
            raise ValueError(f"a batch needs a budget of at least 1 token, not {budget}")
        if growth <= 1:
            raise ValueError(f"buckets need growth > 1, not {growth}")
        small = np.uint32 if cost.size <= 1 << 32 else np.int64
        self.order = np.argsort(cost, kind="stable").astype(small)
        ranked = cost[self.order]
        edges = [1]
        while edges[-1] < int(ranked[-1]):
            edges.append(max(edges[-1] + 1, int(edges[-1] * growth)))
        least = min(_LEAST, int(ranked[-1]))
        cuts = [0]
        for cut in np.searchsorted(ranked, edges, side="right").tolist():
            if (cut - cuts[-1]) * max(least, int(ranked[cut - 1])) >= budget:
                cuts.append(cut)
        cuts = np.unique([*cuts, cost.size])
        if beside is not None:
            cuts = self._part(cuts, ranked, budget, np.asarray(beside), least)
            ranked = cost[self.order]
        self.start, self.size = cuts[:-1], np.diff(cuts)
        widest = np.maximum.reduceat(ranked, self.start)
        most = np.maximum(1, budget // np.maximum(max(1, least), widest.astype(np.int64)))
        self.batches = -(-self.size // most)
        self.ends = np.cumsum(self.batches)

    def _part(self, cuts: np.ndarray, ranked: np.ndarray, budget: int, beside: np.ndarray, least: int) -> np.ndarray:
        """Sort the rows of each bucket by ``beside`` and cut it into parts of at least 8 batches: the new cuts."""
        finer = [np.zeros(1, np.int64)]
        for start, stop in pairwise(cuts):
            inside = self.order[start:stop]
            self.order[start:stop] = inside[np.argsort(beside[inside], kind="stable")]
            batches = (stop - start) // max(1, budget // max(1, least, int(ranked[stop - 1])))
            parts = min(max(1, int(batches) // _ALIKE), _PARTS)
            finer.append(start + np.arange(1, parts + 1) * (stop - start) // parts)
        return np.concatenate(finer)

    def __len__(self) -> int:
        """K, the batches of an epoch."""
        return int(self.ends[-1])

    def rows(self, seed: int, epoch: int, index: int) -> np.ndarray:
        """The rows of batch ``index`` (0 .. K-1) of that epoch."""
        if not 0 <= index < len(self):
            raise ValueError(f"batch {index} does not exist: an epoch has {len(self)}, counted from 0")
        place = int(permute(np.array([index]), len(self), key(seed, epoch, "batch"))[0])
        bucket = int(np.searchsorted(self.ends, place, side="right"))
        size, batches = int(self.size[bucket]), int(self.batches[bucket])
        nth = place - (int(self.ends[bucket]) - batches)
        inside = np.arange(nth * size // batches, (nth + 1) * size // batches)
        moved = permute(inside, size, key(seed, epoch, "row", bucket))
        return self.order[int(self.start[bucket]) + moved].astype(np.int64)
