"""The result of a sweep: mean and standard deviation of the metrics over the seeds, as table and JSON."""

from __future__ import annotations

import math
import statistics
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rich.console import Console

from weft.core import html
from weft.core.io import write_json, write_text
from weft.core.printable import printable
from weft.evaluate.metrics_file import best_indices, common_directions
from weft.experiments.sweep_grid import Trial, trial_groups
from weft.experiments.tables import format_metric, print_table, stdout_console

FORMAT = 1


@dataclass
class SweepRow:
    """Trials that differ only in the seed.

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
        rows: The trials grouped by their options other than the seed.
    """

    folder: Path
    paths: list[str]
    trials: list[Trial]
    rows: list[SweepRow] = field(default_factory=list)

    @property
    def failed(self) -> list[Trial]:
        """The trials that were stopped by an error."""
        return [trial for trial in self.trials if trial.error]

    def tabulate(self) -> None:
        """Aggregate the finished trials and write ``table.md`` and ``table.json``."""
        self.rows = [_aggregate(name, trials) for name, trials in trial_groups(self.trials).items()]
        write_json(self.folder / "table.json", self.as_json())
        header, cells = self.cells()
        lines = [header, ["---"] * len(header), *cells]
        text = "".join(f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in line)} |\n" for line in lines)
        write_text(self.folder / "table.md", text + "".join(f"\n{line}\n" for line in self._notes()))

    def as_json(self) -> dict[str, Any]:
        """Return the sweep as ``weft sweep --json`` prints it and ``table.json`` stores it."""
        trials = [
            {"name": t.name, "options": t.options, "metrics": t.metric_values, "error": t.error or None} for t in self.trials
        ]
        return {"format": FORMAT, "paths": self.paths, "rows": [vars(row) for row in self.rows], "trials": trials}

    def cells(self) -> tuple[list[str], list[list[str]]]:
        """Return the header and the lines of the table: mean and standard deviation of the metrics, the best mean marked.

        Metrics of groups are left out, and validation metrics if there are test metrics.
        """
        names = dict.fromkeys(name for row in self.rows for name in row.mean if "/" not in name)
        tested = any(name.startswith("test ") for row in self.rows for name in row.mean)
        shown = [name for name in names if not (name.startswith("valid ") and tested)]
        directions = common_directions(trial.higher_is_better for trial in self.trials)
        best = {name: best_indices([row.mean.get(name) for row in self.rows], directions.get(name)) for name in shown}
        lines = []
        for i, row in enumerate(self.rows):
            values = [_mean_std(row.mean.get(name), row.std.get(name)) + ("*" if i in best[name] else "") for name in shown]
            lines.append([row.name, str(row.n), *values])
        return ["options", "n", *shown], lines

    def _notes(self) -> list[str]:
        notes = ["Mean ± standard deviation over n seeds; * best mean."] if any(row.n for row in self.rows) else []
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
    options = {path: value for path, value in trials[0].options.items() if path != "seed"}
    return SweepRow(name, options, [trial.name for trial in trials], len(finished), mean, std)


def _std(values: list[float]) -> float | None:
    """Sample standard deviation; NaN if a value is not finite, which statistics.stdev does not accept."""
    if len(values) < 2:
        return None
    return statistics.stdev(values) if all(map(math.isfinite, values)) else math.nan


def _mean_std(mean: float | None, std: float | None) -> str:
    return format_metric(mean) if std is None else f"{format_metric(mean)} ± {format_metric(std)}"
