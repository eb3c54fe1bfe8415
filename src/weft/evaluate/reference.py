"""What a prediction is compared with."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any


def column(references: Sequence[dict[str, str]], name: str) -> list[str]:
    """One column of the raw rows."""
    for row, reference in enumerate(references):
        if name not in reference:
            raise ValueError(f"row {row} has no column {name!r} (it has: {', '.join(reference) or 'none'})")
    return [reference[name] for reference in references]


def against(predictions: Sequence[Any], references: Sequence[dict[str, str]], field: str) -> list[str]:
    """The references of the predictions, one each."""
    if len(predictions) != len(references):
        raise ValueError(f"{len(predictions)} predictions for {len(references)} rows")
    if not references:
        raise ValueError("there are no rows to evaluate: give the data a split that has some")
    return column(references, field)


def number(text: Any, what: str, row: int) -> float:
    """A prediction or a reference that must be a number."""
    try:
        value = float(text)
    except (TypeError, ValueError):
        value = math.nan
    if not math.isfinite(value):
        raise ValueError(f"the {what} of row {row} is {str(text)[:80]!r}, but must be a finite number")
    return value


def f1(hits: float, predicted: float, right: float) -> float:
    """The harmonic mean of precision hits / predicted and recall hits / right; 0 where there is nothing to find or found."""
    return float(2 * hits / (predicted + right)) if predicted + right else 0.0
