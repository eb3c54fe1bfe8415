"""What a prediction is compared with."""

from __future__ import annotations

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
