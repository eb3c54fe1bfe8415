"""Diversity of a set of texts: distinct n-grams, distinct texts, repeated words."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from weft.core.contracts import Metric
from weft.core.options import Natural
from weft.core.registry import block
from weft.evaluate.ngrams import ngrams
from weft.evaluate.reference import NO_EXAMPLES
from weft.evaluate.subsample import subsample


def distinct_ngrams(texts: Sequence[str], n: int) -> float:
    """Distinct-n: number of distinct n-grams divided by the number of n-grams; 0 for texts without n-grams.

    It decreases with the number of texts.

    Li et al. 2016 (A diversity-promoting objective function), https://arxiv.org/abs/1510.03055

    >>> distinct_ngrams(["so good", "so bad"], 1)
    0.75
    """
    if n < 1:
        raise ValueError(f"n is {n}; must be at least 1")
    found = [gram for text in texts for gram in ngrams(text.split(), n)]
    return len(set(found)) / len(found) if found else 0.0


def distinct_texts(texts: Sequence[str]) -> float:
    """Fraction of distinct texts, ignoring differences in whitespace.

    >>> distinct_texts(["so good", "so  good ", "so bad", "so bad"])
    0.5
    """
    if not texts:
        raise ValueError("got no texts; pass at least one")
    return len({" ".join(text.split()) for text in texts}) / len(texts)


def repetition_rate(texts: Sequence[str]) -> float:
    """Fraction of words that equal the preceding word, among words that have one; 0 where there are none.

    >>> repetition_rate(["great great great", "so good"])
    0.6666666666666666
    """
    return _ratio(*np.sum([_repeated(text) for text in texts] or [(0, 0)], axis=0).tolist())


def _repeated(text: str) -> tuple[int, int]:
    words = text.split()
    return sum(a == b for a, b in pairwise(words)), max(0, len(words) - 1)


def _ratio(part: float, total: float) -> float:
    return part / total if total else 0.0


@block("distinct")
class Distinct(Metric):
    """Distinct-1, distinct-2 and the fraction of distinct texts.

    distinct_n = distinct n-grams / n-grams; distinct_texts = distinct texts / texts. All decrease with the number of texts.

    Li et al. 2016, https://arxiv.org/abs/1510.03055

    Args:
        max_texts: Maximum number of texts, spread over the split; 0 = all.

    Example:
        >>> Distinct().compute(["so good", "so bad"], [{}, {}])
        {'distinct_1': 0.75, 'distinct_2': 1.0, 'distinct_texts': 1.0}
    """

    inputs = "text"
    per_example = False
    higher_is_better = {"distinct_1": True, "distinct_2": True, "distinct_texts": True}

    def __init__(self, *, max_texts: Natural = 500):
        super().__init__()
        self.max_texts = max_texts

    def compute(self, predictions: Sequence[Any], references: Sequence[dict[str, str]]) -> dict[str, float]:
        texts = subsample(predictions, self.max_texts)
        if not texts:
            raise ValueError(NO_EXAMPLES)
        found = {f"distinct_{n}": distinct_ngrams(texts, n) for n in (1, 2)}
        return {**found, "distinct_texts": distinct_texts(texts)}

    def signature(self) -> str:
        return f"{self.max_texts} texts" if self.max_texts else "all texts"


@block("repetition")
class Repetition(Metric):
    """Fraction of words of the predicted texts that equal the preceding word.

    repetition = sum_i [word_i = word_(i-1)] / words with a preceding word

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
        """N x 2: words that equal the preceding word, and words with a preceding word."""
        if not predictions:
            raise ValueError(NO_EXAMPLES)
        return np.array([_repeated(text) for text in predictions], np.float64)

    def from_statistics(self, sums: np.ndarray) -> dict[str, float]:
        """The fraction from the summed statistics."""
        return {"repetition": _ratio(float(sums[0]), float(sums[1]))}
