"""References of predictions, and helpers of several metrics."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from weft.core.plain_number import plain_number

NO_EXAMPLES = "got no examples to evaluate; choose a split that has some"


def column(references: Sequence[dict[str, str]], name: str) -> list[str]:
    """Return one column of the examples."""
    for row, reference in enumerate(references):
        if name not in reference:
            raise ValueError(f"example {row} has no column {name!r}; its columns are: {', '.join(reference) or 'none'}")
    return [reference[name] for reference in references]


def reference_column(predictions: Sequence[Any], references: Sequence[dict[str, str]], field: str) -> list[str]:
    """Return the reference of each prediction: one column of the examples."""
    if len(predictions) != len(references):
        raise ValueError(f"got {len(predictions)} predictions for {len(references)} examples")
    if not references:
        raise ValueError(NO_EXAMPLES)
    return column(references, field)


def parse_number(text: Any, what: str, row: int) -> float:
    """Return a prediction or a reference as a finite number; ``what`` and ``row`` are for the message."""
    try:
        value = plain_number(text) if isinstance(text, str) else float(text)
    except (TypeError, ValueError):
        value = math.nan
    if not math.isfinite(value):
        raise ValueError(f"the {what} of example {row} is {str(text)[:80]!r}; must be a finite number")
    return value


def f1(correct: float, predicted: float, gold: float) -> float:
    """F1: the harmonic mean of precision correct / predicted and recall correct / gold; 0 where both counts are 0."""
    return float(2 * correct / (predicted + gold)) if predicted + gold else 0.0
