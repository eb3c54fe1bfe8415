"""F1 of every class, averaged."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from weft.catalog import block
from weft.evaluate.reference import against
from weft.slots import Metric


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

    wants = "label"

    def __init__(self, *, field: str = "label"):
        super().__init__()
        self.field = field

    def compute(self, predictions: Sequence[Any], references: Sequence[dict[str, str]]) -> dict[str, float]:
        labels = against(predictions, references, self.field)
        classes, codes = np.unique([*map(str, predictions), *map(str, labels)], return_inverse=True)
        predicted, right = codes[: len(labels)], codes[len(labels) :]
        hits = np.bincount(right[predicted == right], minlength=len(classes))
        # Every class is in one of the two, so no sum is 0.
        sums = np.bincount(predicted, minlength=len(classes)) + np.bincount(right, minlength=len(classes))
        return {"macro_f1": float((2 * hits / sums).mean())}
