"""Pearson and Spearman correlation of predicted and gold numbers."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from weft.core.contracts import Metric
from weft.core.registry import block
from weft.evaluate.reference import parse_number, reference_column


@block("correlation")
class Correlation(Metric):
    """Pearson (linear) and Spearman (rank) correlation of predicted and gold numbers.

    pearson = sum_i (x_i - x')(y_i - y') / sqrt(sum_i (x_i - x')^2 sum_i (y_i - y')^2), with x' and y' the means;
    spearman = pearson of the ranks, with the mean rank for ties

    Both are nan where all predictions, or all gold numbers, are equal.

    Args:
        field: Column of the gold number.

    Example:
        >>> Correlation().compute(["1", "2", "9"], [{"label": "0.1"}, {"label": "0.2"}, {"label": "0.3"}])["spearman"]
        1.0
    """

    inputs = "label"
    interval = "correlation"
    higher_is_better = {"pearson": True, "spearman": True}

    def __init__(self, *, field: str = "label"):
        super().__init__()
        self.field = field

    def compute(self, predictions: Sequence[Any], references: Sequence[dict[str, str]]) -> dict[str, float]:
        y = np.array(
            [
                parse_number(text, "reference", row)
                for row, text in enumerate(reference_column(predictions, references, self.field))
            ]
        )
        x = np.array([parse_number(text, "prediction", row) for row, text in enumerate(predictions)])
        return {"pearson": _pearson(x, y), "spearman": _pearson(_ranks(x), _ranks(y))}


def _pearson(x: np.ndarray, y: np.ndarray) -> float:
    if (x == x[0]).all() or (y == y[0]).all():
        return math.nan
    x, y = x - x.mean(), y - y.mean()
    # scale to a maximum of 1: squares of large numbers would overflow, those of small ones underflow
    x, y = x / np.abs(x).max(), y / np.abs(y).max()
    return float(np.clip((x @ y) / np.sqrt((x @ x) * (y @ y)), -1, 1))


def _ranks(x: np.ndarray) -> np.ndarray:
    _, index, count = np.unique(x, return_inverse=True, return_counts=True)
    return (np.cumsum(count) - (count - 1) / 2)[index]
