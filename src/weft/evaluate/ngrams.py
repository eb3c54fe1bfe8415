"""BLEU of texts against many texts each, and against each other. Words are what blanks separate: tokenise before, or not at all.

Shape suffixes: N texts, S statistics: length, length of the reference, n-grams found and n-grams there for n = 1 .. order.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

Gram = tuple[str, ...]


@dataclass(frozen=True)
class BleuScore:
    """A BLEU, 0 to 100, with what it means nothing without: how many texts were compared, with how many references each."""

    score: float
    order: int
    """The longest n-grams."""
    texts: int
    references: int
    """Of each text; where they differ, of the text that has most."""
    fewest: int
    """Of the text that has fewest."""
    precisions: tuple[float, ...]
    """The share of n-grams that was found, for n = 1 .. order."""
    brevity: float
    """What short texts cost: 1 where they are as long as their references."""

    def __str__(self) -> str:
        references = f"{self.references:,}" if self.fewest == self.references else f"{self.fewest:,} to {self.references:,}"
        return f"BLEU-{self.order} {self.score:.2f} (texts: {self.texts:,}, references of each: {references})"


def ngrams(words: Sequence[str], n: int) -> Iterable[Gram]:
    """The n-grams of a text, in order.

    >>> list(ngrams(["a", "b", "c"], 2))
    [('a', 'b'), ('b', 'c')]
    """
    return zip(*(words[start:] for start in range(n)), strict=False)


def corpus_bleu(texts: Sequence[str], references: Sequence[Sequence[str]], *, order: int = 4) -> BleuScore:
    """BLEU of the whole corpus, each text with references of its own, not smoothed.

    BLEU = 100 BP exp(mean_n log p_n), p_n = sum over texts of n-grams found / sum over texts of n-grams there
    BP = 1 if c > r, else exp(1 - r / c)

    An n-gram is found as often as the one reference has it that has it most often. c is the number of words, r that of the
    references: of each text the nearest in length, of two as near the shorter. BLEU grows with the number of references.
    Where all texts have the same, give the same list (``[pool] * len(texts)``) or take ``Pool``: it is gone through once.

    Papineni et al. 2002 (BLEU: a method for automatic evaluation of machine translation)

    Args:
        texts: What was written.
        references: For each text a list of texts.
        order: The longest n-grams.

    >>> str(corpus_bleu(["the cat sat on it"], [["the cat sat on him", "on it"]], order=2))
    'BLEU-2 100.00 (texts: 1, references of each: 2)'
    """
    _check(texts, "texts")
    _check_order(order)
    if len(texts) != len(references):
        raise ValueError(f"{len(texts)} texts, but {len(references)} lists of references: give one list for each text")
    for row, own in enumerate(references):
        if isinstance(own, str):
            raise ValueError(f"the references of text {row} are one string: give a list of texts, even of one")
        if not own:
            raise ValueError(f"text {row} has no references: leave it out, or give it one")
    pools: dict[int, Pool] = {}  # by identity: the lists live as long as this call
    for own in references:
        if id(own) not in pools:
            pools[id(own)] = Pool(own, order=order)
    stats_NS = [pools[id(own)].statistics([text])[0] for text, own in zip(texts, references, strict=True)]
    numbers = [len(own) for own in references]
    return _score(_summed(stats_NS), len(texts), max(numbers), min(numbers))


class Pool:
    """References that all texts have in common: what is counted in them is counted once.

    Args:
        references: The texts, such as a whole test set.
        order: The longest n-grams.

    >>> pool = Pool(["the food was good", "the staff was rude"])
    >>> str(pool.bleu(["the food was rude", "good good"]))
    'BLEU-4 0.00 (texts: 2, references of each: 2)'
    """

    def __init__(self, references: Sequence[str], *, order: int = 4):
        _check(references, "references")
        _check_order(order)
        self.order, self.references = order, len(references)
        self._most: dict[Gram, int] = {}
        lengths = set[int]()
        for text in references:
            words = text.split()
            lengths.add(len(words))
            for gram, count in _counts(words, order).items():
                if count > self._most.get(gram, 0):
                    self._most[gram] = count
        self._lengths = sorted(lengths)

    def bleu(self, texts: Sequence[str]) -> BleuScore:
        """``corpus_bleu`` of the texts, each against all references."""
        _check(texts, "texts")
        return _score(_summed(self.statistics(texts)), len(texts), self.references, self.references)

    def statistics(self, texts: Sequence[str]) -> np.ndarray:
        """N x S: what each text adds."""
        return np.array([self._of(text.split()) for text in texts], np.float64).reshape(len(texts), 2 + 2 * self.order)

    def score(self, sums_S: np.ndarray, texts: int) -> BleuScore:
        """BLEU of the texts whose statistics were summed."""
        return _score(sums_S, texts, self.references, self.references)

    def _of(self, words: list[str]) -> list[int]:
        found = [0] * self.order
        for gram, count in _counts(words, self.order).items():
            found[len(gram) - 1] += min(count, self._most.get(gram, 0))
        return [len(words), _nearest(self._lengths, len(words)), *found, *_there(words, self.order)]


def self_bleu(texts: Sequence[str], *, order: int = 4) -> BleuScore:
    """BLEU of each text against all the others: the lower, the more they differ. It grows with their number.

    Of each n-gram the largest and the second largest count in one text are kept, so that the largest among all others is
    known for each text, and the time grows as the number of texts does.

    Zhu et al. 2018 (Texygen), https://arxiv.org/abs/1802.01886

    Args:
        texts: What was written, at least two texts.
        order: The longest n-grams.

    >>> self_bleu(["so good", "so good", "so good"], order=2).score
    100.0
    """
    _check(texts, "texts")
    _check_order(order)
    if len(texts) < 2:
        raise ValueError("Self-BLEU compares texts with each other: one text is not enough, give at least two")
    split = [text.split() for text in texts]
    largest: dict[Gram, int] = {}
    second: dict[Gram, int] = {}
    for words in split:
        for gram, count in _counts(words, order).items():
            most = largest.get(gram, 0)
            if count >= most:
                largest[gram], second[gram] = count, most
            elif count > second[gram]:
                second[gram] = count
    rows_of_length = Counter(map(len, split))
    lengths = sorted(rows_of_length)
    sums_S = np.zeros(2 + 2 * order)
    for words in split:
        found = [0] * order
        for gram, count in _counts(words, order).items():
            # who has the largest count is compared with the second; where two have it, they are equal
            others = second[gram] if count == largest[gram] else largest[gram]
            found[len(gram) - 1] += min(count, others)
        length = len(words)
        near = length if rows_of_length[length] > 1 else _nearest([other for other in lengths if other != length], length)
        sums_S += [length, near, *found, *_there(words, order)]
    return _score(sums_S, len(texts), len(texts) - 1, len(texts) - 1)


def g_score(accuracy: float, bleu: float) -> float:
    """The geometric mean of an accuracy (a share, 0 to 1) and a BLEU (0 to 100): 0 to 100.

    G = sqrt(100 accuracy * BLEU)

    It rewards a constant text or a copy: never show it without Self-BLEU and the share of different texts.

    >>> round(g_score(0.949, 58.88), 2)
    74.75
    """
    if not 0 <= accuracy <= 1 or not 0 <= bleu <= 100:
        raise ValueError(f"the accuracy is {accuracy} and BLEU {bleu}, but must be a share (0 to 1) and a BLEU (0 to 100)")
    return math.sqrt(100 * accuracy * bleu)


def _counts(words: Sequence[str], order: int) -> Counter[Gram]:
    counts: Counter[Gram] = Counter()
    for n in range(1, order + 1):
        counts.update(ngrams(words, n))
    return counts


def _there(words: Sequence[str], order: int) -> list[int]:
    return [max(0, len(words) - n + 1) for n in range(1, order + 1)]


def _nearest(lengths: Sequence[int], length: int) -> int:
    """Of sorted lengths the nearest one; of two as near, the shorter."""
    at = bisect_left(lengths, length)
    around = lengths[max(0, at - 1) : at + 1]
    return min(around, key=lambda other: (abs(other - length), other))


def _summed(stats_NS: Sequence[np.ndarray] | np.ndarray) -> np.ndarray:
    return np.sum(np.asarray(stats_NS), axis=0)


def _score(sums_S: np.ndarray, texts: int, references: int, fewest: int) -> BleuScore:
    order = (len(sums_S) - 2) // 2
    length, near = float(sums_S[0]), float(sums_S[1])
    found, there = sums_S[2 : 2 + order].tolist(), sums_S[2 + order :].tolist()
    precisions = tuple(f / t if t else 0.0 for f, t in zip(found, there, strict=True))
    brevity = 1.0 if length > near else math.exp(1 - near / length) if length else 0.0
    score = 100 * brevity * math.exp(sum(map(math.log, precisions)) / order) if min(precisions) > 0 else 0.0
    return BleuScore(score, order, texts, references, fewest, precisions, brevity)


def _check(texts: Sequence[str], what: str) -> None:
    if isinstance(texts, str):
        raise ValueError(f"the {what} are one string: give a list of texts")
    if not texts:
        raise ValueError(f"there are no {what}: give at least one")


def _check_order(order: int) -> None:
    if order < 1:
        raise ValueError(f"order is {order}, but n-grams have at least one word: 4 is usual")
