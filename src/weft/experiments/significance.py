"""Paired significance tests between runs, from their ``predictions.jsonl``.

The file has one line for each example of the evaluated split:

    {"row": 0, "prediction": "1999-03-03", "reference": {"source": "3 March 1999", "target": "1999-03-03"}}
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations
from pathlib import Path
from typing import Any

from weft.core.contracts import Metric
from weft.core.io import read_lines
from weft.experiments.run_files import RunFiles
from weft.recipe import Node, RecipeError

PREDICTIONS = "predictions.jsonl"
_MAX_ALL_PAIRS = 5
"""More runs than this are tested only against the first."""


def paired_tests(names: Sequence[str], runs: Sequence[RunFiles]) -> tuple[list[dict[str, Any]], list[str]]:
    """Test pairs of runs that have predictions for the same examples.

    Args:
        names: The names of the runs.
        runs: The runs.

    Returns for each pair the names (``runs``) and the two-sided p-value by metric (``p``), and notes on untested runs.
    """
    predictions, notes = _read_all(names, runs)
    pairs = list(combinations(predictions, 2))
    if len(predictions) > _MAX_ALL_PAIRS:
        first = next(iter(predictions))
        pairs = [pair for pair in pairs if first in pair]
        notes.append(f"significance is tested only against {names[first]}: there are more than {_MAX_ALL_PAIRS} runs")
    found = []
    for i, j in pairs:
        try:
            p = _p_values(runs[i], runs[j], predictions[i], predictions[j])
            found.append({"runs": [names[i], names[j]], "p": p})
        except ValueError as error:
            notes.append(f"no significance test for {names[i]} and {names[j]}: {error}")
    return found, notes


def _read_all(names: Sequence[str], runs: Sequence[RunFiles]) -> tuple[dict[int, list[dict[str, Any]]], list[str]]:
    """The predictions by the index of the run, and notes on runs without any."""
    missing = [name for name, run in zip(names, runs, strict=True) if not (run.path / PREDICTIONS).is_file()]
    if len(missing) == len(names):
        return {}, [f"no significance test: no run has a {PREDICTIONS}"]
    notes = [f"no significance test for {'; '.join(missing)}: no {PREDICTIONS}"] if missing else []
    found: dict[int, list[dict[str, Any]]] = {}
    for i, run in enumerate(runs):
        try:
            if names[i] not in missing:
                found[i] = _read_predictions(run.path / PREDICTIONS)
        except ValueError as error:
            notes.append(f"no significance test for {names[i]}: {error}")
    return found, notes


def _read_predictions(path: Path) -> list[dict[str, Any]]:
    """The lines of a predictions.jsonl, sorted by row. Raises ValueError."""
    lines = read_lines(path)
    for number, line in enumerate(lines, 1):
        if not isinstance(line, dict) or not isinstance(line.get("row"), int) or not isinstance(line.get("reference"), dict):
            raise ValueError(f"{path}:{number}: must be an object with row, prediction and reference")
        if "prediction" not in line:
            raise ValueError(f"{path}:{number}: row {line['row']} has no prediction")
    if not lines:
        raise ValueError(f"{path} is empty")
    return sorted(lines, key=lambda line: line["row"])


def _p_values(a: RunFiles, b: RunFiles, of_a: list[dict[str, Any]], of_b: list[dict[str, Any]]) -> dict[str, float]:
    """The p-values of the metrics that both runs have. Raises ValueError if the predictions are not paired."""
    if len(of_a) != len(of_b):
        raise ValueError(f"they have predictions for {len(of_a):,} and {len(of_b):,} rows")
    for one, other in zip(of_a, of_b, strict=True):
        if one["row"] != other["row"]:
            raise ValueError(f"they have predictions for different rows (only one of them for row {one['row']})")
        if one["reference"] != other["reference"]:
            raise ValueError(f"they were evaluated on different examples (the references of row {one['row']} differ)")
    of_other = [plain for plain, _ in _metric_nodes(b)]
    shared = [node for plain, node in _metric_nodes(a) if plain in of_other]
    if not shared:
        raise ValueError("they have no metric in common (evaluate.metrics)")
    from weft.evaluate.resampling import paired_test

    references = [line["reference"] for line in of_a]
    found: dict[str, float] = {}
    for metric in _build_metrics(shared):
        found |= paired_test(metric, [line["prediction"] for line in of_a], [line["prediction"] for line in of_b], references)
    return found


def _metric_nodes(run: RunFiles) -> list[tuple[Any, Node]]:
    """The metrics of the last stage of a run, as plain values and as nodes of its recipe."""
    stages = run.tree.value.get("stages")
    parts = [run.tree, *(stages.value if stages and isinstance(stages.value, list) else [])]
    evaluations = [p.value["evaluate"].value for p in parts if isinstance(p.value, dict) and "evaluate" in p.value]
    mappings = [evaluate for evaluate in evaluations if isinstance(evaluate, dict)]
    metrics = mappings[-1].get("metrics") if mappings else None
    return [(node.plain(), node) for node in metrics.value] if metrics and isinstance(metrics.value, list) else []


def _build_metrics(nodes: list[Node]) -> list[Metric]:
    import weft.evaluate  # noqa: F401  (registers the metrics)
    from weft.core.registry import Build
    from weft.recipe import RecipeParser

    parser = RecipeParser(files=False)
    parts = parser.read(list[Build[Metric]], Node(nodes, ""), "evaluate.metrics")
    if parser.problems:
        raise RecipeError(parser.problems)
    return [part() for part in parts]
