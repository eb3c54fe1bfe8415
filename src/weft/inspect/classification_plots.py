"""Plots of a classifier's evaluation: confusion.png and reliability.png; of a named source, confusion-NAME.png and so on."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from weft.core.fields import LabelField
from weft.evaluate.subsample import subsample
from weft.inspect.confusion_matrix import plot_confusion_matrix
from weft.inspect.reliability_diagram import plot_reliability_diagram

if TYPE_CHECKING:
    from weft.evaluate import EvaluationResult
    from weft.inference.trained_run import TrainedRun


MAX_EXAMPLES = 1000
"""Maximum number of examples whose class probabilities are computed, spread over the split."""


def predicts_classes(run: TrainedRun, result: EvaluationResult) -> bool:
    """Whether the predictions are classes, and not texts of a dataset that has labels too."""
    label = run.codec.info.fields.get("label")
    predicted = set(result.predictions.values())
    return isinstance(label, LabelField) and bool(predicted) and predicted <= set(label.labels)


def plot_classification(run: TrainedRun, result: EvaluationResult, folder: Path) -> str | None:
    """Plot the confusion matrix and the reliability diagram of a classifier into a folder; return a message if that failed.

    Args:
        run: The trained run.
        result: Its evaluation; without class predictions nothing is plotted.
        folder: The folder of the PNG files.
    """
    if not predicts_classes(run, result):
        return None
    rows = sorted(result.predictions)
    sampled = subsample(rows, MAX_EXAMPLES)
    confusion, reliability = (folder / f"{kind}{f'-{run.part}' if run.part else ''}.png" for kind in ("confusion", "reliability"))
    fields = [f.name for f in run.codec.info.given()]
    labels = [result.references[row]["label"] for row in rows]
    predictions = run.predictions([{name: result.references[row][name] for name in fields} for row in sampled])
    confidence = [max(prediction.probabilities.values(), default=0.0) for prediction in predictions]
    try:
        plot_confusion_matrix(labels, [result.predictions[row] for row in rows], confusion)
        if any(confidence):
            correct = [result.predictions[row] == result.references[row]["label"] for row in sampled]
            plot_reliability_diagram(confidence, correct, reliability)
    except ValueError as error:
        return f"no {confusion.name} and {reliability.name}: {error}"
    return None
