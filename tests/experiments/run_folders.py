"""Run folders as training leaves them, written without training."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from weft.core.io import append_line, write_json
from weft.recipe import to_yaml
from weft.training.run_folder import FORMAT

RECIPE: dict[str, Any] = {
    "format": 1,
    "seed": 1,
    "data": {"type": "dates", "train": 60},
    "structure": {"type": "seq2seq", "dim": 8},
    "objective": {"type": "next-token"},
    "learning": {"type": "gradient", "steps": 4, "optimizer": {"type": "adam", "lr": 0.1}},
    "evaluate": {"type": "evaluation", "every": 2, "metrics": [{"type": "exact-match", "field": "target", "group_by": None}]},
}


def write_run(folder: Path, changes: dict[str, Any] | None = None, metric_values: dict[str, Any] | None = None) -> Path:
    """Write a run folder with some options changed."""
    recipe = json.loads(json.dumps(RECIPE))
    for path, value in (changes or {}).items():
        *parents, last = path.split(".")
        node = recipe
        for key in parents:
            node = node[key]
        node[last] = value
    folder.mkdir(parents=True)
    (folder / "recipe.yaml").write_text("# head\n" + to_yaml(recipe))
    if metric_values is not None:
        directions = {"higher_is_better": {"loss": False, "exact_match": True, "exact_match/x": True}}
        write_json(folder / "metrics.json", {"format": FORMAT, "split": "test", **directions, **metric_values})
    for row in log():
        append_line(folder / "log.jsonl", row)
    return folder


def write_pair(folder: Path) -> list[Path]:
    """Write two finished runs ``a`` and ``b`` that differ in seed and optimizer."""
    return [
        write_run(folder / "a", metric_values={"loss": 2.0, "exact_match": 0.5, "exact_match/x": 0.1, "valid": {"loss": 1.0}}),
        write_run(
            folder / "b",
            {"seed": 2, "learning.optimizer": {"type": "sgd", "lr": 0.1}},
            {"loss": 3.0, "exact_match": 0.75, "exact_match/x": 0.1, "valid": {"loss": 1.0}},
        ),
    ]


def log(speed: float = 100.0) -> list[dict[str, Any]]:
    """A log of four updates and two evaluations."""
    rows: list[dict[str, Any]] = [{"event": "begun"}, {"event": "saving", "stage": 0, "step": 0}]
    for i in range(1, 5):
        rows.append({"event": "train", "stage": 0, "step": i, "loss": 4 / i, "tokens": 6000 * i, "tokens_per_second": speed})
        if i % 2 == 0:
            rows.append({"event": "valid", "stage": 0, "step": i, "valid": {"loss": 2 / i, "bleu": 10.0 * i, "bleu/x": 1.0}})
    return rows


def write_predictions(folder: Path, predictions: list[str], targets: list[str]) -> None:
    """Write the predictions.jsonl of a run."""
    lines = [
        {"row": i, "prediction": p, "reference": {"source": str(i), "target": t}}
        for i, (p, t) in enumerate(zip(predictions, targets, strict=True))
    ]
    (folder / "predictions.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
