"""How far predicted labels are from the right ones, where labels have an order."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from weft.core.contracts import Metric
from weft.core.registry import block
from weft.evaluate.reference import against, number


@block("mean-absolute-error")
class MeanAbsoluteError(Metric):
    """The mean distance of predicted and right labels that have an order, and the share that is at most one off.

    mean_absolute_error = mean_i |y'_i - y_i|; within_one = sum_i [|y'_i - y_i| <= 1] / n

    y is the place of the label in ``order``; without it the number that the label is, or where labels are no numbers their
    place among all labels found, sorted.

    Args:
        field: Column of the raw row with the label.
        order: The labels from the lowest to the highest.

    Example:
        >>> MeanAbsoluteError(order=["bad", "fair", "good"]).compute(["bad", "good"], [{"label": "good"}, {"label": "good"}])
        {'mean_absolute_error': 1.0, 'within_one': 0.5}
    """

    inputs = "label"
    higher_is_better = {"mean_absolute_error": False, "within_one": True}

    def __init__(self, *, field: str = "label", order: list[str] | None = None):
        super().__init__()
        if order is not None and (len(set(order)) < len(order) or len(order) < 2):
            raise ValueError(f"order must name two labels or more, each once, not {order}")
        self.field, self.order = field, order

    def compute(self, predictions: Sequence[Any], references: Sequence[dict[str, str]]) -> dict[str, float]:
        return self.from_statistics(self.statistics(predictions, references).sum(axis=0))

    def statistics(self, predictions: Sequence[Any], references: Sequence[dict[str, str]]) -> np.ndarray:
        """N x 3: the distance, whether it is at most 1, and 1."""
        labels = [str(label) for label in against(predictions, references, self.field)]
        values = self._values([str(label) for label in predictions] + labels)
        distance = np.abs(values[: len(labels)] - values[len(labels) :])
        return np.stack([distance, distance <= 1, np.ones(len(labels))], axis=1)

    def from_statistics(self, sums: np.ndarray) -> dict[str, float]:
        """The two means."""
        return {"mean_absolute_error": float(sums[0] / sums[2]), "within_one": float(sums[1] / sums[2])}

    def _values(self, labels: list[str]) -> np.ndarray:
        if self.order is not None:
            place = {label: at for at, label in enumerate(self.order)}
            if unknown := sorted(set(labels) - place.keys()):
                raise ValueError(f"the label {unknown[0]!r} is not in order ({', '.join(self.order)})")
            return np.array([place[label] for label in labels], np.float64)
        try:
            return np.array([number(label, "label", row) for row, label in enumerate(labels)])
        except ValueError:
            return np.unique(labels, return_inverse=True)[1].astype(np.float64)
