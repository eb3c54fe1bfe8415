"""Macro-averaged F1 of classes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from weft.core.contracts import Metric
from weft.core.registry import block
from weft.evaluate.reference import reference_column


@block("macro-f1")
class MacroF1(Metric):
    """Macro-averaged F1: the mean of the F1 of each class, so that rare classes count as much as frequent ones.

    macro_f1 = mean_c 2 tp_c / (2 tp_c + fp_c + fn_c), over the classes that occur in predictions or gold labels

    Args:
        field: Column of the gold label.

    Example:
        >>> MacroF1().compute(["a", "a", "b"], [{"label": "a"}, {"label": "a"}, {"label": "b"}])
        {'macro_f1': 1.0}
    """

    inputs = "label"
    interval = "proportion"
    higher_is_better = {"macro_f1": True}

    def __init__(self, *, field: str = "label"):
        super().__init__()
        self.field = field

    def compute(self, predictions: Sequence[Any], references: Sequence[dict[str, str]]) -> dict[str, float]:
        correct, sums = self._tally(*self._codes(predictions, references))
        return self.from_statistics(np.concatenate([correct, sums]))

    def statistics(self, predictions: Sequence[Any], references: Sequence[dict[str, str]]) -> np.ndarray:
        """N x 2C: for each of C classes, whether it is predicted correctly, and how often it is prediction or label."""
        predicted, gold, classes = self._codes(predictions, references)
        each = np.eye(classes, dtype=np.float32)
        return np.concatenate([each[gold] * (predicted == gold)[:, None], each[predicted] + each[gold]], axis=1)

    def from_statistics(self, sums: np.ndarray) -> dict[str, float]:
        """The mean over the classes that occur, from the summed statistics."""
        correct_C, sums_C = np.asarray(sums, np.float64).reshape(2, -1)
        return {"macro_f1": float((2 * correct_C[sums_C > 0] / sums_C[sums_C > 0]).mean())}

    def _codes(self, predictions: Sequence[Any], references: Sequence[dict[str, str]]) -> tuple[np.ndarray, np.ndarray, int]:
        """Predicted and gold classes as indices, and the number of classes."""
        labels = reference_column(predictions, references, self.field)
        classes, codes = np.unique([*map(str, predictions), *map(str, labels)], return_inverse=True)
        return codes[: len(labels)], codes[len(labels) :], len(classes)

    @staticmethod
    def _tally(predicted: np.ndarray, gold: np.ndarray, classes: int) -> tuple[np.ndarray, np.ndarray]:
        correct = np.bincount(gold[predicted == gold], minlength=classes)
        return correct, np.bincount(predicted, minlength=classes) + np.bincount(gold, minlength=classes)
