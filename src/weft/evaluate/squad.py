"""Answers compared with the right ones, as SQuAD does."""

from __future__ import annotations

import re
import string
from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np

from weft.core.contracts import Metric
from weft.core.registry import block
from weft.evaluate.reference import against

_PUNCTUATION = str.maketrans("", "", string.punctuation)
_ARTICLES = re.compile(r"\b(a|an|the)\b")


def normalise(answer: str) -> str:
    """In lower case, without punctuation and articles, with one space between words.

    >>> normalise("The  Denver Broncos!")
    'denver broncos'
    """
    return " ".join(_ARTICLES.sub(" ", answer.lower().translate(_PUNCTUATION)).split())


def exact(answer: str, right: str) -> float:
    """Whether two answers are the same."""
    return float(normalise(answer) == normalise(right))


def overlap(answer: str, right: str) -> float:
    """F1 of the words of two answers; where one of them has none, whether both have none."""
    found, there = normalise(answer).split(), normalise(right).split()
    if not found or not there:
        return float(found == there)
    return 2 * (Counter(found) & Counter(there)).total() / (len(found) + len(there))


def _right(cell: str) -> list[str]:
    """The right answers of a row: those that have words, or that there is none."""
    return [answer for answer in cell.split("\t") if normalise(answer)] or [""]


@block("answer-exact-match")
class AnswerExactMatch(Metric):
    """The share of answers that equal a right one, apart from case, punctuation, articles and spaces.

    answer_exact_match = sum_i max_r [normal(answer_i) = normal(right_ir)] / n

    A row without a right answer is right if none is given. Equal to SQuAD 2.0's script.

    Rajpurkar et al. 2016, https://arxiv.org/abs/1606.05250; Rajpurkar et al. 2018, https://arxiv.org/abs/1806.03822

    Args:
        field: Column of the raw row with the right answers, a tab between them.

    Example:
        >>> AnswerExactMatch().compute(["the Broncos", ""], [{"answer": "Denver\\tBroncos"}, {"answer": ""}])
        {'answer_exact_match': 1.0}
    """

    inputs = "text"
    higher_is_better = {"answer_exact_match": True}

    def __init__(self, *, field: str = "answer"):
        super().__init__()
        self.field = field

    def compute(self, predictions: Sequence[Any], references: Sequence[dict[str, str]]) -> dict[str, float]:
        return self.from_statistics(self.statistics(predictions, references).sum(axis=0))

    def statistics(self, predictions: Sequence[Any], references: Sequence[dict[str, str]]) -> np.ndarray:
        """N x 2: whether the answer is right, and 1."""
        rows = zip(predictions, against(predictions, references, self.field), strict=True)
        return np.array([(max(exact(answer, right) for right in _right(cell)), 1) for answer, cell in rows], np.float64)

    def from_statistics(self, sums: np.ndarray) -> dict[str, float]:
        return {"answer_exact_match": float(sums[0] / sums[1])}


@block("answer-f1")
class AnswerF1(Metric):
    """The overlap of the words of each answer with those of the right one it is most like.

    answer_f1 = sum_i max_r 2 |w(answer_i) & w(right_ir)| / (|w(answer_i)| + |w(right_ir)|) / n,
    with w the bag of words without case, punctuation and articles

    A row without a right answer has 1 if none is given, else 0. Equal to SQuAD 2.0's script.

    Rajpurkar et al. 2016, https://arxiv.org/abs/1606.05250; Rajpurkar et al. 2018, https://arxiv.org/abs/1806.03822

    Args:
        field: Column of the raw row with the right answers, a tab between them.

    Example:
        >>> AnswerF1().compute(["the Denver Broncos", "x"], [{"answer": "Broncos"}, {"answer": ""}])["answer_f1"]
        0.3333333333333333
    """

    inputs = "text"
    higher_is_better = {"answer_f1": True}

    def __init__(self, *, field: str = "answer"):
        super().__init__()
        self.field = field

    def compute(self, predictions: Sequence[Any], references: Sequence[dict[str, str]]) -> dict[str, float]:
        return self.from_statistics(self.statistics(predictions, references).sum(axis=0))

    def statistics(self, predictions: Sequence[Any], references: Sequence[dict[str, str]]) -> np.ndarray:
        """N x 2: the overlap, and 1."""
        rows = zip(predictions, against(predictions, references, self.field), strict=True)
        return np.array([(max(overlap(answer, right) for right in _right(cell)), 1) for answer, cell in rows], np.float64)

    def from_statistics(self, sums: np.ndarray) -> dict[str, float]:
        return {"answer_f1": float(sums[0] / sums[1])}
