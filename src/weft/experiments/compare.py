"""``weft compare``: what differs between runs, their curves in one picture, their figures side by side.

A run is read from its folder's files alone; neither its plug-ins nor its data are needed. For a test of significance a run's
folder has ``predictions.jsonl``, one line for each row that the figures of metrics.json were computed on:

    {"row": 0, "prediction": "1999-03-03", "reference": {"source": "3 March 1999", "target": "1999-03-03"}}
"""

from __future__ import annotations

import json
import math
import re
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from weft.core import html
from weft.core.io import read_json, read_lines
from weft.recipe import RecipeError, parse, read_file
from weft.training.run_folder import RunFolder

FORMAT = 1
PREDICTIONS = "predictions.jsonl"
_ALL_PAIRS = 5
_ABSENT = "-"


@dataclass
class Comparison:
    """Runs side by side. Values and figures are lists with one entry for each run, None where it has none."""

    runs: list[str]
    folders: list[Path]
    choices: dict[str, list[Any]]
    """What differs in the filled recipes, by path."""
    metric_values: dict[str, list[float | None]]
    """By split and name, as in ``test loss``."""
    best: dict[str, list[int]]
    """Which runs have the best value; none where all are equal, or where more may be better or worse."""
    significance: list[dict[str, Any]]
    """For pairs of runs: ``runs``, and ``p`` by figure."""
    notes: list[str] = field(default_factory=list)
    """What could not be compared, and why."""
    picture: Path | None = None

    def as_json(self) -> dict[str, Any]:
        return {
            "format": FORMAT,
            "runs": [{"name": name, "folder": str(path)} for name, path in zip(self.runs, self.folders, strict=True)],
            "choices": self.choices,
            "figures": self.metric_values,
            "best": {name: [self.runs[i] for i in runs] for name, runs in self.best.items()},
            "significance": self.significance,
            "notes": self.notes,
            "picture": str(self.picture) if self.picture else None,
        }

    def print(self, console: Console | None = None) -> None:
        """Tables on a terminal, plain columns elsewhere."""
        console = console or Console(file=sys.stdout, highlight=False, soft_wrap=not sys.stdout.isatty())
        rows = [[path, *map(show_choice, values)] for path, values in self.choices.items()]
        print_table(console, ["choice", *self.runs], rows or [["(none differs)", *("" for _ in self.runs)]])
        shown = {name: values for name, values in self.metric_values.items() if "/" not in name}
        if shown:
            cells = [
                [name, *(show_figure(v) + ("*" if i in self.best[name] else "") for i, v in enumerate(values))]
                for name, values in shown.items()
            ]
            console.print()
            print_table(console, ["figure (* best)", *self.runs], cells)
        if groups := [name for name in self.metric_values if name not in shown]:
            some = ", ".join(groups[:3]) + (", ..." if len(groups) > 3 else "")
            console.print(f"{len(groups)} figures of single groups ({some}) are left out here: see --json", markup=False)
        tested = [
            [f"{t['runs'][0]} - {t['runs'][1]}", name, f"{p:.4f}"]
            for t in self.significance
            for name, p in t["p"].items()
            if "/" not in name
        ]
        if tested:
            console.print()
            print_table(console, ["pair", "figure", "p (two-sided)"], tested)
        for note in self.notes:
            console.print(f"note: {note}", markup=False)
        if self.picture:
            console.print(f"curves: {self.picture}", markup=False)

    def _repr_html_(self) -> str:
        chosen = [[path, *map(show_choice, values)] for path, values in self.choices.items()]
        parts = [html.table(["option", *self.runs], chosen, caption="Different options", numbers=False)] if chosen else []
        values = [
            [name, *(html.Cell(show_figure(value), strong=i in self.best[name]) for i, value in enumerate(row))]
            for name, row in self.metric_values.items()
        ]
        parts += [html.table(["metric", *self.runs], values, caption="Metrics (best in bold)")] if values else []
        tests = [[" – ".join(t["runs"]), name, f"{p:.4f}"] for t in self.significance for name, p in t["p"].items()]
        parts += [html.table(["runs", "metric", "p (two-sided)"], tests, caption="Significance")] if tests else []
        return html.page(*parts, html.notes(self.notes))


def compare(folders: Sequence[str | Path], out: str | Path | None = None) -> Comparison:
    """Compare trained runs.

    Args:
        folders: The runs' folders, at least two. One that is not finished has its choices and curves compared.
        out: A PNG file for the curves; none: no picture.

    Raises ValueError for what is not a run, for one run alone, and for the same run twice.
    """
    paths = [Path(f) for f in folders]
    runs = [_Read(path) for path in paths]
    if len(runs) < 2:
        raise ValueError(f"comparing needs at least two runs, here is {len(runs)}: weft compare RUN RUN")
    seen: dict[Path, Path] = {}
    for path in paths:
        if (same := path.resolve()) in seen:
            raise ValueError(f"{path} is given twice{'' if path == seen[same] else f' (also as {seen[same]})'}")
        seen[same] = path
    names = _names(paths)
    notes = [f"{name}: {note}" for name, run in zip(names, runs, strict=True) for note in run.notes]
    choices = differences([run.recipe for run in runs])
    notes += _kinds(choices, names)
    metric_values = {
        name: [run.metric_values.get(name) for run in runs]
        for name in dict.fromkeys(n for run in runs for n in run.metric_values)
    }
    directions = agreed_directions(run.higher_is_better for run in runs)
    best = {name: best_of(values, directions.get(name)) for name, values in metric_values.items()}
    result = Comparison(names, paths, choices, metric_values, best, _significance(names, runs, notes), notes)
    if out is not None:
        result.picture = _draw(names, runs, Path(out), notes)
    return result


class _Read:
    """What a run's folder says."""

    def __init__(self, path: Path):
        folder = RunFolder(path)
        if not path.exists():
            raise ValueError(f"there is no folder {path}")
        if not path.is_dir() or not folder.is_run():
            raise ValueError(f"{path} is not a run's folder (it has no recipe.yaml)")
        self.path, self.notes = path, list[str]()
        root = parse(read_file(folder.recipe), str(folder.recipe))
        if root.problems:
            raise RecipeError(root.problems)
        self.tree, self.recipe = root, root.plain()
        self.metric_values: dict[str, float] = {}
        self.higher_is_better: dict[str, bool] = {}
        if folder.metrics.is_file():
            metrics = read_json(folder.metrics)
            self.metric_values = figures_of(metrics, folder.metrics)
            self.higher_is_better = directions_of(metrics)
        else:
            self.notes.append(f"not finished, it has no metrics.json; finish it with: weft train {path} --resume")
        self.log: list[dict[str, Any]] = []
        try:
            self.log = [row for row in folder.read_log() if isinstance(row, dict)]
        except ValueError as broken:
            self.notes.append(f"no curves: {broken}")


def figures_of(metrics: Any, path: Path) -> dict[str, float]:
    """The figures of a metrics.json by split and name: those of its split, then those of validation."""
    if not isinstance(metrics, dict):
        raise ValueError(f"{path}: not a run's figures: a mapping is needed")
    if metrics.get("format") != FORMAT:
        raise ValueError(f"{path}: has the format {metrics.get('format')!r}, this weft reads {FORMAT}")
    split, valid = metrics.get("split", "test"), metrics.get("valid")
    found = {f"{split} {name}": v for name, v in metrics.items() if name not in ("format", "split", "valid")}
    found |= {f"valid {name}": v for name, v in (valid if isinstance(valid, dict) else {}).items()}
    found = {name: math.nan if v is None else v for name, v in found.items()}  # not defined: see files.finite
    return {name: v for name, v in found.items() if isinstance(v, int | float) and not isinstance(v, bool)}


def directions_of(metrics: Mapping[str, Any]) -> dict[str, bool]:
    """Whether higher is better, by split and name, as a metrics.json declares it (``higher_is_better``)."""
    declared = metrics.get("higher_is_better")
    named = declared.items() if isinstance(declared, dict) else ()
    splits = (metrics.get("split", "test"), "valid")
    return {f"{split} {name}": higher for split in splits for name, higher in named if isinstance(higher, bool)}


def _names(paths: list[Path]) -> list[str]:
    """The folders' names; where two have the same, as much of the paths as tells them apart."""
    whole = [path.resolve().parts for path in paths]
    for length in range(1, max(map(len, whole)) + 1):
        names = ["/".join(parts[-length:]).replace("//", "/") for parts in whole]
        if len(set(names)) == len(names):
            return names
    return [str(path) for path in paths]


# -------------------------------------------------------------------------------------------------------------- choices


def differences(recipes: Sequence[Any]) -> dict[str, list[Any]]:
    """What differs between filled recipes: path -> the value in each, None where there is none. A file is ``path (hash)``."""
    flat = [_flat(recipe) for recipe in recipes]
    paths = dict.fromkeys(path for one in flat for path in one)
    values = {path: [one.get(path) for one in flat] for path in paths}
    return {path: v for path, v in values.items() if any(json.dumps(x) != json.dumps(v[0]) for x in v[1:])}


def _flat(value: Any, path: str = "") -> dict[str, Any]:
    if isinstance(value, dict) and set(value) == {"path", "sha256"}:
        return {path: f"{value['path']} ({str(value['sha256'])[:8]})"}
    inner = value if isinstance(value, dict) else dict(enumerate(value)) if isinstance(value, list) else {}
    if not inner:
        return {path: value}
    if isinstance(value, list) and not any(isinstance(v, dict | list) for v in value):
        return {path: value}  # a list of plain values is read as one
    return {p: v for key, item in inner.items() for p, v in _flat(item, f"{path}.{key}" if path else str(key)).items()}


def _kinds(choices: Mapping[str, list[Any]], names: list[str]) -> list[str]:
    """Why figures may not be comparable."""
    notes = []
    for path, what in (("data.type", "data"), ("objective.type", "objectives"), ("structure.type", "structures")):
        if path in choices:
            said = ", ".join(f"{name}: {show_choice(value)}" for name, value in zip(names, choices[path], strict=True))
            end = "" if path == "structure.type" else "; figures of the same name may mean different things"
            notes.append(f"the runs are of different kinds, by their {what} ({said}){end}")
    data = [p for p in choices if re.match(r"(stages\.\d+\.)?data\.", p) and not re.match(r"data\.(type|train)\b", p)]
    if data and "data.type" not in choices:
        notes.append(f"the data differ in {', '.join(data[:3])}{', ...' if len(data) > 3 else ''}: compare figures with care")
    judged = [p for p in choices if re.match(r"(stages\.\d+\.)?evaluate\.(type|metrics|search)\b", p)]
    if judged:
        notes.append(f"the runs are judged differently ({', '.join(judged[:3])}{', ...' if len(judged) > 3 else ''})")
    return notes


# -------------------------------------------------------------------------------------------------------------- figures


def best_of(values: Sequence[float | None], higher_is_better: bool | None) -> list[int]:
    """The indices of the best value: none where all are equal, or where the value has no direction."""
    finite = [v for v in values if v is not None and math.isfinite(v)]
    if higher_is_better is None or len(finite) < 2 or min(finite) == max(finite):
        return []
    best = max(finite) if higher_is_better else min(finite)
    return [i for i, v in enumerate(values) if v == best]


def agreed_directions(runs: Iterable[Mapping[str, bool]]) -> dict[str, bool]:
    """The direction of each value by split and name, from the ``higher_is_better`` of several runs; none where they disagree."""
    found: dict[str, set[bool]] = {}
    for run in runs:
        for name, higher in run.items():
            found.setdefault(name, set()).add(higher)
    return {name: higher.pop() for name, higher in found.items() if len(higher) == 1}


def _significance(names: list[str], runs: list[_Read], notes: list[str]) -> list[dict[str, Any]]:
    """Paired tests of the runs that have predictions for the same rows."""
    without = [name for name, run in zip(names, runs, strict=True) if not (run.path / PREDICTIONS).is_file()]
    if len(without) == len(names):
        notes.append(f"no test of significance: no run has a {PREDICTIONS}")
    elif without:
        notes.append(f"no test of significance for {'; '.join(without)}: without a {PREDICTIONS}")
    predicted: dict[int, list[dict[str, Any]]] = {}
    for i, run in enumerate(runs):
        try:
            if names[i] not in without:
                predicted[i] = _predictions(run.path / PREDICTIONS)
        except ValueError as trouble:
            notes.append(f"no test of significance for {names[i]}: {trouble}")
    pairs = list(combinations(predicted, 2))
    if len(predicted) > _ALL_PAIRS:
        first = next(iter(predicted))
        pairs = [pair for pair in pairs if first in pair]
        notes.append(f"significance is tested against {names[first]} only: of more than {_ALL_PAIRS} runs there are many pairs")
    found = []
    for i, j in pairs:
        try:
            p = _paired(runs[i], runs[j], predicted[i], predicted[j])
            found.append({"runs": [names[i], names[j]], "p": p})
        except ValueError as trouble:
            notes.append(f"no test of significance for {names[i]} and {names[j]}: {trouble}")
    return found


def _predictions(path: Path) -> list[dict[str, Any]]:
    """The lines of a predictions.jsonl by row. Raises ValueError."""
    lines = read_lines(path)
    for number, line in enumerate(lines, 1):
        if not isinstance(line, dict) or not isinstance(line.get("row"), int) or not isinstance(line.get("reference"), dict):
            raise ValueError(f"{path}:{number}: a line has row, prediction and reference")
        if "prediction" not in line:
            raise ValueError(f"{path}:{number}: row {line['row']} has no prediction")
    if not lines:
        raise ValueError(f"{path} is empty")
    return sorted(lines, key=lambda line: line["row"])


def _paired(a: _Read, b: _Read, of_a: list[dict[str, Any]], of_b: list[dict[str, Any]]) -> dict[str, float]:
    if len(of_a) != len(of_b):
        raise ValueError(f"they have predictions for {len(of_a):,} and {len(of_b):,} rows")
    for one, other in zip(of_a, of_b, strict=True):
        if one["row"] != other["row"]:
            raise ValueError(f"they have predictions for different rows (the one for row {one['row']}, the other not)")
        if one["reference"] != other["reference"]:
            raise ValueError(f"their rows are not the same (the references of row {one['row']} differ)")
    theirs = _metric_nodes(b)
    shared = [(plain, node) for plain, node in _metric_nodes(a) if plain in [p for p, _ in theirs]]
    if not shared:
        raise ValueError("they have no metric in common (evaluate.metrics)")
    from weft.evaluate.bootstrap import paired

    references = [line["reference"] for line in of_a]
    found: dict[str, float] = {}
    for metric in _metrics([node for _, node in shared]):
        found |= paired(metric, [line["prediction"] for line in of_a], [line["prediction"] for line in of_b], references)
    return found


def _metric_nodes(run: _Read) -> list[tuple[Any, Any]]:
    """The metrics of a run's last stage: as plain values, and as nodes of its recipe."""
    stages = run.tree.value.get("stages")
    parts = [run.tree, *(stages.value if stages and isinstance(stages.value, list) else [])]
    judged = [p.value["evaluate"] for p in parts if isinstance(p.value, dict) and "evaluate" in p.value]
    found = [evaluate.value for evaluate in judged if isinstance(evaluate.value, dict)]
    metrics = found[-1].get("metrics") if found else None
    return [(node.plain(), node) for node in metrics.value] if metrics and isinstance(metrics.value, list) else []


def _metrics(nodes: list[Any]) -> list[Any]:
    import weft.evaluate  # noqa: F401  (fills the catalog)
    from weft.core.contracts import Metric
    from weft.core.registry import Build
    from weft.recipe import Node, RecipeParser

    parser = RecipeParser(files=False)
    parts = parser.read(list[Build[Metric]], Node(nodes, ""), "evaluate.metrics")
    if parser.problems:
        raise RecipeError(parser.problems)
    return [part() for part in parts]


# ---------------------------------------------------------------------------------------------------- picture and tables


def _draw(names: list[str], runs: list[_Read], out: Path, notes: list[str]) -> Path | None:
    if out.is_dir():
        raise ValueError(f"{out} is a folder: name a PNG file for the curves")
    if out.suffix.lower() != ".png":
        raise ValueError(f"{out}: the curves are drawn as a PNG file: give a name that ends in .png")
    try:
        from weft.inspect.run_curves import plot_run_curves

        return plot_run_curves({name: run.log for name, run in zip(names, runs, strict=True)}, out, f"{len(names)} runs")
    except ValueError as missing:
        notes.append(f"no picture: {missing}")
        return None


def show_choice(value: Any) -> str:
    """A value as a recipe would have it, in a line."""
    if value is None:
        return _ABSENT
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 60 else f"{text[:20]}...{text[-37:]}"


def show_figure(value: float | None) -> str:
    if value is None:
        return _ABSENT
    return str(value) if isinstance(value, int) else f"{value:.4f}" if abs(value) < 1e5 else f"{value:.4g}"


def print_table(console: Console, header: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """On a terminal a table, the best (*) in bold; elsewhere columns with two spaces between them."""
    if console.is_terminal:
        table = Table(box=None, pad_edge=False, header_style="bold")
        for cell in header:
            table.add_column(Text(cell), overflow="fold")
        for row in rows:
            table.add_row(*(Text(cell, style="bold" if cell.endswith("*") else "") for cell in row))
        console.print(table)
        return
    lines = [header, *rows]
    widths = [max(len(line[i]) for line in lines) for i in range(len(header))]
    for line in lines:
        text = "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip()
        console.print(text, markup=False, soft_wrap=True)
