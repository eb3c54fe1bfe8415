"""F1 of spans written as tags."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np

from weft.core.contracts import Metric
from weft.core.fields import Info
from weft.core.registry import block
from weft.data.tag_schemes import Scheme, Span, entities
from weft.evaluate.reference import against, f1


@block("entity-f1")
class EntityF1(Metric):
    """The harmonic mean of precision and recall of whole spans: type, first and last word must all be right.

    precision = right spans / predicted spans; recall = right spans / spans of the reference;
    entity_f1 = 2 precision recall / (precision + recall), over all rows; also for each type (entity_f1/<type>)

    Tjong Kim Sang & De Meulder 2003, https://arxiv.org/abs/cs/0306050; equal to seqeval (Nakayama 2018).
    A prediction and its reference are the tags of a row joined by spaces.

    Args:
        field: Column of the raw row with the tags.
        strict: The scheme whose rules a span must keep to count; none: tags of any scheme, read leniently.

    Example:
        >>> EntityF1().compute(["B-PER I-PER O"], [{"tags": "B-PER I-PER B-LOC"}])["entity_recall"]
        0.5
    """

    inputs = "text"
    higher_is_better = {"entity_f1": True, "entity_precision": True, "entity_recall": True}

    def __init__(self, *, field: str = "tags", strict: Scheme | None = None):
        super().__init__()
        self.field = field
        self.strict: Scheme | None = strict

    def check(self, info: Info) -> None:
        try:
            for tag in info[self.field].labels:
                entities([tag])
        except ValueError as error:
            raise ValueError(
                f"the metric entity-f1 compares entities (B-PER, I-PER, O), but in the data ({info.data}) {error}: "
                "set the data's scheme, or take another metric"
            ) from None

    def compute(self, predictions: Sequence[Any], references: Sequence[dict[str, str]]) -> dict[str, float]:
        rows = self._spans(predictions, references)
        predicted = Counter(kind for found, _ in rows for kind, _, _ in found)
        right = Counter(kind for _, there in rows for kind, _, _ in there)
        hits = Counter(kind for found, there in rows for kind, _, _ in found & there)
        kinds = sorted(predicted.keys() | right.keys())
        metric_values = self.from_statistics(np.array([hits.total(), predicted.total(), right.total()]))
        return metric_values | {f"entity_f1/{kind}": f1(hits[kind], predicted[kind], right[kind]) for kind in kinds}

    def statistics(self, predictions: Sequence[Any], references: Sequence[dict[str, str]]) -> np.ndarray:
        """N x 3: spans that are right, predicted, in the reference."""
        rows = self._spans(predictions, references)
        return np.array([(len(found & there), len(found), len(there)) for found, there in rows], np.float64)

    def from_statistics(self, sums: np.ndarray) -> dict[str, float]:
        """The figures of all types together."""
        hits, predicted, right = map(float, sums)
        return {
            "entity_f1": f1(hits, predicted, right),
            "entity_precision": hits / predicted if predicted else 0.0,
            "entity_recall": hits / right if right else 0.0,
        }

    def _spans(self, predictions: Sequence[Any], references: Sequence[dict[str, str]]) -> list[tuple[set[Span], set[Span]]]:
        """Predicted spans and those of the reference, for each row."""
        pairs: list[tuple[set[Span], set[Span]]] = []
        for row, (guess, truth) in enumerate(zip(predictions, against(predictions, references, self.field), strict=True)):
            found, there = str(guess).split(), str(truth).split()
            if len(found) != len(there):
                raise ValueError(f"row {row} has {len(there)} tags in {self.field!r}, but {len(found)} were predicted")
            try:
                pairs.append((set(entities(found, self.strict)), set(entities(there, self.strict))))
            except ValueError as error:
                raise ValueError(f"row {row}: {error}") from None
        return pairs
