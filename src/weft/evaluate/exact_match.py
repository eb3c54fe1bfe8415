"""Share of answers that are right to the letter."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from weft.core.contracts import Metric
from weft.core.registry import block
from weft.evaluate.reference import against, column


@block("exact-match")
class ExactMatch(Metric):
    """The share of predicted texts that equal the reference to the letter.

    exact_match = sum_i [prediction_i = reference_i] / n

    With ``by``, also the share within each group (``exact_match/<group>``) and that of the group where it is lowest
    (``exact_match_worst``): a good mean can hide a group that fails.

    Args:
        field: Column of the raw row with the reference.
        by: Column of the raw row to group by; none: no groups.

    Example:
        >>> rows = [{"target": "a", "kind": "x"}, {"target": "b", "kind": "y"}]
        >>> ExactMatch(by="kind").compute(["a", "c"], rows)
        {'exact_match': 0.5, 'exact_match/x': 1.0, 'exact_match/y': 0.0, 'exact_match_worst': 0.0}
    """

    inputs = "text"

    def __init__(self, *, field: str = "target", by: str | None = None):
        super().__init__()
        self.field, self.by = field, by
        self.higher_is_better = {"exact_match": True} | ({"exact_match_worst": True} if by else {})

    def compute(self, predictions: Sequence[Any], references: Sequence[dict[str, str]]) -> dict[str, float]:
        counts = self.statistics(predictions, references)
        metric_values = self.from_statistics(counts.sum(axis=0))
        if self.by is None:
            return metric_values
        groups: dict[str, list[float]] = {}
        for group, hit in zip(column(references, self.by), counts[:, 0].tolist(), strict=True):
            groups.setdefault(group, []).append(hit)
        shares = {f"exact_match/{group}": sum(hits) / len(hits) for group, hits in sorted(groups.items())}
        return {**metric_values, **shares, "exact_match_worst": min(shares.values())}

    def statistics(self, predictions: Sequence[Any], references: Sequence[dict[str, str]]) -> np.ndarray:
        """N x 2: whether the text is right, and 1."""
        texts = against(predictions, references, self.field)
        return np.array([(p == r, 1) for p, r in zip(predictions, texts, strict=True)], np.float64)

    def from_statistics(self, sums: np.ndarray) -> dict[str, float]:
        """The share over all groups."""
        return {"exact_match": float(sums[0] / sums[1])}
