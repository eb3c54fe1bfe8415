"""How much a set of texts repeats: different n-grams, different texts, words that stand twice in a row."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from weft.core.contracts import Metric
from weft.core.options import Natural
from weft.core.registry import block
from weft.evaluate.ngrams import ngrams
from weft.evaluate.subsample import evenly


def distinct_ngrams(texts: Sequence[str], n: int) -> float:
    """The share of different n-grams among all n-grams of the texts; 0 where they have none. It falls with their number.

    Li et al. 2016 (A diversity-promoting objective function), https://arxiv.org/abs/1510.03055

    >>> distinct_ngrams(["so good", "so bad"], 1)
    0.75
    """
    if n < 1:
        raise ValueError(f"n is {n}, but n-grams have at least one word")
    all_of_them = [gram for text in texts for gram in ngrams(text.split(), n)]
    return len(set(all_of_them)) / len(all_of_them) if all_of_them else 0.0


def distinct_texts(texts: Sequence[str]) -> float:
    """The share of different texts; blanks at the ends and how many there are between words do not count.

    >>> distinct_texts(["so good", "so  good ", "so bad", "so bad"])
    0.5
    """
    if not texts:
        raise ValueError("there are no texts: give at least one")
    return len({" ".join(text.split()) for text in texts}) / len(texts)


def repetition_rate(texts: Sequence[str]) -> float:
    """The share of words that equal the word before them, among all that have one before them; 0 where none has.

    >>> repetition_rate(["great great great", "so good"])
    0.6666666666666666
    """
    return _share(*np.sum([_repeated(text) for text in texts] or [(0, 0)], axis=0).tolist())


def _repeated(text: str) -> tuple[int, int]:
    words = text.split()
    return sum(a == b for a, b in pairwise(words)), max(0, len(words) - 1)


def _share(part: float, whole: float) -> float:
    return part / whole if whole else 0.0


@block("distinct")
class Distinct(Metric):
    """How many of the predicted texts, words and pairs of words are different.

    distinct_n = different n-grams / n-grams, distinct_texts = different texts / texts; all fall with the number of texts

    Li et al. 2016, https://arxiv.org/abs/1510.03055

    Args:
        most: Only so many texts, taken from all of them; 0 = all.

    Example:
        >>> Distinct().compute(["so good", "so bad"], [{}, {}])
        {'distinct_1': 0.75, 'distinct_2': 1.0, 'distinct_texts': 1.0}
    """

    inputs = "text"
    per_example = False
    higher_is_better = {"distinct_1": True, "distinct_2": True, "distinct_texts": True}

    def __init__(self, *, most: Natural = 500):
        super().__init__()
        self.most = most

    def compute(self, predictions: Sequence[Any], references: Sequence[dict[str, str]]) -> dict[str, float]:
        texts = evenly(predictions, self.most)
        if not texts:
            raise ValueError("there are no rows to evaluate: give the data a split that has some")
        found = {f"distinct_{n}": distinct_ngrams(texts, n) for n in (1, 2)}
        return {**found, "distinct_texts": distinct_texts(texts)}

    def signature(self) -> str:
        return f"{self.most} texts" if self.most else "all texts"


@block("repetition")
class Repetition(Metric):
    """The share of words of the predicted texts that equal the word before them.

    repetition = sum_i [word_i = word_i-1] / words that have a word before them

    Args:

    Example:
        >>> Repetition().compute(["great great great", "so good"], [{}, {}])
        {'repetition': 0.6666666666666666}
    """

    inputs = "text"
    higher_is_better = {"repetition": False}

    def compute(self, predictions: Sequence[Any], references: Sequence[dict[str, str]]) -> dict[str, float]:
        return self.from_statistics(self.statistics(predictions, references).sum(axis=0))

    def statistics(self, predictions: Sequence[Any], references: Sequence[dict[str, str]]) -> np.ndarray:
        """N x 2: words that equal the one before, and words that have one before."""
        if not predictions:
            raise ValueError("there are no rows to evaluate: give the data a split that has some")
        return np.array([_repeated(text) for text in predictions], np.float64)

    def from_statistics(self, sums: np.ndarray) -> dict[str, float]:
        """The share."""
        return {"repetition": _share(float(sums[0]), float(sums[1]))}
