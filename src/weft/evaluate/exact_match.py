"""Exact match of texts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from weft.core.contracts import Metric
from weft.core.registry import block
from weft.evaluate.reference import column, reference_column


@block("exact-match")
class ExactMatch(Metric):
    """Fraction of predicted texts that equal the reference exactly.

    exact_match = sum_i [prediction_i = reference_i] / n

    With ``group_by``, also the exact match of each group (``exact_match/<group>``) and of the worst one
    (``exact_match_worst_group``), which a good average does not show.

    Args:
        field: Column of the reference.
        group_by: Column to group the examples by; None = no groups.

    Example:
        >>> rows = [{"target": "a", "kind": "x"}, {"target": "b", "kind": "y"}]
        >>> ExactMatch(group_by="kind").compute(["a", "c"], rows)
        {'exact_match': 0.5, 'exact_match/x': 1.0, 'exact_match/y': 0.0, 'exact_match_worst_group': 0.0}
    """

    inputs = "text"
    interval = "proportion"

    def __init__(self, *, field: str = "target", group_by: str | None = None):
        super().__init__()
        self.field, self.group_by = field, group_by
        self.higher_is_better = {"exact_match": True} | ({"exact_match_worst_group": True} if group_by else {})

    def compute(self, predictions: Sequence[Any], references: Sequence[dict[str, str]]) -> dict[str, float]:
        counts = self.statistics(predictions, references)
        metric_values = self.from_statistics(counts.sum(axis=0))
        if self.group_by is None:
            return metric_values
        groups: dict[str, list[float]] = {}
        for group, hit in zip(column(references, self.group_by), counts[:, 0].tolist(), strict=True):
            groups.setdefault(group, []).append(hit)
        by_group = {f"exact_match/{group}": sum(hits) / len(hits) for group, hits in sorted(groups.items())}
        return {**metric_values, **by_group, "exact_match_worst_group": min(by_group.values())}

    def statistics(self, predictions: Sequence[Any], references: Sequence[dict[str, str]]) -> np.ndarray:
        """N x 2: whether the text equals the reference, and 1."""
        texts = reference_column(predictions, references, self.field)
        return np.array([(p == r, 1) for p, r in zip(predictions, texts, strict=True)], np.float64)

    def from_statistics(self, sums: np.ndarray) -> dict[str, float]:
        """Exact match over all groups from the summed statistics."""
        return {"exact_match": float(sums[0] / sums[1])}
