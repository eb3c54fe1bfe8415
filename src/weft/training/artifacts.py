"""Files written when training ends: metrics.json, predictions.jsonl, ledger.json, curve.png, plots of a classifier."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from weft.core.contracts import Metric
from weft.core.io import finite, write_json
from weft.evaluate import EvaluationResult
from weft.inference.trained_run import TrainedRun
from weft.inspect.classification_plots import plot_classification, predicts_classes
from weft.learning import Progress
from weft.training.display import Display
from weft.training.run_folder import FORMAT, RunFolder


def write_metrics(
    folder: RunFolder, results: Mapping[str, EvaluationResult], metrics: Sequence[Metric], display: Display
) -> EvaluationResult:
    """Write metrics.json and predictions.jsonl. Returns the evaluation on the test split; without one, that on valid.

    Args:
        folder: Folder of the run.
        results: Evaluations by split: test, valid or both.
        metrics: Metrics that confidence intervals are computed for.
        display: Progress display.
    """
    split = "test" if "test" in results else "valid"
    result = replace(results[split], split=split) if split in results else EvaluationResult({})
    valid = {"valid": results["valid"].metric_values} if split == "test" and "valid" in results else {}
    with display.waiting("computing confidence intervals"):
        details = {name: value for name, value in result.details(metrics).items() if value}
    write_json(folder.metrics, finite({"format": FORMAT, "split": split, **result.metric_values, **valid, **details}))
    for source, found in (result.parts or {"": result}).items():
        folder.write_predictions(found.predictions, found.references, source)
    return result


def write_ledger(folder: RunFolder, read: Mapping[str, Any], stages: Mapping[str, Progress]) -> None:
    """Write ledger.json: what was read, what was padding, and what was skipped, in all sessions of the run.

    Args:
        folder: Folder of the run.
        read: Counts of the data.
        stages: Progress of each stage at its end.
    """
    counts: dict[str, Counter[str]] = {}
    for progress in stages.values():
        for name, found in progress.counts.items():
            counts.setdefault(name, Counter()).update(found)
    padding = {name: 1 - found["real"] / found["total"] for name, found in counts.items() if found["total"]}
    skipped = {name: found["skipped"] for name, found in counts.items()}
    ledger = {"format": FORMAT, **read, "padding_share": padding, "nothing_to_learn": skipped}

    def rows(of: Callable[[Progress], Mapping[str, list[int]]]) -> dict[str, list[int]]:
        """Row numbers by split; with several stages, whose data may differ, by stage and split."""
        prefixes = {stage: f"{stage}/" if len(stages) > 1 else "" for stage in stages}
        return {prefixes[stage] + split: found for stage, progress in stages.items() for split, found in of(progress).items()}

    bad = {"skipped_rows": rows(lambda progress: progress.skipped), "left_out": rows(lambda progress: progress.left_out)}
    write_json(folder.ledger, ledger | {"skipped_updates": sum(progress.skips for progress in stages.values())} | bad)


def draw_curve(folder: RunFolder, display: Display) -> None:
    """Plot curve.png: training loss and validation metrics over all stages."""
    from weft.inspect.learning_curve import plot_learning_curve

    try:
        plot_learning_curve(_points(folder.read_log()), folder.curve, title=folder.path.name)
    except ValueError as missing:
        display.message(f"no curve.png: {missing}")


def draw_classifier_plots(trained: TrainedRun, folder: RunFolder, display: Display) -> None:
    """Plot confusion.png and reliability.png for a classifier."""
    if not predicts_classes(trained, trained.result):
        return
    with display.waiting("computing class probabilities"):
        problem = plot_classification(trained, trained.result, folder.path)
    if problem:
        display.message(problem)


def _points(log: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return log entries on one axis: steps counted over all stages, and the sum of the losses of several phases."""
    points: list[dict[str, Any]] = []
    offsets: dict[int, int] = {0: 0}
    last = 0
    for row in log:
        if row.get("event") not in ("train", "valid"):
            continue
        offset = offsets.setdefault(row.get("stage", 0), last)
        last = max(last, offset + row["step"])
        losses = [v for k, v in row.items() if k == "loss" or k.endswith("/loss")]
        points.append({"step": offset + row["step"], **({"loss": sum(losses)} if losses else {}), "valid": row.get("valid")})
    return points
