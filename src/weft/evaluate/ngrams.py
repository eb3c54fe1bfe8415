"""BLEU with many references per text, and Self-BLEU, on whitespace-separated words.

Shape suffixes: N texts, S statistics: length, reference length, matching n-grams and all n-grams for n = 1 .. order.
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
    """A BLEU score with the numbers of texts and references that it depends on.

    Args:
        score: BLEU, 0 to 100.
        order: Maximum order of the n-grams.
        texts: Number of texts.
        references: Number of references per text; the maximum where texts differ.
        min_references: The minimum where texts differ.
        precisions: Clipped n-gram precision for n = 1 .. order.
        brevity_penalty: 1 where texts are longer than their references, else less.
    """

    score: float
    order: int
    texts: int
    references: int
    min_references: int
    precisions: tuple[float, ...]
    brevity_penalty: float

    def __str__(self) -> str:
        same = self.min_references == self.references
        references = f"{self.references:,}" if same else f"{self.min_references:,} to {self.references:,}"
        return f"BLEU-{self.order} {self.score:.2f} (texts: {self.texts:,}, references per text: {references})"


def ngrams(words: Sequence[str], n: int) -> Iterable[Gram]:
    """Return the n-grams of a text, in order.

    >>> list(ngrams(["a", "b", "c"], 2))
    [('a', 'b'), ('b', 'c')]
    """
    return zip(*(words[start:] for start in range(n)), strict=False)


def corpus_bleu(texts: Sequence[str], references: Sequence[Sequence[str]], *, order: int = 4) -> BleuScore:
    """Corpus BLEU with several references per text, without smoothing.

    BLEU = 100 BP exp(mean_n log p_n), with p_n = sum over texts of clipped matches / sum over texts of n-grams;
    BP = 1 if c > r, else exp(1 - r / c)

    Matches are clipped at the maximum count in a single reference. c is the number of words of the texts, r that of their
    references, of each text the closest in length (the shorter of two). BLEU increases with the number of references. Where all
    texts share their references, pass the same list (``[pool] * len(texts)``) or use ``ReferencePool``: it is counted once.

    Papineni et al. 2002 (BLEU: a method for automatic evaluation of machine translation)

    Args:
        texts: The generated texts.
        references: A list of references for each text.
        order: Maximum order of the n-grams.

    >>> str(corpus_bleu(["the cat sat on it"], [["the cat sat on him", "on it"]], order=2))
    'BLEU-2 100.00 (texts: 1, references per text: 2)'
    """
    _check(texts, "texts")
    _check_order(order)
    if len(texts) != len(references):
        raise ValueError(f"got {len(texts)} texts and {len(references)} lists of references; pass one list per text")
    for row, own in enumerate(references):
        if isinstance(own, str):
            raise ValueError(f"the references of text {row} are one string; pass a list of texts")
        if not own:
            raise ValueError(f"text {row} has no references; pass at least one, or remove the text")
    pools: dict[int, ReferencePool] = {}  # by identity: the lists live as long as this call
    for own in references:
        if id(own) not in pools:
            pools[id(own)] = ReferencePool(own, order=order)
    stats_NS = [pools[id(own)].statistics([text])[0] for text, own in zip(texts, references, strict=True)]
    numbers = [len(own) for own in references]
    return _score(_summed(stats_NS), len(texts), max(numbers), min(numbers))


class ReferencePool:
    """References that all texts share, such as a test set. Their n-grams are counted once.

    Args:
        references: The references.
        order: Maximum order of the n-grams.

    >>> pool = ReferencePool(["the food was good", "the staff was rude"])
    >>> str(pool.bleu(["the food was rude", "good good"]))
    'BLEU-4 0.00 (texts: 2, references per text: 2)'
    """

    def __init__(self, references: Sequence[str], *, order: int = 4):
        _check(references, "references")
        _check_order(order)
        self.order, self.references = order, len(references)
        self._max_counts: dict[Gram, int] = {}
        lengths = set[int]()
        for text in references:
            words = text.split()
            lengths.add(len(words))
            for gram, count in _counts(words, order).items():
                if count > self._max_counts.get(gram, 0):
                    self._max_counts[gram] = count
        self._lengths = sorted(lengths)

    def bleu(self, texts: Sequence[str]) -> BleuScore:
        """Return the corpus BLEU of texts, each against all references."""
        _check(texts, "texts")
        return _score(_summed(self.statistics(texts)), len(texts), self.references, self.references)

    def statistics(self, texts: Sequence[str]) -> np.ndarray:
        """N x S: the statistics of each text."""
        return np.array([self._of(text.split()) for text in texts], np.float64).reshape(len(texts), 2 + 2 * self.order)

    def score(self, sums_S: np.ndarray, texts: int) -> BleuScore:
        """Return BLEU from the summed statistics of a number of texts."""
        return _score(sums_S, texts, self.references, self.references)

    def _of(self, words: list[str]) -> list[int]:
        found = [0] * self.order
        for gram, count in _counts(words, self.order).items():
            found[len(gram) - 1] += min(count, self._max_counts.get(gram, 0))
        return [len(words), _nearest(self._lengths, len(words)), *found, *_totals(words, self.order)]


def self_bleu(texts: Sequence[str], *, order: int = 4) -> BleuScore:
    """Self-BLEU: BLEU of each text against all others; a lower value means more diversity. It increases with their number.

    Time is linear in the number of texts: the two largest counts of each n-gram give its maximum over all other texts.

    Zhu et al. 2018 (Texygen), https://arxiv.org/abs/1802.01886

    Args:
        texts: At least two texts.
        order: Maximum order of the n-grams.

    >>> self_bleu(["so good", "so good", "so good"], order=2).score
    100.0
    """
    _check(texts, "texts")
    _check_order(order)
    if len(texts) < 2:
        raise ValueError("Self-BLEU needs at least two texts, got one")
    split = [text.split() for text in texts]
    largest: dict[Gram, int] = {}
    second: dict[Gram, int] = {}
    for words in split:
        for gram, count in _counts(words, order).items():
            highest = largest.get(gram, 0)
            if count >= highest:
                largest[gram], second[gram] = count, highest
            elif count > second[gram]:
                second[gram] = count
    texts_of_length = Counter(map(len, split))
    lengths = sorted(texts_of_length)
    sums_S = np.zeros(2 + 2 * order)
    for words in split:
        found = [0] * order
        for gram, count in _counts(words, order).items():
            # the text with the largest count is compared with the second largest; of a tie, both are equal
            others = second[gram] if count == largest[gram] else largest[gram]
            found[len(gram) - 1] += min(count, others)
        length = len(words)
        near = length if texts_of_length[length] > 1 else _nearest([other for other in lengths if other != length], length)
        sums_S += [length, near, *found, *_totals(words, order)]
    return _score(sums_S, len(texts), len(texts) - 1, len(texts) - 1)


def g_score(accuracy: float, bleu: float) -> float:
    """G-score: geometric mean of an accuracy (0 to 1) and a BLEU (0 to 100), 0 to 100.

    G = sqrt(100 accuracy * BLEU)

    A constant text or a copy of the source can have a high G-score: report it with Self-BLEU and the fraction of distinct texts.

    >>> round(g_score(0.949, 58.88), 2)
    74.75
    """
    if not 0 <= accuracy <= 1 or not 0 <= bleu <= 100:
        raise ValueError(f"accuracy is {accuracy} and bleu is {bleu}; accuracy must be 0 to 1, and bleu 0 to 100")
    return math.sqrt(100 * accuracy * bleu)


def _counts(words: Sequence[str], order: int) -> Counter[Gram]:
    counts: Counter[Gram] = Counter()
    for n in range(1, order + 1):
        counts.update(ngrams(words, n))
    return counts


def _totals(words: Sequence[str], order: int) -> list[int]:
    return [max(0, len(words) - n + 1) for n in range(1, order + 1)]


def _nearest(lengths: Sequence[int], length: int) -> int:
    """Return the closest of sorted lengths; the shorter of two."""
    at = bisect_left(lengths, length)
    around = lengths[max(0, at - 1) : at + 1]
    return min(around, key=lambda other: (abs(other - length), other))


def _summed(stats_NS: Sequence[np.ndarray] | np.ndarray) -> np.ndarray:
    return np.sum(np.asarray(stats_NS), axis=0)


def _score(sums_S: np.ndarray, texts: int, references: int, min_references: int) -> BleuScore:
    order = (len(sums_S) - 2) // 2
    length, near = float(sums_S[0]), float(sums_S[1])
    found, totals = sums_S[2 : 2 + order].tolist(), sums_S[2 + order :].tolist()
    precisions = tuple(f / t if t else 0.0 for f, t in zip(found, totals, strict=True))
    brevity = 1.0 if length > near else math.exp(1 - near / length) if length else 0.0
    score = 100 * brevity * math.exp(sum(map(math.log, precisions)) / order) if min(precisions) > 0 else 0.0
    return BleuScore(score, order, texts, references, min_references, precisions, brevity)


def _check(texts: Sequence[str], what: str) -> None:
    if isinstance(texts, str):
        raise ValueError(f"{what} is one string; pass a list of texts")
    if not texts:
        raise ValueError(f"got no {what}; pass at least one")


def _check_order(order: int) -> None:
    if order < 1:
        raise ValueError(f"order is {order}; must be at least 1, usually 4")
