"""Accuracy of tags."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from weft.core.contracts import Metric
from weft.core.registry import block
from weft.evaluate.reference import reference_column


@block("tag-accuracy")
class TagAccuracy(Metric):
    """Token-level accuracy of tags, as for part-of-speech tagging.

    tag_accuracy = sum_i sum_t [prediction_it = tag_it] / sum_i n_i, over the n_i words of example i

    Args:
        field: Column of the gold tags.

    Example:
        >>> TagAccuracy().compute(["DET NOUN", "VERB"], [{"tags": "DET VERB"}, {"tags": "VERB"}])
        {'tag_accuracy': 0.6666666666666666}
    """

    higher_is_better = {"tag_accuracy": True}
    interval = "ratio"

    def __init__(self, *, field: str = "tags"):
        super().__init__()
        self.field = field

    def compute(self, predictions: Sequence[Any], references: Sequence[dict[str, str]]) -> dict[str, float]:
        return self.from_statistics(self.statistics(predictions, references).sum(axis=0))

    def statistics(self, predictions: Sequence[Any], references: Sequence[dict[str, str]]) -> np.ndarray:
        """N x 2: words with a correct tag, and all words."""
        found: list[tuple[int, int]] = []
        for row, (guess, truth) in enumerate(
            zip(predictions, reference_column(predictions, references, self.field), strict=True)
        ):
            guessed, gold = str(guess).split(), truth.split()
            if len(guessed) != len(gold):
                raise ValueError(f"example {row} has {len(gold)} tags in {self.field!r}, but {len(guessed)} predicted tags")
            found.append((sum(a == b for a, b in zip(guessed, gold, strict=True)), len(gold)))
        return np.array(found, np.float64)

    def from_statistics(self, sums: np.ndarray) -> dict[str, float]:
        """Accuracy from the summed statistics."""
        return {"tag_accuracy": float(sums[0] / sums[1]) if sums[1] else 0.0}
