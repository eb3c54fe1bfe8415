"""Training of the trials of a sweep: one after another in this process, or several at a time in processes of their own."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from weft.evaluate.metrics_file import metric_directions, metric_values, read_metrics
from weft.experiments.sweep_grid import Trial
from weft.experiments.sweep_workers import INTERRUPTED, Job, Worker, describe, thread_share, wait
from weft.training.display import Display
from weft.training.run_folder import FolderError, RunFolder, compare_recipes

if TYPE_CHECKING:
    from weft.training.run import Run


class Session:
    """Trains the trials of a sweep.

    Args:
        recipe: What is swept.
        trials: All trials; errors and metrics are recorded in them.
        plugins: Names of imported plug-ins.
        display: Shows the progress.
    """

    def __init__(self, recipe: str | Path | Run, trials: list[Trial], plugins: list[str], display: Display):
        self.recipe, self.trials, self.plugins, self.display = recipe, trials, plugins, display

    def train(self, queue: Iterator[Trial], workers: int = 1, max_minutes: float | None = None) -> None:
        """Train the trials: in this process, unless several are trained at a time or the time is limited."""
        if workers > 1 or max_minutes is not None:
            self._train_in_workers(queue, workers, max_minutes)
        else:
            self._train_here(queue)

    def _train_here(self, queue: Iterator[Trial]) -> None:
        """Train the trials one after another. An error is recorded in the trial, unless it is an interruption."""
        from weft.learning import Interrupted
        from weft.training.trainer import train

        for number, trial in enumerate(queue, 1):
            self._announce(number, trial)
            try:
                run = read_trial(self.recipe, trial)
                if not self._is_finished(trial, run):
                    folder = RunFolder(trial.folder)
                    resume = folder.is_run() or folder.is_incomplete()
                    train(run, trial.folder, resume=resume, plugins=self.plugins, display=self.display)
                read_trial_metrics(trial)
            except Interrupted:
                raise
            except Exception as error:  # of any type: the other trials can still succeed
                self._fail(trial, describe(error), str(error) if isinstance(error, ValueError) else describe(error))

    def _train_in_workers(self, queue: Iterator[Trial], workers: int, max_minutes: float | None) -> None:
        """Train several trials at a time, each in a process of its own, until the time is over."""
        deadline = math.inf if max_minutes is None else time.monotonic() + 60 * max_minutes
        threads, number = thread_share(workers) if workers > 1 else 0, 0
        running: dict[Worker, Trial] = {}
        try:
            while time.monotonic() < deadline:
                while len(running) < workers and (trial := next(queue, None)) is not None:
                    number += 1
                    self._announce(number, trial)
                    if (worker := self._start(trial, threads)) is not None:
                        running[worker] = trial
                if not running:
                    return
                for worker, outcome in wait(list(running), deadline):
                    self._record(running.pop(worker), outcome)
            self.display.message(f"{max_minutes:g} minutes are over: stopping; the same command resumes")
        finally:
            self._stop(running)

    def _start(self, trial: Trial, threads: int) -> Worker | None:
        """Start a trial; None if it is finished already or cannot be started."""
        try:
            if self._is_finished(trial, read_trial(self.recipe, trial)):
                read_trial_metrics(trial)
                return None
        except ValueError as error:
            self._fail(trial, describe(error), str(error))
            return None
        is_path = isinstance(self.recipe, str | Path)
        text = str(self.recipe) if isinstance(self.recipe, str | Path) else self.recipe.to_yaml()
        return Worker(Job(text, not is_path, trial.overrides, str(trial.folder), self.plugins), threads)

    def _stop(self, running: dict[Worker, Trial]) -> None:
        """Let the workers stop with a checkpoint; after another interruption, end them."""
        for worker in running:
            worker.stop()
        try:
            while running:
                for worker, outcome in wait(list(running), math.inf):
                    self._record(running.pop(worker), outcome)
        finally:
            for worker in running:
                worker.kill()

    def _record(self, trial: Trial, outcome: str) -> None:
        if outcome == INTERRUPTED:
            return
        if outcome:
            self._fail(trial, outcome, f"{trial.name}: {outcome}")
            return
        try:
            read_trial_metrics(trial)
            self.display.message(f"  finished {trial.name}")
        except (ValueError, OSError) as error:
            self._fail(trial, describe(error), str(error))

    def _fail(self, trial: Trial, error: str, shown: str) -> None:
        trial.error = error
        self.display.message(f"  failed: {shown}")

    def _announce(self, number: int, trial: Trial) -> None:
        self.display.message(f"trial {number} of {len(self.trials)}: {trial.name}")

    def _is_finished(self, trial: Trial, run: Run) -> bool:
        if not is_finished(trial.folder):
            return False
        _require_same_recipe(trial.folder, run)
        self.display.message("  already finished")
        return True


def read_trial(recipe: str | Path | Run, trial: Trial) -> Run:
    """Return the run of a trial. Raises RecipeError."""
    from weft.training.recipes import read_run, read_run_text

    if isinstance(recipe, str | Path):
        return read_run(recipe, trial.overrides)
    return read_run_text(recipe.to_yaml(), "run.to_yaml()", Path(), trial.overrides)


def is_finished(path: Path) -> bool:
    """Return whether a trial was trained to its end."""
    folder = RunFolder(path)
    return folder.is_run() and folder.model.is_file() and folder.metrics.is_file() and folder.ledger.is_file()


def read_trial_metrics(trial: Trial) -> None:
    """Read the metrics of a finished trial."""
    metrics = read_metrics(RunFolder(trial.folder).metrics)
    trial.metric_values, trial.higher_is_better = metric_values(metrics), metric_directions(metrics)


def _require_same_recipe(folder: Path, run: Run) -> None:
    """Raise FolderError if a finished trial was trained with other options."""
    from weft.training.recipes import read_run

    found = compare_recipes(read_run(RunFolder(folder).recipe).dump(hashes=True), run.dump(hashes=True))
    if found:
        differences = "; ".join(f"{path} was {old!r}, now {new!r}" for path, (old, new) in found.items())
        raise FolderError(f"{folder} was trained with other options: {differences}")
