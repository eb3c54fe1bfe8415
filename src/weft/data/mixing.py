"""Sampling from several datasets: how many examples of each an epoch has, and which ones each batch has.

Like ``weft.data.order``: a pure function of seed, epoch and index, in constant memory per batch.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from weft.core.contracts import Corpus, Dataset, TrainingDataset
from weft.core.example import Example
from weft.core.seeding import key
from weft.data.order import MAX_PARTS, MIN_BATCHES, MIN_COST, bucket_widths, permute

_DENOMINATOR = 1 << 16


def proportions(
    sizes: Sequence[int],
    *,
    weights: Sequence[float] | None = None,
    temperature: float = 1.0,
    max_examples: Sequence[int | None] = (),
) -> list[float]:
    """Return the share of each source: by weights, or p_i ~ min(n_i, K_i)^(1/T).

    Raffel et al. 2020, section 3.5.2, https://arxiv.org/abs/1910.10683

    Args:
        sizes: Number of examples of each source.
        weights: Weight of each source; None = by size.
        temperature: T: 1 = proportional to the sizes; the larger, the more equal.
        max_examples: K: size at most counted for each source; empty or None = its own.

    Example:
        >>> proportions([900, 100])
        [0.9, 0.1]
        >>> proportions([900, 100], temperature=2)
        [0.75, 0.25]
        >>> proportions([900, 100], max_examples=[300, None])
        [0.75, 0.25]
    """
    if weights is None:
        caps = max_examples or [None] * len(sizes)
        counted = [min(size, cap or size) for size, cap in zip(sizes, caps, strict=True)]
        weights = counted if temperature == 1 else [(size / max(counted)) ** (1 / temperature) for size in counted]
    largest = max(weights)  # so that nothing overflows
    total = sum(weight / largest for weight in weights)
    return [weight / largest / total for weight in weights]


def quotas(shares: Sequence[float], examples: int) -> list[int]:
    """Return the number of examples of each source in an epoch: ``shares`` of ``examples``, by the largest remainders; at least 1
    where the share is positive.

    Example:
        >>> quotas([0.5, 0.25, 0.25], 10)
        [5, 3, 2]
    """
    exact = [share * examples for share in shares]
    found = [int(number) for number in exact]
    remainders = sorted(range(len(shares)), key=lambda i: (found[i] - exact[i], i))
    for i in remainders[: examples - sum(found)]:
        found[i] += 1
    return [max(number, int(share > 0)) for number, share in zip(found, shares, strict=True)]


class MixtureDataset:
    """The examples of several datasets with the same fields, one dataset after another.

    Args:
        parts: The datasets by name.
        quotas: Number of examples of each in an epoch of training; empty = each example once, for evaluation.
    """

    def __init__(self, parts: Mapping[str, Dataset], quotas: Sequence[int] = ()):
        if empty := [name for name, part in parts.items() if not len(part)]:
            raise ValueError(f"the source {empty[0]!r} of the mixture has no examples; remove it, or give it some")
        self.parts, self.quotas = dict(parts), tuple(quotas)
        self.datasets = list(parts.values())
        self.sizes = [len(dataset) for dataset in self.datasets]
        self.starts = np.concatenate([[0], np.cumsum(self.sizes)])
        names = self.datasets[0].lengths
        self.lengths: Mapping[str, np.ndarray] = {n: np.concatenate([d.lengths[n] for d in self.datasets]) for n in names}

    def __len__(self) -> int:
        return int(self.starts[-1])

    def _locate(self, row: int) -> tuple[Dataset, int]:
        if not 0 <= row < len(self):
            raise IndexError(f"row {row} is out of range: the dataset has {len(self)} rows, from 0")
        part = int(np.searchsorted(self.starts, row, side="right")) - 1
        return self.datasets[part], int(row - self.starts[part])

    def __getitem__(self, row: int) -> Any:
        dataset, own = self._locate(row)
        return dataset[own]

    def training_example(self, row: int, rng: np.random.Generator) -> Example:
        dataset, own = self._locate(row)
        return dataset.training_example(own, rng) if isinstance(dataset, TrainingDataset) else dataset[own]

    def raw(self, row: int) -> dict[str, str]:
        dataset, own = self._locate(row)
        return dataset.raw(own)


def part_splits(corpus: Corpus, part: str) -> dict[str, Dataset]:
    """Return the splits of a source of a mixture; with part "" those of the data themselves."""
    if not part:
        return dict(corpus.splits)
    mixed = {split: dataset.parts for split, dataset in corpus.splits.items() if isinstance(dataset, MixtureDataset)}
    return {split: found[part] for split, found in mixed.items() if part in found}


class MixtureBuckets:
    """Length buckets over several sources, of which an epoch has a quota each; every epoch has the same number of batches K.

    A bucket has the rows of all sources of similar cost. Source i has n rows in a bucket, c of its N rows are in an epoch, so in
    epoch e the bucket has the positions floor(e n c / N + f) to floor((e + 1) n c / N + f) - 1 of an endless sequence of
    permutations of these n rows, 0 <= f < 1. So each row of a source occurs once before any occurs again in its bucket, and
    exactly m times when the source has been passed m times (e c = m N). The positions of all sources in the bucket are shuffled
    together and divided evenly into its batches.

    Args:
        cost: Cost of each row in tokens, the rows of one source after those of another.
        budget: Maximum number of tokens per batch, padding included. A row that costs more is a batch of its own.
        sizes: Number of rows of each source.
        quotas: Number of rows of each source in an epoch.
        beside: Length of one of the texts of a row, if it has several.
        batch_size: Rows per batch at most instead of a token budget; None = the budget decides.

    >>> order = MixtureBuckets(np.full(30, 4), 32, sizes=[20, 10], quotas=[10, 20])
    >>> rows = np.concatenate([order.sample(key(1), 0, i)[0] for i in range(len(order))])
    >>> int((rows < 20).sum()), int((rows >= 20).sum())
    (10, 20)
    """

    def __init__(
        self,
        cost: np.ndarray,
        budget: int,
        *,
        sizes: Sequence[int],
        quotas: Sequence[int],
        beside: np.ndarray | None = None,
        batch_size: int | None = None,
    ):
        cost = np.asarray(cost)
        if cost.shape != (sum(sizes),) or len(sizes) != len(quotas):
            raise ValueError(f"cost has shape {cost.shape}, but the {len(sizes)} sources have {sum(sizes)} rows")
        self.sizes, self.quotas = [int(n) for n in sizes], [int(n) for n in quotas]
        source = np.repeat(np.arange(len(sizes)), sizes)
        rate = np.array([quota / size for quota, size in zip(quotas, sizes, strict=True)])
        order = np.argsort(cost, kind="stable")
        order = order[rate[source[order]] > 0]
        if not order.size:
            raise ValueError("no source has a quota of at least one example")
        self._min_cost = max(1, min(MIN_COST, int(cost[order[-1]])))

        def batch_rows(longest: int) -> int:
            return batch_size or max(1, budget // max(self._min_cost, longest))

        buckets: list[np.ndarray] = []
        for bucket in _fill(order, cost[order], rate[source[order]], batch_rows):
            buckets += [bucket] if beside is None else _divide(bucket, cost, beside, rate[source[bucket]], batch_rows)
        self._layout(buckets, source, cost, batch_rows)

    def _layout(self, buckets: list[np.ndarray], source: np.ndarray, cost: np.ndarray, batch_rows: Any) -> None:
        """Sort the rows of each bucket by source and count its batches. A bucket that may be empty is joined to another."""
        joined: list[np.ndarray] = []
        waiting = np.zeros(0, np.int64)
        for bucket in reversed(buckets):
            bucket = np.concatenate([bucket, waiting])
            least = sum(n * self.quotas[i] // self.sizes[i] for i, n in enumerate(self._counts(bucket, source)))
            waiting = bucket if least < 1 else waiting[:0]
            joined += [] if least < 1 else [bucket]
        if waiting.size:
            joined.append(waiting)
        joined.reverse()
        self.rows = [bucket[np.argsort(source[bucket], kind="stable")] for bucket in joined]
        self.counts = [self._counts(bucket, source) for bucket in joined]
        most = [sum(-(-n * self.quotas[i] // self.sizes[i]) for i, n in enumerate(counts)) for counts in self.counts]
        self.batches = [-(-n // batch_rows(int(cost[bucket].max()))) for n, bucket in zip(most, self.rows, strict=True)]
        self.ends = np.cumsum(self.batches)

    def _counts(self, bucket: np.ndarray, source: np.ndarray) -> list[int]:
        """Number of rows of each source."""
        return np.bincount(source[bucket], minlength=len(self.sizes)).tolist()

    def __len__(self) -> int:
        """Return K, the number of batches per epoch."""
        return int(self.ends[-1])

    def sample(self, seed: int, epoch: int, index: int) -> tuple[np.ndarray, np.ndarray]:
        """Return the rows of batch ``index`` (0 .. K-1) of an epoch, and how often each was passed before."""
        if not 0 <= index < len(self):
            raise ValueError(f"the batch index must be in 0 .. {len(self) - 1}, not {index}")
        number = int(permute(np.array([index]), len(self), key(seed, epoch, "batch"))[0])
        bucket = int(np.searchsorted(self.ends, number, side="right"))
        batches, counts = self.batches[bucket], self.counts[bucket]
        nth = number - (int(self.ends[bucket]) - batches)
        firsts = [self._position(bucket, i, epoch) for i in range(len(counts))]
        ends = np.cumsum([self._position(bucket, i, epoch + 1) - first for i, first in enumerate(firsts)])
        size = int(ends[-1])
        inside = np.arange(nth * size // batches, (nth + 1) * size // batches)
        slots = permute(inside, size, key(seed, epoch, "row", bucket)) if size else inside
        sources = np.searchsorted(ends, slots, side="right")
        rows, passes = np.zeros(len(slots), np.int64), np.zeros(len(slots), np.int64)
        start = np.concatenate([[0], np.cumsum(counts)])
        for i in np.unique(sources).tolist():
            mine = sources == i
            before = int(ends[i - 1]) if i else 0
            turn, position = np.divmod(slots[mine] - before + firsts[i], counts[i])
            moved = np.empty_like(position)
            for t in np.unique(turn).tolist():
                moved[turn == t] = permute(position[turn == t], counts[i], key(seed, "pass", t, bucket, i))
            rows[mine], passes[mine] = self.rows[bucket][start[i] + moved], turn
        return rows, passes

    def _position(self, bucket: int, source: int, epoch: int) -> int:
        """Number of rows of a source that were taken from a bucket before an epoch; exact, in integers."""
        offset = (bucket + 1) * 40503 + source * 20011  # golden ratio: the rounding of the buckets cancels out
        rows = epoch * self.counts[bucket][source] * self.quotas[source]
        scaled = self.sizes[source] * _DENOMINATOR
        return (rows * _DENOMINATOR + offset % _DENOMINATOR * self.sizes[source]) // scaled


def _fill(order: np.ndarray, ranked: np.ndarray, rate: np.ndarray, batch_rows: Any) -> list[np.ndarray]:
    """Divide rows, sorted by cost, into buckets of similar cost that fill a batch with the rows expected in an epoch."""
    mass = np.concatenate([[0.0], np.cumsum(rate)])
    cuts = [0]
    for cut in np.searchsorted(ranked, bucket_widths(int(ranked[-1])), side="right").tolist():
        if cut > cuts[-1] and mass[cut] - mass[cuts[-1]] >= batch_rows(int(ranked[cut - 1])):
            cuts.append(cut)
    if cuts[-1] < order.size:
        cuts.append(order.size)
    return [order[a:b] for a, b in pairwise(cuts)]


def _divide(bucket: np.ndarray, cost: np.ndarray, beside: np.ndarray, rate: np.ndarray, batch_rows: Any) -> list[np.ndarray]:
    """Sort a bucket by the length of one of the texts and divide it into parts of at least 8 batches."""
    batches = int(rate.sum()) // batch_rows(int(cost[bucket].max()))
    return np.array_split(bucket[np.argsort(beside[bucket], kind="stable")], min(max(1, batches // MIN_BATCHES), MAX_PARTS))
