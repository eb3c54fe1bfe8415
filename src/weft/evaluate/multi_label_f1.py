"""F1 of multi-label classification."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from weft.core.contracts import Metric
from weft.core.registry import block
from weft.evaluate.reference import f1, reference_column


@block("multi-label-f1")
class MultiLabelF1(Metric):
    """Micro- and macro-averaged F1 of multi-label classification.

    micro = 2 sum_c tp_c / sum_c (2 tp_c + fp_c + fn_c); macro = mean_c 2 tp_c / (2 tp_c + fp_c + fn_c),
    over the labels c that occur in predictions or gold labels

    Args:
        field: Column of the gold labels.
        separator: Separator of labels; a tab in the data of weft. An empty text is the empty set.

    Example:
        >>> MultiLabelF1().compute(["a\\tb", ""], [{"label": "a"}, {"label": "b"}])
        {'multi_label_micro_f1': 0.5, 'multi_label_macro_f1': 0.5}
    """

    inputs = "label"
    interval = "ratio"
    higher_is_better = {"multi_label_micro_f1": True, "multi_label_macro_f1": True}

    def __init__(self, *, field: str = "label", separator: str = "\t"):
        super().__init__()
        if not separator:
            raise ValueError("separator is empty; pass the separator of labels, such as a tab")
        self.field, self.separator = field, separator

    def compute(self, predictions: Sequence[Any], references: Sequence[dict[str, str]]) -> dict[str, float]:
        return self.from_statistics(self.statistics(predictions, references).sum(axis=0))

    def statistics(self, predictions: Sequence[Any], references: Sequence[dict[str, str]]) -> np.ndarray:
        """N x 3C: for each of C labels, whether it is predicted correctly, is predicted, and is a gold label."""
        gold = [self._set(text) for text in reference_column(predictions, references, self.field)]
        predicted = [self._set(text) for text in predictions]
        code = {label: at for at, label in enumerate(sorted(set().union(*gold, *predicted)))}
        counts_N3C = np.zeros((len(gold), 3, len(code)), np.float32)
        for row, (guess, truth) in enumerate(zip(predicted, gold, strict=True)):
            for part, labels in enumerate((guess & truth, guess, truth)):
                counts_N3C[row, part, [code[label] for label in labels]] = 1
        return counts_N3C.reshape(len(gold), -1)

    def from_statistics(self, sums: np.ndarray) -> dict[str, float]:
        """Both averages from the summed statistics, over the labels that occur."""
        correct_C, predicted_C, gold_C = np.asarray(sums, np.float64).reshape(3, -1)
        occurs_C = predicted_C + gold_C > 0
        each = 2 * correct_C[occurs_C] / (predicted_C + gold_C)[occurs_C]
        return {
            "multi_label_micro_f1": f1(correct_C.sum(), predicted_C.sum(), gold_C.sum()),
            "multi_label_macro_f1": float(each.mean()) if len(each) else 0.0,
        }

    def _set(self, text: Any) -> set[str]:
        return {part.strip() for part in str(text).split(self.separator)} - {""}
