"""Share of labels that are right."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from weft.catalog import block
from weft.evaluate.reference import against
from weft.slots import Metric


@block("accuracy")
class Accuracy(Metric):
    """The share of predicted labels that are right.

    accuracy = sum_i [prediction_i = label_i] / n

    Args:
        field: Column of the raw row with the label.

    Example:
        >>> Accuracy().compute(["good", "bad"], [{"label": "good"}, {"label": "good"}])
        {'accuracy': 0.5}
    """

    wants = "label"

    def __init__(self, *, field: str = "label"):
        super().__init__()
        self.field = field

    def compute(self, predictions: Sequence[Any], references: Sequence[dict[str, str]]) -> dict[str, float]:
        right = [p == r for p, r in zip(predictions, against(predictions, references, self.field), strict=True)]
        return {"accuracy": sum(right) / len(right)}
