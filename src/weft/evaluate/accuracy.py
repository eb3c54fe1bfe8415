"""Accuracy of predicted labels."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from weft.core.contracts import Metric
from weft.core.registry import block
from weft.evaluate.reference import reference_column


@block("accuracy")
class Accuracy(Metric):
    """Accuracy: the fraction of predicted labels that equal the gold label.

    accuracy = sum_i [prediction_i = label_i] / n

    Args:
        field: Column of the gold label.

    Example:
        >>> Accuracy().compute(["good", "bad"], [{"label": "good"}, {"label": "good"}])
        {'accuracy': 0.5}
    """

    inputs = "label"
    interval = "proportion"
    higher_is_better = {"accuracy": True}

    def __init__(self, *, field: str = "label"):
        super().__init__()
        self.field = field

    def compute(self, predictions: Sequence[Any], references: Sequence[dict[str, str]]) -> dict[str, float]:
        return self.from_statistics(self.statistics(predictions, references).sum(axis=0))

    def statistics(self, predictions: Sequence[Any], references: Sequence[dict[str, str]]) -> np.ndarray:
        """N x 2: whether the label is correct, and 1."""
        labels = reference_column(predictions, references, self.field)
        return np.array([(p == r, 1) for p, r in zip(predictions, labels, strict=True)], np.float64)

    def from_statistics(self, sums: np.ndarray) -> dict[str, float]:
        """Accuracy from the summed statistics."""
        return {"accuracy": float(sums[0] / sums[1])}
