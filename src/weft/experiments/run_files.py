"""A trained run as its files describe it: recipe, metrics and log."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from weft.evaluate.metrics_file import metric_directions, metric_values, read_metrics
from weft.recipe import RecipeError, parse, read_file
from weft.training.run_folder import RunFolder


class RunFiles:
    """Recipe, metrics and log of a run, read without its plug-ins or data.

    Args:
        path: The run folder.

    Attributes:
        tree: The filled recipe as nodes, and as plain values in ``recipe``.
        metric_values: By split and name; empty if the run is not finished.
        higher_is_better: The directions of the metrics that have one.
        log: The events of ``log.jsonl``.
        notes: What is missing.

    Raises ValueError if the folder is not a run folder.
    """

    def __init__(self, path: Path):
        folder = RunFolder(path)
        if not path.exists():
            raise ValueError(f"there is no folder {path}")
        if not path.is_dir() or not folder.is_run():
            raise ValueError(f"{path} is not a run folder: it has no recipe.yaml")
        self.path, self.notes = path, list[str]()
        root = parse(read_file(folder.recipe), str(folder.recipe))
        if root.problems:
            raise RecipeError(root.problems)
        self.tree, self.recipe = root, root.plain()
        self.metric_values: dict[str, float] = {}
        self.higher_is_better: dict[str, bool] = {}
        if folder.metrics.is_file():
            metrics = read_metrics(folder.metrics)
            self.metric_values = metric_values(metrics)
            self.higher_is_better = metric_directions(metrics)
        else:
            self.notes.append(f"not finished, metrics.json is missing; finish it with: weft train {path} --resume")
        self.log: list[dict[str, Any]] = []
        try:
            self.log = [row for row in folder.read_log() if isinstance(row, dict)]
        except ValueError as error:
            self.notes.append(f"no learning curves: {error}")


def distinct_names(paths: list[Path]) -> list[str]:
    """Return the names of the folders, with as many parent folders as are needed to distinguish them."""
    parts = [path.resolve().parts for path in paths]
    for length in range(1, max(map(len, parts)) + 1):
        names = ["/".join(p[-length:]).replace("//", "/") for p in parts]
        if len(set(names)) == len(names):
            return names
    return [str(path) for path in paths]
