"""The result of a sweep: mean and standard deviation of the metrics over seeds and folds, ranked, as table and JSON."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rich.console import Console

from weft.core import html
from weft.core.io import write_json, write_text
from weft.core.printable import printable
from weft.evaluate.metrics_file import common_directions
from weft.experiments.sweep_grid import Trial, trial_groups
from weft.experiments.sweep_search import is_replicate
from weft.experiments.tables import format_metric, print_table, stdout_console

FORMAT = 1


@dataclass
class SweepRow:
    """Trials that differ only in the seed and the fold.

    Args:
        name: The options, as ``lr=0.1 steps=200``.
        options: The options by path.
        trials: The names of the trials.
        n: Number of finished trials.
        mean: Mean of each metric over the finished trials.
        std: Sample standard deviation (divided by n - 1); None with fewer than two trials.
    """

    name: str
    options: dict[str, Any]
    trials: list[str]
    n: int
    mean: dict[str, float]
    std: dict[str, float | None]


@dataclass
class SweepResult:
    """The trials of a sweep and its table.

    Args:
        folder: The folder of the sweep.
        paths: The options that vary.
        trials: One for each combination.
        rows: The trials grouped by their options other than seed and fold, the best first.
        preferred: Names of validation metrics: the rows are ranked by the first of them that the trials have.
    """

    folder: Path
    paths: list[str]
    trials: list[Trial]
    rows: list[SweepRow] = field(default_factory=list)
    preferred: Sequence[str] = ("loss",)

    @property
    def metric(self) -> tuple[str, bool] | None:
        """The validation metric that ranks the rows, as ``valid loss``, and whether higher is better; None without one."""
        directions = common_directions(trial.higher_is_better for trial in self.trials)
        present = {name for trial in self.trials for name in trial.metric_values or ()}
        names = (f"valid {name}" for name in self.preferred)
        return next(((name, directions[name]) for name in names if name in directions and name in present), None)

    @property
    def chosen(self) -> SweepRow | None:
        """The row with the best validation metric; None if there is none."""
        ranked = self.ranked()
        return ranked[0] if ranked and self.score(ranked[0]) > -math.inf else None

    def ranked(self) -> list[SweepRow]:
        """Return the rows by their validation metric, the best first; those without one last."""
        return sorted(self.rows, key=self.score, reverse=True)

    def score(self, row: SweepRow) -> float:
        """Return the mean of the metric, negated where lower is better: higher scores are better."""
        if (metric := self.metric) is None or not math.isfinite(value := row.mean.get(metric[0], math.nan)):
            return -math.inf
        return value if metric[1] else -value

    @property
    def failed(self) -> list[Trial]:
        """The trials that were stopped by an error."""
        return [trial for trial in self.trials if trial.error]

    def tabulate(self) -> None:
        """Aggregate the finished trials and write ``table.md`` and ``table.json``."""
        self.aggregate()
        write_json(self.folder / "table.json", self.as_json())
        header, cells = self.cells()
        lines = [header, ["---"] * len(header), *cells]
        text = "".join(f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in line)} |\n" for line in lines)
        write_text(self.folder / "table.md", text + "".join(f"\n{line}\n" for line in self._notes()))

    def aggregate(self) -> None:
        """Aggregate the finished trials and rank the rows."""
        self.rows = [_aggregate(name, trials) for name, trials in trial_groups(self.trials).items()]
        self.rows = self.ranked()

    def as_json(self) -> dict[str, Any]:
        """Return the sweep as ``weft sweep --json`` prints it and ``table.json`` stores it.

        Test metrics are those of the chosen row only: who chooses by them overestimates the result.
        """
        chosen, metric = self.chosen, self.metric
        rows = [vars(row) | {name: self._shown(row, vars(row)[name]) for name in ("mean", "std")} for row in self.rows]
        tested = {trial for row in self.rows if self._is_tested(row) for trial in row.trials}
        trials = []
        for t in self.trials:
            values = t.metric_values
            if values is not None and t.name not in tested:
                values = {name: value for name, value in values.items() if name.startswith("valid ")}
            trials.append({"name": t.name, "options": t.options, "metrics": values, "error": t.error or None})
        return {
            "format": FORMAT,
            "paths": self.paths,
            "metric": metric[0] if metric else None,
            "higher_is_better": metric[1] if metric else None,
            "chosen": chosen.name if chosen else None,
            "rows": rows,
            "trials": trials,
        }

    def _is_tested(self, row: SweepRow) -> bool:
        """Whether test metrics of a row are shown: those of the chosen one, and of all where nothing can be chosen."""
        return self.metric is None or row is self.chosen

    def _shown(self, row: SweepRow, values: dict[str, Any]) -> dict[str, Any]:
        return {name: value for name, value in values.items() if name.startswith("valid ") or self._is_tested(row)}

    def cells(self) -> tuple[list[str], list[list[str]]]:
        """Return the header and the lines of the table: mean and standard deviation of the metrics, the best mean of the ranking
        metric marked, and the test metrics of the chosen row. Metrics of groups are left out."""
        names = dict.fromkeys(name for row in self.rows for name in self._shown(row, row.mean) if "/" not in name)
        first = [self.metric[0]] if self.metric else []
        shown = sorted(names, key=lambda name: (name not in first, not name.startswith("valid ")))
        lines = []
        for row in self.rows:
            mean, std = self._shown(row, row.mean), self._shown(row, row.std)
            marks = {name: "*" if row is self.chosen and name in first else "" for name in shown}
            cells = [_mean_std(mean[name], std.get(name)) + marks[name] if name in mean else "" for name in shown]
            lines.append([row.name, str(row.n), *cells])
        return ["options", "n", *shown], lines

    def _notes(self) -> list[str]:
        notes: list[str] = []
        if any(row.n for row in self.rows):
            notes = ["Mean ± standard deviation over n trials (seeds, folds)."]
            if (metric := self.metric) is None:
                notes[0] += " No validation metric: the rows are not ranked."
            else:
                better = "higher" if metric[1] else "lower"
                notes[0] += f" Ranked by {metric[0]} ({better} is better); * best mean; test metrics of that row only."
        notes += [f"Failed: {trial.name}: {trial.error}" for trial in self.failed]
        missing = [trial.name for trial in self.trials if trial.metric_values is None and not trial.error]
        return [*notes, *([f"Not yet trained: {'; '.join(missing)}"] if missing else [])]

    def print(self, console: Console | None = None) -> None:
        """Print the table and the failed trials; plain columns outside a terminal."""
        console = console or stdout_console()
        print_table(console, *self.cells())
        for line in self._notes():
            console.print(printable(line), markup=False)

    def _repr_html_(self) -> str:
        header, lines = self.cells()
        rows = [[*line[:2], *(html.Cell(c.removesuffix("*"), strong=c.endswith("*")) for c in line[2:])] for line in lines]
        notes = [line.replace("* best mean", "best mean in bold") for line in self._notes()]
        return html.page(html.table(header, rows, caption=f"Sweep in {self.folder}"), html.notes(notes))


def _aggregate(name: str, trials: list[Trial]) -> SweepRow:
    finished = [trial.metric_values for trial in trials if trial.metric_values is not None]
    names = [n for n in (finished[0] if finished else {}) if all(n in values for values in finished)]
    mean = {n: math.fsum(values[n] for values in finished) / len(finished) for n in names}
    std = {n: _std([values[n] for values in finished]) for n in names}
    options = {path: value for path, value in trials[0].options.items() if not is_replicate(path)}
    return SweepRow(name, options, [trial.name for trial in trials], len(finished), mean, std)


def _std(values: list[float]) -> float | None:
    """Sample standard deviation; NaN if a value is not finite, which statistics.stdev does not accept."""
    if len(values) < 2:
        return None
    return statistics.stdev(values) if all(map(math.isfinite, values)) else math.nan


def _mean_std(mean: float | None, std: float | None) -> str:
    return format_metric(mean) if std is None else f"{format_metric(mean)} ± {format_metric(std)}"
