"""Mean absolute error of ordinal labels and numbers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from weft.core.contracts import Metric
from weft.core.registry import block
from weft.evaluate.reference import parse_number, reference_column


@block("mean-absolute-error")
class MeanAbsoluteError(Metric):
    """Mean absolute error of ordinal labels, and adjacent accuracy: the fraction with an error of at most 1.

    mean_absolute_error = mean_i |y'_i - y_i|; adjacent_accuracy = sum_i [|y'_i - y_i| <= 1] / n

    y is the rank of the label in ``order``; without ``order`` the value of a numeric label, or the rank among all labels sorted.

    Args:
        field: Column of the gold label.
        order: The labels from the lowest to the highest; None = numbers, or sorted labels.

    Example:
        >>> MeanAbsoluteError(order=["bad", "fair", "good"]).compute(["bad", "good"], [{"label": "good"}, {"label": "good"}])
        {'mean_absolute_error': 1.0, 'adjacent_accuracy': 0.5}
    """

    inputs = "label"
    higher_is_better = {"mean_absolute_error": False, "adjacent_accuracy": True}

    def __init__(self, *, field: str = "label", order: list[str] | None = None):
        super().__init__()
        if order is not None and (len(set(order)) < len(order) or len(order) < 2):
            raise ValueError(f"order is {order}; must be at least two different labels")
        self.field, self.order = field, order

    def compute(self, predictions: Sequence[Any], references: Sequence[dict[str, str]]) -> dict[str, float]:
        return self.from_statistics(self.statistics(predictions, references).sum(axis=0))

    def statistics(self, predictions: Sequence[Any], references: Sequence[dict[str, str]]) -> np.ndarray:
        """N x 3: the distance, whether it is at most 1, and 1."""
        labels = [str(label) for label in reference_column(predictions, references, self.field)]
        values = self._values([str(label) for label in predictions] + labels)
        distance = np.abs(values[: len(labels)] - values[len(labels) :])
        return np.stack([distance, distance <= 1, np.ones(len(labels))], axis=1)

    def from_statistics(self, sums: np.ndarray) -> dict[str, float]:
        """Both means from the summed statistics."""
        return {"mean_absolute_error": float(sums[0] / sums[2]), "adjacent_accuracy": float(sums[1] / sums[2])}

    def _values(self, labels: list[str]) -> np.ndarray:
        if self.order is not None:
            rank = {label: at for at, label in enumerate(self.order)}
            if unknown := sorted(set(labels) - rank.keys()):
                raise ValueError(f"the label {unknown[0]!r} is not in the option order: {', '.join(self.order)}")
            return np.array([rank[label] for label in labels], np.float64)
        try:
            return np.array([parse_number(label, "label", row) for row, label in enumerate(labels)])
        except ValueError:
            return np.unique(labels, return_inverse=True)[1].astype(np.float64)
