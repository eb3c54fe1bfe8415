"""Comparison of a trained model with a constant prediction: the most frequent class, or the mean."""

from __future__ import annotations

import statistics
from collections import Counter

from weft.evaluate import EvaluationResult

_ADVICE = "the model has learned nothing from its inputs; try another learning rate or more epochs, and inspect the data"


def constant_remarks(result: EvaluationResult) -> list[str]:
    """Return the warnings of ``no_better_than_constant`` about a result, or about each of its parts."""
    found = {part: no_better_than_constant(own) for part, own in result.parts.items()} or {"": no_better_than_constant(result)}
    return [f"{part}: {remark}" if part else remark for part, remarks in found.items() for remark in remarks]


def no_better_than_constant(result: EvaluationResult) -> list[str]:
    """Return a warning if a classifier or a regression model is no better than the best constant prediction, else an empty list.

    Args:
        result: An evaluation with predictions.

    Example:
        >>> labels = ["good", "good", "bad"]
        >>> references = {i: {"label": label} for i, label in enumerate(labels)}
        >>> guesses = EvaluationResult({"accuracy": 1 / 3}, {0: "bad", 1: "bad", 2: "bad"}, references)
        >>> no_better_than_constant(guesses)[0].partition(":")[0]
        "accuracy 0.3333 is not above that of always predicting 'good' (0.6667)"
    """
    labels = [row.get("label", "") for row in result.references.values()]
    counts = Counter(labels)
    if len(counts) < 2:
        return []
    if "accuracy" in result.metric_values:
        label, count = counts.most_common(1)[0]
        value, constant = result.metric_values["accuracy"], count / len(labels)
        if value > constant:
            return []
        return [f"accuracy {value:.4f} is not above that of always predicting {label[:40]!r} ({constant:.4f}): {_ADVICE}"]
    if "pearson" in result.metric_values:
        targets = [float(label) for label in labels]
        errors = [(float(result.predictions[i]) - y) ** 2 for i, y in zip(result.references, targets, strict=True)]
        value, constant = statistics.fmean(errors), statistics.pvariance(targets)
        if value < constant:
            return []
        return [f"the mean squared error {value:.4g} is not below that of always predicting the mean ({constant:.4g}): {_ADVICE}"]
    return []
