"""``weft compare``: options that differ between runs, their learning curves in one plot, their metrics side by side.

A run is read from the files of its folder alone; neither its plug-ins nor its data are needed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rich.console import Console

from weft.core import html
from weft.core.printable import printable
from weft.evaluate.metrics_file import best_indices, common_directions
from weft.experiments.recipe_differences import comparability_notes, recipe_differences
from weft.experiments.run_files import RunFiles, distinct_names
from weft.experiments.significance import paired_tests
from weft.experiments.tables import format_metric, format_option, print_table, stdout_console

FORMAT = 1


@dataclass
class Comparison:
    """Runs side by side. Options and metrics are lists with one entry per run, None where a run has none.

    Args:
        runs: Names of the runs.
        folders: Their folders.
        options: The options that differ in the filled recipes, by path.
        metric_values: By split and name, as in ``test loss``.
        best: Indices of the runs with the best value; empty if all are equal, or if the metric has no direction.
        significance: For pairs of runs: their names (``runs``), and the two-sided p-value by metric (``p``).
        notes: What could not be compared, and why.
        plot: The file with the learning curves.
    """

    runs: list[str]
    folders: list[Path]
    options: dict[str, list[Any]]
    metric_values: dict[str, list[float | None]]
    best: dict[str, list[int]]
    significance: list[dict[str, Any]]
    notes: list[str] = field(default_factory=list)
    plot: Path | None = None

    def as_json(self) -> dict[str, Any]:
        """Return the comparison as ``weft compare --json`` prints it."""
        return {
            "format": FORMAT,
            "runs": [{"name": name, "folder": str(path)} for name, path in zip(self.runs, self.folders, strict=True)],
            "options": self.options,
            "metrics": self.metric_values,
            "best": {name: [self.runs[i] for i in runs] for name, runs in self.best.items()},
            "significance": self.significance,
            "notes": self.notes,
            "plot": str(self.plot) if self.plot else None,
        }

    def print(self, console: Console | None = None) -> None:
        """Print tables on a terminal, plain columns elsewhere."""
        console = console or stdout_console()
        rows = [[path, *map(format_option, values)] for path, values in self.options.items()]
        print_table(console, ["option", *self.runs], rows or [["(no differences)", *("" for _ in self.runs)]])
        shown = {name: values for name, values in self.metric_values.items() if "/" not in name}
        if shown:
            cells = [
                [name, *(format_metric(v) + ("*" if i in self.best[name] else "") for i, v in enumerate(values))]
                for name, values in shown.items()
            ]
            console.print()
            print_table(console, ["metric (* best)", *self.runs], cells)
        if groups := [name for name in self.metric_values if name not in shown]:
            examples = ", ".join(groups[:3]) + (", ..." if len(groups) > 3 else "")
            console.print(
                printable(f"metrics of groups are not shown ({len(groups)}: {examples}); use --json to see them"), markup=False
            )
        tests = [row for row in self._test_rows(" - ") if "/" not in row[1]]
        if tests:
            console.print()
            print_table(console, ["pair", "metric", "p (two-sided)"], tests)
        for note in self.notes:
            console.print(printable(f"note: {note}"), markup=False)
        if self.plot:
            console.print(printable(f"learning curves: {self.plot}"), markup=False)

    def _test_rows(self, separator: str) -> list[list[str]]:
        return [[separator.join(t["runs"]), name, f"{p:.4f}"] for t in self.significance for name, p in t["p"].items()]

    def _repr_html_(self) -> str:
        options = [[path, *map(format_option, values)] for path, values in self.options.items()]
        parts = [html.table(["option", *self.runs], options, caption="Different options", numbers=False)] if options else []
        values = [
            [name, *(html.Cell(format_metric(value), strong=i in self.best[name]) for i, value in enumerate(row))]
            for name, row in self.metric_values.items()
        ]
        parts += [html.table(["metric", *self.runs], values, caption="Metrics (best in bold)")] if values else []
        tests = self._test_rows(" – ")
        parts += [html.table(["runs", "metric", "p (two-sided)"], tests, caption="Significance")] if tests else []
        return html.page(*parts, html.notes(self.notes))


def compare(folders: Sequence[str | Path], out: str | Path | None = None) -> Comparison:
    """Compare trained runs.

    Args:
        folders: Two or more run folders. Of a run that is not finished, options and learning curves are compared.
        out: PNG file for the learning curves; None: no plot.

    Raises ValueError for a folder that is not a run folder, for a single run, and for the same run twice.
    """
    paths = [Path(f) for f in folders]
    runs = [RunFiles(path) for path in paths]
    if len(runs) < 2:
        raise ValueError(f"a comparison needs at least two runs, got {len(runs)}: weft compare RUN RUN")
    _require_distinct(paths)
    names = distinct_names(paths)
    notes = [f"{name}: {note}" for name, run in zip(names, runs, strict=True) for note in run.notes]
    options = recipe_differences([run.recipe for run in runs])
    notes += comparability_notes(options, names)
    metric_names = dict.fromkeys(name for run in runs for name in run.metric_values)
    metric_values = {name: [run.metric_values.get(name) for run in runs] for name in metric_names}
    directions = common_directions(run.higher_is_better for run in runs)
    best = {name: best_indices(values, directions.get(name)) for name, values in metric_values.items()}
    significance, untested = paired_tests(names, runs)
    result = Comparison(names, paths, options, metric_values, best, significance, notes + untested)
    if out is not None:
        result.plot = _plot_curves(names, runs, Path(out), result.notes)
    return result


def _require_distinct(paths: Sequence[Path]) -> None:
    seen: dict[Path, Path] = {}
    for path in paths:
        if (same := path.resolve()) in seen:
            raise ValueError(f"{path} is given twice{'' if path == seen[same] else f' (also as {seen[same]})'}")
        seen[same] = path


def _plot_curves(names: list[str], runs: list[RunFiles], out: Path, notes: list[str]) -> Path | None:
    if out.is_dir():
        raise ValueError(f"{out} is a folder; the plot of the learning curves must be a .png file")
    if out.suffix.lower() != ".png":
        raise ValueError(f"{out}: the plot of the learning curves must be a .png file")
    try:
        from weft.inspect.run_curves import plot_run_curves

        return plot_run_curves({name: run.log for name, run in zip(names, runs, strict=True)}, out, f"{len(names)} runs")
    except ValueError as error:
        notes.append(f"no plot: {error}")
        return None
