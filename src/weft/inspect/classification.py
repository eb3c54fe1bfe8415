"""Pictures of how a classifier does: confusion.png and reliability.png."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from weft.evaluate.subsample import evenly
from weft.inspect.confusion import confusion
from weft.inspect.reliability import reliability

if TYPE_CHECKING:
    from weft.evaluate import EvaluationResult
    from weft.inference.trained_run import TrainedRun


MOST = 1000
"""Rows whose probabilities are asked for once more, from all of them."""


def has_classes(run: TrainedRun, judged: EvaluationResult) -> bool:
    """Whether classes were predicted, and not texts of data that also has classes."""
    label = run.codec.info.fields.get("label")
    predicted = set(judged.predictions.values())
    return label is not None and label.kind == "label" and bool(predicted) and predicted <= set(label.labels)


def draw_classes(run: TrainedRun, judged: EvaluationResult, folder: Path) -> str | None:
    """For classifiers: which classes are confused, and whether probabilities can be trusted. Returns what was in the way."""
    if not has_classes(run, judged):
        return None
    rows = sorted(judged.predictions)
    asked = evenly(rows, MOST)
    fields = [f.name for f in run.codec.info.tokenized() or run.codec.info.images()]
    right = [judged.references[row]["label"] for row in rows]
    shares = run.predictions([{name: judged.references[row][name] for name in fields} for row in asked])
    best = [max(answer.probabilities.values(), default=0.0) for answer in shares]
    try:
        confusion(right, [judged.predictions[row] for row in rows], folder / "confusion.png")
        if any(best):
            hits = [judged.predictions[row] == judged.references[row]["label"] for row in asked]
            reliability(best, hits, folder / "reliability.png")
    except ValueError as missing:
        return f"no pictures of the classes: {missing}"
    return None
