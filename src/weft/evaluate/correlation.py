"""Correlation of predicted and right numbers."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from weft.core.contracts import Metric
from weft.core.registry import block
from weft.evaluate.reference import against, number


@block("correlation")
class Correlation(Metric):
    """How well predicted numbers go along with the right ones: in a straight line (Pearson), and in their order (Spearman).

    pearson = sum_i (x_i - x')(y_i - y') / sqrt(sum_i (x_i - x')^2 sum_i (y_i - y')^2), x' and y' the means;
    spearman = the same of the ranks, equal numbers sharing the mean of theirs

    Where all numbers of a side are equal, correlation is not defined, and the figures are no numbers (nan).

    Args:
        field: Column of the raw row with the number.

    Example:
        >>> Correlation().compute(["1", "2", "9"], [{"label": "0.1"}, {"label": "0.2"}, {"label": "0.3"}])["spearman"]
        1.0
    """

    inputs = "label"
    higher_is_better = {"pearson": True, "spearman": True}

    def __init__(self, *, field: str = "label"):
        super().__init__()
        self.field = field

    def compute(self, predictions: Sequence[Any], references: Sequence[dict[str, str]]) -> dict[str, float]:
        y = np.array([number(text, "reference", row) for row, text in enumerate(against(predictions, references, self.field))])
        x = np.array([number(text, "prediction", row) for row, text in enumerate(predictions)])
        return {"pearson": _pearson(x, y), "spearman": _pearson(_ranks(x), _ranks(y))}


def _pearson(x: np.ndarray, y: np.ndarray) -> float:
    if (x == x[0]).all() or (y == y[0]).all():
        return math.nan
    x, y = x - x.mean(), y - y.mean()
    # The largest number becomes 1: squares of large ones would overflow, of small ones vanish.
    x, y = x / np.abs(x).max(), y / np.abs(y).max()
    return float(np.clip((x @ y) / np.sqrt((x @ x) * (y @ y)), -1, 1))


def _ranks(x: np.ndarray) -> np.ndarray:
    _, place, count = np.unique(x, return_inverse=True, return_counts=True)
    return (np.cumsum(count) - (count - 1) / 2)[place]
