"""F1 of every class, averaged."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from weft.core.contracts import Metric
from weft.core.registry import block
from weft.evaluate.reference import against


@block("macro-f1")
class MacroF1(Metric):
    """The mean over the classes of the harmonic mean of precision and recall: rare classes count as much as frequent ones.

    macro_f1 = mean_c 2 tp_c / (2 tp_c + fp_c + fn_c), over the classes that were predicted or are right somewhere

    Args:
        field: Column of the raw row with the label.

    Example:
        >>> MacroF1().compute(["a", "a", "b"], [{"label": "a"}, {"label": "a"}, {"label": "b"}])
        {'macro_f1': 1.0}
    """

    inputs = "label"
    higher_is_better = {"macro_f1": True}

    def __init__(self, *, field: str = "label"):
        super().__init__()
        self.field = field

    def compute(self, predictions: Sequence[Any], references: Sequence[dict[str, str]]) -> dict[str, float]:
        hits, sums = self._tally(*self._codes(predictions, references))
        return self.from_statistics(np.concatenate([hits, sums]))

    def statistics(self, predictions: Sequence[Any], references: Sequence[dict[str, str]]) -> np.ndarray:
        """N x 2C: whether each of the C classes was predicted and is right, and in how many of the two it is."""
        predicted, right, classes = self._codes(predictions, references)
        each = np.eye(classes, dtype=np.float32)
        return np.concatenate([each[right] * (predicted == right)[:, None], each[predicted] + each[right]], axis=1)

    def from_statistics(self, sums: np.ndarray) -> dict[str, float]:
        """The mean over the classes that are there."""
        hits_C, sums_C = np.asarray(sums, np.float64).reshape(2, -1)
        return {"macro_f1": float((2 * hits_C[sums_C > 0] / sums_C[sums_C > 0]).mean())}

    def _codes(self, predictions: Sequence[Any], references: Sequence[dict[str, str]]) -> tuple[np.ndarray, np.ndarray, int]:
        """Predicted and right classes as numbers, and how many classes there are."""
        labels = against(predictions, references, self.field)
        classes, codes = np.unique([*map(str, predictions), *map(str, labels)], return_inverse=True)
        return codes[: len(labels)], codes[len(labels) :], len(classes)

    @staticmethod
    def _tally(predicted: np.ndarray, right: np.ndarray, classes: int) -> tuple[np.ndarray, np.ndarray]:
        hits = np.bincount(right[predicted == right], minlength=classes)
        return hits, np.bincount(predicted, minlength=classes) + np.bincount(right, minlength=classes)
