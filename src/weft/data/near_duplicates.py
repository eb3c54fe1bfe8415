"""Near-duplicates between two sets of texts: validation rows that nearly equal a training row.

Exact set-similarity join with a prefix filter. Order all n-grams from rare to frequent. If two sets x and y have a Jaccard
similarity of at least t, they share at least t |x| n-grams, so the rarest shared one is among the first |x| - ceil(t |x|) + 1 of
x, and likewise of y: only pairs that meet there are compared in full (Chaudhuri et al. 2006; Bayardo et al. 2007). The
validation set is indexed; training is read once, in chunks. N-grams are 64-bit hashes: with ten million of them, the
probability of any collision is about 3 in a million.

Arrays: R rows, G n-grams of all rows one after another, P pairs of rows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Texts = Iterable[str] | Callable[[], Iterable[str]]
Ints = NDArray[np.int64]
Hashes = NDArray[np.uint64]

WORDS = 5
SIMILARITY = 0.8
MAX_ROWS = 1_000_000
_CHUNK_ROWS, _CHUNK_WORDS = 20_000, 400_000
_BLOCK = 2_000_000
_ODD = np.uint64(0x9E3779B97F4A7C15)


class DuplicatePair(NamedTuple):
    """A validation row, the first training row that nearly equals it (both from 0), and their Jaccard similarity."""

    valid_row: int
    train_row: int
    similarity: float


@dataclass(frozen=True)
class DuplicateReport:
    """Number of validation rows that have a near-duplicate in training."""

    count: int
    valid_rows: int
    """Validation rows compared."""
    train_rows: int
    """Training rows compared."""
    examples: list[DuplicatePair]
    note: str = ""
    """Describes subsampling, if any."""

    def __str__(self) -> str:
        ratio = f" ({self.count / self.valid_rows:.1%})" if self.valid_rows else ""
        text = f"{self.count:,} of {self.valid_rows:,} validation rows{ratio} have a near-duplicate in training"
        return f"{text}; {self.note}" if self.note else text


def near_duplicates(
    train: Texts,
    valid: Texts,
    *,
    similarity: float = SIMILARITY,
    words: int = WORDS,
    max_rows: int = MAX_ROWS,
    seed: int = 0,
    examples: int = 5,
) -> DuplicateReport:
    """Count the rows of ``valid`` that have a near-duplicate in ``train``.

    Two texts are near-duplicates if the Jaccard similarity of their sets of word n-grams, |x and y| / |x or y|, is at least
    ``similarity``. Words are separated by white space and lower-cased. A text of fewer words than ``words`` is a single n-gram. A
    text without words is never a duplicate.

    Args:
        train: Training texts: an iterable, or a function that returns one (a list is iterated twice; an iterator is first read
            into memory, a function is called twice instead).
        valid: Validation texts, likewise.
        similarity: Minimum Jaccard similarity, in (0, 1].
        words: Length of the n-grams.
        max_rows: Larger sets are subsampled to this many rows; the ``note`` of the result reports it.
        seed: Seed of the subsampling.
        examples: Maximum number of example pairs, from the first validation rows.

    Example:
        >>> rows = ["the cat sat on the mat", "a dog ran after the red ball in the park today"]
        >>> found = near_duplicates(rows, ["The cat sat on the mat", "a cow ran after the red ball"])
        >>> found.count, found.examples
        (1, [DuplicatePair(valid_row=0, train_row=0, similarity=1.0)])
    """
    for name, texts in (("train", train), ("valid", valid)):
        if isinstance(texts, str):
            raise ValueError(f"{name} is a single text; pass a list of texts, or a function that returns them")
    if not 0 < similarity <= 1:
        raise ValueError(f"similarity must be above 0 and at most 1, not {similarity}")
    if words < 1 or max_rows < 1:
        raise ValueError(f"words and max_rows must be at least 1, not {words} and {max_rows}")
    notes: list[str] = []
    index = _Index(_Rows("validation", valid, max_rows, seed, notes), similarity, words)
    rows = _Rows("training", train, max_rows, seed, notes)
    for numbers, texts in rows.chunks():
        index.probe(numbers, _grams(texts, words))
        if not index.open_R.any():
            break
    count, pairs = index.found(examples)
    return DuplicateReport(count, len(index.number_R), len(rows), pairs, "; ".join(notes))


class _Rows:
    """The texts of a set with their row numbers, in chunks of bounded size; subsampled if there are too many."""

    def __init__(self, name: str, texts: Texts, max_rows: int, seed: int, notes: list[str]):
        if not callable(texts) and isinstance(texts, Iterator):
            texts = list(texts)
        self.open: Callable[[], Iterable[str]] = texts if callable(texts) else lambda: texts
        self.by_number: Sequence[str] | None = texts if isinstance(texts, Sequence) else None
        self.size = len(texts) if isinstance(texts, Sequence) else sum(1 for _ in self.open())
        self.kept: Ints | None = None
        if self.size > max_rows:
            rng = np.random.default_rng([seed, *name.encode()])  # by name: the two sets must be sampled independently
            self.kept = np.sort(rng.choice(self.size, max_rows, replace=False, shuffle=False))
            notes.append(f"{max_rows:,} of {self.size:,} {name} rows were compared, sampled at random (seed {seed})")

    def __len__(self) -> int:
        return self.size if self.kept is None else len(self.kept)

    def __iter__(self) -> Iterator[tuple[int, str]]:
        if self.kept is None:
            yield from enumerate(self.open())
            return
        kept = self.kept.tolist()
        if (texts := self.by_number) is not None:
            for row in kept:
                yield row, texts[int(row)]
            return
        wanted = iter(kept)
        row = next(wanted)
        for number, text in enumerate(self.open()):
            if number == row:
                yield number, text
                row = next(wanted, -1)
                if row < 0:
                    return

    def chunks(self) -> Iterator[tuple[Ints, list[list[str]]]]:
        numbers: list[int] = []
        texts: list[list[str]] = []
        size = 0
        for number, text in self:
            split = text.lower().split()
            numbers.append(number)
            texts.append(split)
            size += len(split)
            if len(texts) == _CHUNK_ROWS or size >= _CHUNK_WORDS:
                yield np.array(numbers, np.int64), texts
                numbers, texts, size = [], [], 0
        if texts:
            yield np.array(numbers, np.int64), texts


class _Grams(NamedTuple):
    """The n-gram sets of rows: distinct hashes, sorted by row and hash, and the number of each row."""

    hash_G: Hashes
    row_G: Ints
    size_R: Ints


def _grams(texts: list[list[str]], words: int) -> _Grams:
    length_R = np.fromiter(map(len, texts), np.int64, len(texts))
    # Python's string hash has 64 bits and is fast; it is salted per process, but no hash leaves this process.
    word_W = np.fromiter(map(hash, chain.from_iterable(texts)), np.int64, int(length_R.sum())).view(np.uint64)
    first_R = np.cumsum(length_R) - length_R
    hashes, rows = [], []
    for n in range(1, words + 1):
        row_r = np.flatnonzero(length_R >= n if n == words else length_R == n)
        start_g, row_g = _ranges(first_R[row_r], length_R[row_r] - n + 1)
        hash_g = np.full(len(start_g), n, np.uint64)
        for k in range(n):
            hash_g = _mix(hash_g * _ODD + word_W[start_g + k])
        hashes.append(hash_g)
        rows.append(row_r[row_g])
    hash_G, row_G = np.concatenate(hashes), np.concatenate(rows)
    order_G = np.lexsort((hash_G, row_G))
    hash_G, row_G = hash_G[order_G], row_G[order_G]
    new_G = np.ones(len(hash_G), bool)
    new_G[1:] = (hash_G[1:] != hash_G[:-1]) | (row_G[1:] != row_G[:-1])
    hash_G, row_G = hash_G[new_G], row_G[new_G]
    return _Grams(hash_G, row_G, np.bincount(row_G, minlength=len(texts)))


class _Index:
    """Inverted index of the validation set. Rows with equal n-gram sets are stored once."""

    def __init__(self, rows: _Rows, similarity: float, words: int):
        self.similarity = similarity
        pieces = [(numbers, _grams(texts, words)) for numbers, texts in rows.chunks()]
        self.number_R = np.concatenate([np.empty(0, np.int64), *(numbers for numbers, _ in pieces)])
        size_R = np.concatenate([np.empty(0, np.int64), *(g.size_R for _, g in pieces)])
        hash_G = np.concatenate([np.empty(0, np.uint64), *(g.hash_G for _, g in pieces)])
        del pieces
        row_G = np.repeat(np.arange(len(size_R)), size_R)
        first_U, self.unique_R = _distinct(hash_G, size_R)
        kept_G = np.zeros(len(size_R), bool)
        kept_G[first_U] = True
        kept_G = kept_G[row_G]
        self.vocabulary, gram_G, frequency = np.unique(hash_G[kept_G], return_inverse=True, return_counts=True)
        self.rank = np.empty(len(self.vocabulary), np.int64)
        self.rank[np.argsort(frequency, kind="stable")] = np.arange(len(self.vocabulary))
        self.size_R = size_R[first_U]
        row_G = np.repeat(np.arange(len(first_U)), self.size_R)
        self.rank_G = self.rank[gram_G]
        self.rank_G = self.rank_G[np.lexsort((self.rank_G, row_G))]
        self.first_R = np.cumsum(self.size_R) - self.size_R
        self.open_R = self.size_R > 0
        self.match_R = np.full(len(first_U), -1, np.int64)
        self.similarity_R = np.zeros(len(first_U))
        # Rows that have an n-gram in their prefix, sorted by n-gram and size: admissible sizes are a range of it.
        index_G, row_G = _ranges(self.first_R, self._prefix(self.size_R))
        self.sizes = int(self.size_R.max(initial=0)) + 1
        self.key_E = self.rank_G[index_G] * self.sizes + self.size_R[row_G]
        order_E = np.argsort(self.key_E, kind="stable")
        self.key_E, self.row_E = self.key_E[order_E], row_G[order_E]

    def _prefix(self, size_R: Ints) -> Ints:
        min_R = np.ceil(self.similarity * size_R - 1e-9).astype(np.int64)
        return np.where(size_R > 0, size_R - min_R + 1, 0)

    def probe(self, numbers: Ints, grams: _Grams) -> None:
        """Find near-duplicates of training rows. A validation row that has one is not searched again."""
        first_U, _ = _distinct(grams.hash_G, grams.size_R)
        kept_R = np.zeros(len(grams.size_R), bool)
        kept_R[first_U] = True
        order_G = np.argsort(grams.hash_G)  # sorted look-ups are local in memory
        at_G = np.empty(len(order_G), np.int64)
        at_G[order_G] = np.searchsorted(self.vocabulary, grams.hash_G[order_G])
        known_G = at_G < len(self.vocabulary)
        known_G[known_G] = self.vocabulary[at_G[known_G]] == grams.hash_G[known_G]
        known_G &= kept_R[grams.row_G]
        row_G, rank_G = grams.row_G[known_G], self.rank[at_G[known_G]]
        order_G = np.lexsort((rank_G, row_G))
        rank_G = rank_G[order_G]
        have_R = np.bincount(row_G, minlength=len(kept_R))
        # n-grams that validation lacks are the rarest: they come first and use up part of the prefix.
        first_R = np.cumsum(have_R) - have_R
        limit_R = np.where(have_R > 0, self._prefix(grams.size_R) - (grams.size_R - have_R), 0)
        index_A, row_A = _ranges(first_R, np.minimum(np.maximum(limit_R, 0), have_R))
        low_A = np.ceil(self.similarity * grams.size_R[row_A] - 1e-9).astype(np.int64)
        high_A = np.minimum(np.floor(grams.size_R[row_A] / self.similarity + 1e-9).astype(np.int64), self.sizes - 1)
        key_A = rank_G[index_A] * self.sizes
        from_A = np.searchsorted(self.key_E, key_A + low_A, "left")
        count_A = np.maximum(np.searchsorted(self.key_E, key_A + high_A, "right") - from_A, 0)
        mine_G = row_G * len(self.vocabulary) + rank_G
        for part in _blocks(count_A, _BLOCK):
            index_P, of_P = _ranges(from_A[part], count_A[part])
            theirs_P = self.row_E[index_P]
            wanted_P = self.open_R[theirs_P]
            pair_P = np.unique(theirs_P[wanted_P] * len(kept_R) + row_A[part][of_P[wanted_P]])
            self._verify(pair_P // len(kept_R), pair_P % len(kept_R), mine_G, grams.size_R, numbers)

    def _verify(self, theirs_P: Ints, mine_P: Ints, mine_G: Ints, size_R: Ints, numbers: Ints) -> None:
        """Compare pairs in full; they are sorted by validation row, then by training row."""
        for part in _blocks(self.size_R[theirs_P], _BLOCK):
            theirs, mine = theirs_P[part], mine_P[part]
            index_G, pair_G = _ranges(self.first_R[theirs], self.size_R[theirs])
            key_G = mine[pair_G] * len(self.vocabulary) + self.rank_G[index_G]
            at_G = np.minimum(np.searchsorted(mine_G, key_G), len(mine_G) - 1)
            common = np.bincount(pair_G[mine_G[at_G] == key_G], minlength=len(theirs))
            jaccard = common / (self.size_R[theirs] + size_R[mine] - common)
            near = np.flatnonzero(jaccard >= self.similarity)
            found, first = np.unique(theirs[near], return_index=True)
            new = self.open_R[found]
            found, best = found[new], near[first[new]]
            self.match_R[found] = numbers[mine[best]]
            self.similarity_R[found] = jaccard[best]
            self.open_R[found] = False

    def found(self, examples: int) -> tuple[int, list[DuplicatePair]]:
        """Return the number of rows with a near-duplicate, and the first pairs."""
        rows = np.flatnonzero(self.match_R[self.unique_R] >= 0)
        shown = [(row, self.unique_R[row]) for row in rows[:examples]]
        pairs = [DuplicatePair(int(self.number_R[r]), int(self.match_R[u]), float(self.similarity_R[u])) for r, u in shown]
        return len(rows), pairs


def _distinct(hash_G: Hashes, size_R: Ints) -> tuple[Ints, Ints]:
    """The first row of each distinct n-gram set, in order, and for each row the index of its set."""
    row_G = np.repeat(np.arange(len(size_R)), size_R)
    key_R = size_R.astype(np.uint64)
    np.add.at(key_R, row_G, _mix(hash_G))
    _, first_U, of_R = np.unique(key_R, return_index=True, return_inverse=True)
    order_U = np.argsort(first_U)
    index_U = np.empty_like(order_U)
    index_U[order_U] = np.arange(len(order_U))
    return first_U[order_U], index_U[of_R]


def _mix(hash_G: Hashes) -> Hashes:
    """Finalizer of SplitMix64 (Steele et al. 2014)."""
    hash_G = (hash_G ^ (hash_G >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    hash_G = (hash_G ^ (hash_G >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return hash_G ^ (hash_G >> np.uint64(31))


def _ranges(start_N: Ints, count_N: Ints) -> tuple[Ints, Ints]:
    """Concatenate ranges; return the integers and the range of each."""
    of = np.repeat(np.arange(len(count_N)), count_N)
    return np.arange(len(of)) + np.repeat(start_N - (np.cumsum(count_N) - count_N), count_N), of


def _blocks(count_N: Ints, limit: int) -> Iterator[slice]:
    """Slices whose counts sum to at most ``limit``, or that have a single entry."""
    total_N = np.cumsum(count_N)
    start = 0
    while start < len(count_N):
        before = total_N[start - 1] if start else 0
        end = max(int(np.searchsorted(total_N, before + limit, "right")), start + 1)
        yield slice(start, end)
        start = end
