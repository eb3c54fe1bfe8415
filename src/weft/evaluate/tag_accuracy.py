"""Share of words whose tag is right."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from weft.core.contracts import Metric
from weft.core.registry import block
from weft.evaluate.reference import against


@block("tag-accuracy")
class TagAccuracy(Metric):
    """The share of words whose tag is right: for parts of speech, where every word has a tag.

    tag_accuracy = sum_i sum_t [prediction_it = tag_it] / sum_i n_i, over the n_i words of each row i

    Args:
        field: Column of the raw row with the tags.

    Example:
        >>> TagAccuracy().compute(["DET NOUN", "VERB"], [{"tags": "DET VERB"}, {"tags": "VERB"}])
        {'tag_accuracy': 0.6666666666666666}
    """

    higher_is_better = {"tag_accuracy": True}

    def __init__(self, *, field: str = "tags"):
        super().__init__()
        self.field = field

    def compute(self, predictions: Sequence[Any], references: Sequence[dict[str, str]]) -> dict[str, float]:
        return self.from_statistics(self.statistics(predictions, references).sum(axis=0))

    def statistics(self, predictions: Sequence[Any], references: Sequence[dict[str, str]]) -> np.ndarray:
        """N x 2: the words whose tag is right, and all."""
        found: list[tuple[int, int]] = []
        for row, (guess, truth) in enumerate(zip(predictions, against(predictions, references, self.field), strict=True)):
            guessed, right = str(guess).split(), truth.split()
            if len(guessed) != len(right):
                raise ValueError(f"row {row} has {len(right)} tags in {self.field!r}, but {len(guessed)} were predicted")
            found.append((sum(a == b for a, b in zip(guessed, right, strict=True)), len(right)))
        return np.array(found, np.float64)

    def from_statistics(self, sums: np.ndarray) -> dict[str, float]:
        """The share."""
        return {"tag_accuracy": float(sums[0] / sums[1]) if sums[1] else 0.0}
