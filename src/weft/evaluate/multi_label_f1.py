"""F1 where a row has a set of labels."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from weft.core.contracts import Metric
from weft.core.registry import block
from weft.evaluate.reference import against, f1


@block("multi-label-f1")
class MultiLabelF1(Metric):
    """F1 for rows with any number of labels: over all decisions (micro), and the mean of the F1 of each label (macro).

    micro = 2 sum_c tp_c / sum_c (2 tp_c + fp_c + fn_c); macro = mean_c 2 tp_c / (2 tp_c + fp_c + fn_c),
    over the labels c that were predicted or are right somewhere

    Args:
        field: Column of the raw row with the labels.
        separator: What stands between two labels (data has a tab there). An empty text is the empty set.

    Example:
        >>> MultiLabelF1().compute(["a\\tb", ""], [{"label": "a"}, {"label": "b"}])
        {'multi_label_micro_f1': 0.5, 'multi_label_macro_f1': 0.5}
    """

    inputs = "label"
    higher_is_better = {"multi_label_micro_f1": True, "multi_label_macro_f1": True}

    def __init__(self, *, field: str = "label", separator: str = "\t"):
        super().__init__()
        if not separator:
            raise ValueError("separator is empty: give the text that stands between two labels, such as a tab")
        self.field, self.separator = field, separator

    def compute(self, predictions: Sequence[Any], references: Sequence[dict[str, str]]) -> dict[str, float]:
        return self.from_statistics(self.statistics(predictions, references).sum(axis=0))

    def statistics(self, predictions: Sequence[Any], references: Sequence[dict[str, str]]) -> np.ndarray:
        """N x 3C: whether each of the C labels is both predicted and right, is predicted, is right."""
        right = [self._set(text) for text in against(predictions, references, self.field)]
        predicted = [self._set(text) for text in predictions]
        code = {label: at for at, label in enumerate(sorted(set().union(*right, *predicted)))}
        counts_N3C = np.zeros((len(right), 3, len(code)), np.float32)
        for row, (guess, truth) in enumerate(zip(predicted, right, strict=True)):
            for part, labels in enumerate((guess & truth, guess, truth)):
                counts_N3C[row, part, [code[label] for label in labels]] = 1
        return counts_N3C.reshape(len(right), -1)

    def from_statistics(self, sums: np.ndarray) -> dict[str, float]:
        """Both means. Labels that are nowhere do not count."""
        hits_C, predicted_C, right_C = np.asarray(sums, np.float64).reshape(3, -1)
        there = predicted_C + right_C > 0
        each = 2 * hits_C[there] / (predicted_C + right_C)[there]
        return {
            "multi_label_micro_f1": f1(hits_C.sum(), predicted_C.sum(), right_C.sum()),
            "multi_label_macro_f1": float(each.mean()) if len(each) else 0.0,
        }

    def _set(self, text: Any) -> set[str]:
        return {part.strip() for part in str(text).split(self.separator)} - {""}
