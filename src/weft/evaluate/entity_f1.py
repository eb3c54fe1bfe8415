"""F1 of entities in tagged texts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np

from weft.core.contracts import Metric
from weft.core.fields import ClassField, Info
from weft.core.registry import block
from weft.data.tag_schemes import Scheme, Span, entities
from weft.evaluate.reference import f1, reference_column


@block("entity-f1")
class EntityF1(Metric):
    """Micro-averaged F1 of entities: type, first and last word must all match (CoNLL evaluation).

    precision = correct spans / predicted spans; recall = correct spans / gold spans;
    entity_f1 = 2 precision recall / (precision + recall), over all examples; also for each type (entity_f1/<type>)

    Tjong Kim Sang & De Meulder 2003, https://arxiv.org/abs/cs/0306050; equal to seqeval (Nakayama 2018).
    Predictions and references are tags separated by spaces.

    Args:
        field: Column of the gold tags.
        strict: Tagging scheme that spans must follow to count; None = lenient, tags of any scheme.
        generated: Whether the tags are generated text: missing tags and other words count as O, surplus ones are ignored.

    Example:
        >>> EntityF1().compute(["B-PER I-PER O"], [{"tags": "B-PER I-PER B-LOC"}])["entity_recall"]
        0.5
    """

    inputs = "text"
    interval = "ratio"
    higher_is_better = {"entity_f1": True, "entity_precision": True, "entity_recall": True}

    def __init__(self, *, field: str = "tags", strict: Scheme | None = None, generated: bool = False):
        super().__init__()
        self.field, self.generated = field, generated
        self.strict: Scheme | None = strict

    def check(self, info: Info) -> None:
        if self.generated:
            return  # the tags are text
        try:
            for tag in info.expect(self.field, ClassField).labels:
                entities([tag])
        except ValueError as error:
            raise ValueError(
                f"the metric entity-f1 needs entity tags such as B-PER, I-PER and O, but in the data ({info.data}) {error}; "
                "set the scheme of the data, or choose another metric"
            ) from None

    def compute(self, predictions: Sequence[Any], references: Sequence[dict[str, str]]) -> dict[str, float]:
        rows = self._spans(predictions, references)
        predicted = Counter(type_ for found, _ in rows for type_, _, _ in found)
        gold = Counter(type_ for _, expected in rows for type_, _, _ in expected)
        correct = Counter(type_ for found, expected in rows for type_, _, _ in found & expected)
        types = sorted(predicted.keys() | gold.keys())
        metric_values = self.from_statistics(np.array([correct.total(), predicted.total(), gold.total()]))
        return metric_values | {f"entity_f1/{type_}": f1(correct[type_], predicted[type_], gold[type_]) for type_ in types}

    def statistics(self, predictions: Sequence[Any], references: Sequence[dict[str, str]]) -> np.ndarray:
        """N x 3: correct, predicted and gold spans."""
        rows = self._spans(predictions, references)
        return np.array([(len(found & expected), len(found), len(expected)) for found, expected in rows], np.float64)

    def from_statistics(self, sums: np.ndarray) -> dict[str, float]:
        """F1, precision and recall over all types from the summed statistics."""
        correct, predicted, gold = map(float, sums)
        return {
            "entity_f1": f1(correct, predicted, gold),
            "entity_precision": correct / predicted if predicted else 0.0,
            "entity_recall": correct / gold if gold else 0.0,
        }

    def _spans(self, predictions: Sequence[Any], references: Sequence[dict[str, str]]) -> list[tuple[set[Span], set[Span]]]:
        """Predicted and gold spans of each example."""
        pairs: list[tuple[set[Span], set[Span]]] = []
        for row, (guess, truth) in enumerate(
            zip(predictions, reference_column(predictions, references, self.field), strict=True)
        ):
            found, expected = str(guess).split(), str(truth).split()
            if self.generated:
                found = [tag if _is_tag(tag) else "O" for tag in [*found, *["O"] * len(expected)][: len(expected)]]
            if len(found) != len(expected):
                raise ValueError(f"example {row} has {len(expected)} tags in {self.field!r}, but {len(found)} predicted tags")
            try:
                pairs.append((set(entities(found, self.strict)), set(entities(expected, self.strict))))
            except ValueError as error:
                raise ValueError(f"example {row}: {error}") from None
        return pairs


def _is_tag(tag: str) -> bool:
    try:
        entities([tag])
    except ValueError:
        return False
    return True
