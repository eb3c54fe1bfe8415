"""Exact match and F1 of answers, as in the evaluation script of SQuAD."""

from __future__ import annotations

import re
import string
from collections import Counter
from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np

from weft.core.contracts import Metric
from weft.core.registry import block
from weft.evaluate.reference import reference_column

_PUNCTUATION = str.maketrans("", "", string.punctuation)
_ARTICLES = re.compile(r"\b(a|an|the)\b")


def normalize_answer(answer: str) -> str:
    """Lowercase an answer, and remove punctuation, articles and extra whitespace.

    >>> normalize_answer("The  Denver Broncos!")
    'denver broncos'
    """
    return " ".join(_ARTICLES.sub(" ", answer.lower().translate(_PUNCTUATION)).split())


def compute_exact(answer: str, gold: str) -> float:
    """Return 1 if the normalized answers are equal, else 0."""
    return float(normalize_answer(answer) == normalize_answer(gold))


def compute_f1(answer: str, gold: str) -> float:
    """Return the F1 of the words of two normalized answers; where one is empty, 1 if both are."""
    found, expected = normalize_answer(answer).split(), normalize_answer(gold).split()
    if not found or not expected:
        return float(found == expected)
    return 2 * (Counter(found) & Counter(expected)).total() / (len(found) + len(expected))


class _AnswerMetric(Metric):
    """Mean over the questions of the highest score of an answer over the gold answers."""

    name: ClassVar[str]
    inputs = "text"
    interval = "proportion"

    def __init__(self, *, field: str = "answer"):
        super().__init__()
        self.field = field

    def score(self, answer: str, gold: str) -> float:
        """The score of an answer with respect to one gold answer."""
        raise NotImplementedError

    def compute(self, predictions: Sequence[Any], references: Sequence[dict[str, str]]) -> dict[str, float]:
        return self.from_statistics(self.statistics(predictions, references).sum(axis=0))

    def statistics(self, predictions: Sequence[Any], references: Sequence[dict[str, str]]) -> np.ndarray:
        """N x 2: the highest score over the gold answers of each question, and 1."""
        found: list[tuple[float, int]] = []
        for answer, cell in zip(predictions, reference_column(predictions, references, self.field), strict=True):
            gold = [text for text in cell.split("\t") if normalize_answer(text)] or [""]  # "" = unanswerable
            found.append((max(self.score(answer, text) for text in gold), 1))
        return np.array(found, np.float64)

    def from_statistics(self, sums: np.ndarray) -> dict[str, float]:
        """The mean from the summed statistics."""
        return {self.name: float(sums[0] / sums[1])}


@block("answer-exact-match")
class AnswerExactMatch(_AnswerMetric):
    """Exact match of SQuAD: the fraction of answers that equal a gold answer, after normalization.

    answer_exact_match = sum_i max_g [normalize(answer_i) = normalize(gold_ig)] / n

    Normalization ignores case, punctuation, articles and whitespace. The empty answer is correct for an unanswerable question.
    Equals the evaluation script of SQuAD 2.0.

    Rajpurkar et al. 2016, https://arxiv.org/abs/1606.05250; Rajpurkar et al. 2018, https://arxiv.org/abs/1806.03822

    Args:
        field: Column of the gold answers, separated by tabs; empty = unanswerable.

    Example:
        >>> AnswerExactMatch().compute(["the Broncos", ""], [{"answer": "Denver\\tBroncos"}, {"answer": ""}])
        {'answer_exact_match': 1.0}
    """

    name = "answer_exact_match"
    higher_is_better = {"answer_exact_match": True}

    def score(self, answer: str, gold: str) -> float:
        return compute_exact(answer, gold)


@block("answer-f1")
class AnswerF1(_AnswerMetric):
    """F1 of SQuAD: the word overlap of each answer with its most similar gold answer, averaged over the questions.

    answer_f1 = sum_i max_g 2 |w(answer_i) & w(gold_ig)| / (|w(answer_i)| + |w(gold_ig)|) / n,
    with w the bag of words without case, punctuation and articles

    For an unanswerable question, the F1 is 1 for the empty answer, else 0. Equals the evaluation script of SQuAD 2.0.

    Rajpurkar et al. 2016, https://arxiv.org/abs/1606.05250; Rajpurkar et al. 2018, https://arxiv.org/abs/1806.03822

    Args:
        field: Column of the gold answers, separated by tabs; empty = unanswerable.

    Example:
        >>> AnswerF1().compute(["the Denver Broncos", "x"], [{"answer": "Broncos"}, {"answer": ""}])["answer_f1"]
        0.3333333333333333
    """

    name = "answer_f1"
    higher_is_better = {"answer_f1": True}

    def score(self, answer: str, gold: str) -> float:
        return compute_f1(answer, gold)
