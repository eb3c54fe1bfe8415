"""Progress display of a run: a progress bar on a terminal, plain lines elsewhere, nothing when quiet."""

from __future__ import annotations

import contextlib
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console, RenderableType
from rich.constrain import Constrain
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    ProgressColumn,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)

from weft.core.printable import printable

if TYPE_CHECKING:
    from weft.core.contracts import ProgressCallback

_PLAIN_SECONDS = 5.0


class Display:
    """Shows nothing: for quiet training."""

    def message(self, text: str) -> None: ...

    def start_stage(self, stage: str, steps: int, several: bool) -> None: ...

    def update(self, row: Mapping[str, Any], padding: float) -> None: ...

    def show_evaluation(self, step: int, metric_values: Mapping[str, float], remarks: Sequence[str] = ()) -> None: ...

    def end_stage(self) -> None: ...

    def show_result(self, folder: Path, metric_values: Mapping[str, float], remarks: Sequence[str] = ()) -> None: ...

    @contextlib.contextmanager
    def waiting(self, what: str) -> Iterator[ProgressCallback]:
        """A context for a slow operation; yields a callback that reports its progress."""
        yield _ignored


class _Bar(Progress):
    """A progress bar with space for the echoed ``^C`` after it, which would otherwise wrap and duplicate the bar."""

    def __init__(self, *columns: ProgressColumn, console: Console):
        self.screen = console
        super().__init__(*columns, console=console)

    def get_renderable(self) -> RenderableType:
        return Constrain(super().get_renderable(), max(1, self.screen.width - len("^C") - 1))


class Terminal(Display):
    """A progress bar with loss, tokens/s, padding ratio and remaining time; plain lines where the output is not a terminal."""

    def __init__(self, console: Console | None = None):
        self.console = console or Console(file=sys.stderr, highlight=False, soft_wrap=True)
        self.bar: Progress | None = None
        self.last = 0.0

    def message(self, text: str) -> None:
        self.console.print(printable(text), markup=False)

    def start_stage(self, stage: str, steps: int, several: bool) -> None:
        self.steps, self.title = steps, printable(f"stage {stage}: ") if several else ""
        self.first_step: int | None = None
        self.started = time.perf_counter()
        if self.console.is_terminal:
            columns = (
                TextColumn("{task.description}"),
                BarColumn(bar_width=24),
                MofNCompleteColumn(),
                TimeElapsedColumn(),
                TextColumn("left"),
                TimeRemainingColumn(),
            )
            self.bar = _Bar(*columns, console=self.console)
            self.bar.start()
            self.task = self.bar.add_task(f"{self.title}starting", total=steps)

    def update(self, row: Mapping[str, Any], padding: float) -> None:
        if "problem" in row:
            self.message(f"{row['event']}: {row['problem']}")
            return
        losses = " ".join(f"{k} {v:.4f}" for k, v in row.items() if k == "loss" or k.endswith("/loss"))
        text = f"{self.title}{losses} | {_short(row['tokens_per_second'])} tokens/s | padding {padding:.1%}"
        if self.bar:
            self.bar.update(self.task, completed=row["step"], description=text)
            return
        now = time.perf_counter()
        if self.first_step is None:
            self.first_step = row["step"]
            self.started = now
        if now - self.last >= _PLAIN_SECONDS or row["step"] == self.steps:
            self.last = now
            done = row["step"] - self.first_step
            left = (now - self.started) / done * (self.steps - row["step"]) if done else None
            self.message(
                f"step {row['step']}/{self.steps} | {text} | {f'{_clock(left)} left' if left is not None else 'started'}"
            )

    def show_evaluation(self, step: int, metric_values: Mapping[str, float], remarks: Sequence[str] = ()) -> None:
        self.message("\n".join([f"step {step} valid: {show_metrics(metric_values)}", *remarks]))

    def end_stage(self) -> None:
        if self.bar:
            self.bar.stop()
            self.bar = None

    def show_result(self, folder: Path, metric_values: Mapping[str, float], remarks: Sequence[str] = ()) -> None:
        self.message("\n".join([show_metrics(metric_values), *remarks, f"the run is in {folder}"]))

    @contextlib.contextmanager
    def waiting(self, what: str) -> Iterator[ProgressCallback]:
        start = time.perf_counter()

        def describe(text: str, done: int, total: int) -> str:
            seconds = time.perf_counter() - start
            if not total or not done:
                return text
            if done >= total:
                return f"{text}: 100% of {total / 1e6:.1f} MB"
            left = seconds / done * (total - done)
            return f"{text}: {done / total:.0%} of {total / 1e6:.1f} MB, {done / seconds / 1e6:.1f} MB/s, {_clock(left)} left"

        if self.console.is_terminal:
            with self.console.status(what) as status:
                yield lambda text, done, total: status.update(printable(describe(text, done, total)))
        else:
            self.message(f"{what} ...")
            lines = _PlainProgress(self.message)
            yield lambda text, done, total: lines.update(text, describe(text, done, total))
            lines.end()


class _PlainProgress:
    """Lines of progress, one every few seconds. The last line of an activity that was shown is always printed: it has the total.

    Args:
        print_line: Prints a line.
    """

    def __init__(self, print_line: Callable[[str], None]):
        self.print_line, self.last = print_line, time.perf_counter()
        self.activity, self.shown, self.line = "", "", ""

    def update(self, text: str, line: str) -> None:
        """Report progress: ``text`` names the activity, before its first colon; ``line`` is what to print."""
        activity = text.partition(":")[0]
        if activity != self.activity:
            self.end()
            self.activity, self.shown = activity, ""
        self.line = line
        if time.perf_counter() - self.last >= _PLAIN_SECONDS:
            self.last, self.shown = time.perf_counter(), line
            self.print_line(line)

    def end(self) -> None:
        """Print the last line of the activity, where an earlier one was printed."""
        if self.shown and self.shown != self.line:
            self.print_line(self.line)
            self.shown = self.line


def _ignored(text: str, done: int, total: int) -> None:
    pass


def show_ledger(ledger: Mapping[str, Any]) -> list[str]:
    """Return a line per split: number of examples, and how many were skipped or changed."""
    lines: list[str] = []
    for split, counts in ledger.items():
        if not isinstance(counts, Mapping):  # sources may add their own entries
            continue
        counted = [f"{value:,} {name}" for name, value in counts.items() if isinstance(value, int) and value]
        lines.append(f"{split}: {', '.join(counted)}")
        lines += [f"  {example}" for value in counts.values() if isinstance(value, list) for example in value]
    return lines


def show_metrics(metric_values: Mapping[str, float]) -> str:
    """Return the metrics in one line, without those of groups (name/group), which are in metrics.json."""
    return "  ".join(
        f"{name} {_format(value)}" for name, value in metric_values.items() if "/" not in name and isinstance(value, float | int)
    )


def show_intervals(
    metric_values: Mapping[str, float], intervals: Mapping[str, tuple[float, float]], signatures: Mapping[str, str]
) -> str:
    """Return a line per metric, with its confidence interval and signature where it has them; groups are left out."""
    shown = {name: value for name, value in metric_values.items() if "/" not in name}
    width = max(map(len, shown), default=0)
    lines: list[str] = []
    for name, value in shown.items():
        between = f"   [{intervals[name][0]:.4f}, {intervals[name][1]:.4f}]" if name in intervals else ""
        lines.append(f"{name:{width}}  {_format(value)}{between}")
    return "\n".join([*lines, *(f"{name}: {signature}" for name, signature in signatures.items())])


def _format(value: float) -> str:
    """Format a value: counts as integers."""
    return str(value) if isinstance(value, int) else f"{value:.4f}"


def _short(number: float) -> str:
    return f"{number / 1000:.1f}k" if number >= 1000 else f"{number:.0f}"


def _clock(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes}:{rest:02d}" if minutes < 60 else f"{minutes // 60}:{minutes % 60:02d}:{rest:02d}"
