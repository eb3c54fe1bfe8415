"""``weft sweep``: a grid search that trains a recipe with every combination of values, and one table of the results."""

from __future__ import annotations

import contextlib
import hashlib
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from weft.evaluate.metrics_file import metric_directions, metric_values, read_metrics
from weft.experiments.sweep_folder import holds_sweep, lock_sweep
from weft.experiments.sweep_grid import Trial, build_trials, read_assignments, trial_groups
from weft.experiments.sweep_result import SweepResult
from weft.recipe import RecipeError
from weft.training.display import Display
from weft.training.run_folder import FolderError, RunFolder, compare_recipes

if TYPE_CHECKING:
    from weft.training.run import Run


def sweep(
    recipe: str | Path | Run,
    assignments: Sequence[str] | Mapping[str, Sequence[Any]],
    folder: str | Path,
    *,
    plugins: list[str] | None = None,
    display: Display | None = None,
) -> SweepResult:
    """Train a recipe with every combination of values, one after another, each into ``folder/<name of the trial>``.

    Every trial is checked before the first is trained. A trial that fails in training does not stop the others. The same call
    resumes a sweep that was interrupted: finished trials are kept, an interrupted one is resumed, failed ones are repeated.

    Args:
        recipe: A recipe file, the name of a shipped recipe, a run folder, or a Run.
        assignments: ``path=v1,v2`` as on the command line (a single value applies to all trials), or the values by path.
        folder: Folder for the trials, sweep.json, table.md and table.json.
        plugins: Names of imported plug-ins, which are recorded in the run folders.
        display: Shows the progress.

    Raises ValueError before training if a trial is not valid or the folder holds another sweep; Interrupted or KeyboardInterrupt
    if the sweep is interrupted, after writing the table of the finished trials.
    """
    values = read_assignments(assignments)
    root = Path(folder)
    trials = build_trials(values, root)
    display = display or Display()
    runs = _read_runs(recipe, trials)
    result = SweepResult(root, [path for path, texts in values.items() if len(texts) > 1], trials)
    home, first = RunFolder(root), runs[0].dump(hashes=True)
    if holds_sweep(home, values, first):
        display.message(f"resuming the sweep in {root}")
    _check_all(trials, runs, display)
    try:
        lock_sweep(home, values, first)
        try:
            for number, (trial, run) in enumerate(zip(trials, runs, strict=True), 1):
                display.message(f"trial {number} of {len(trials)}: {trial.name}")
                _train(trial, run, plugins or [], display)
        finally:
            _read_finished(trials)
            result.tabulate()
    finally:
        home.close()
    return result


def default_folder(recipe: str, assignments: Sequence[str]) -> Path:
    """Return ``runs/<recipe>-sweep-<hash>``, which is the same for the same command, so that repeating it resumes the sweep."""
    from weft.training.recipes import find_recipe, name_of_recipe

    name = name_of_recipe(find_recipe(recipe))
    key = json.dumps([[p, *texts] for p, texts in read_assignments(assignments).items()])
    return Path("runs") / f"{name}-sweep-{hashlib.sha256(key.encode()).hexdigest()[:6]}"


# ---------------------------------------------------------------------------------------------------------------- checks


def _read_runs(recipe: str | Path | Run, trials: list[Trial]) -> list[Run]:
    """The run of each trial. Raises ValueError with every mistake."""
    from weft.training.recipes import read_run, read_run_text
    from weft.training.run import Run

    found, problems = [], dict[str, list[str]]()
    text = recipe.to_yaml() if isinstance(recipe, Run) else ""
    for trial in trials:
        try:
            if isinstance(recipe, Run):
                found.append(read_run_text(text, "run.to_yaml()", Path(), trial.overrides))
            else:
                found.append(read_run(recipe, trial.overrides))
        except RecipeError as error:
            for problem in error.problems:
                problems.setdefault(str(problem), []).append(trial.name)
    _raise_problems(problems, len(trials))
    return found


def _check_all(trials: list[Trial], runs: list[Run], display: Display) -> None:
    """Run the checks of ``weft check`` on the unfinished trials, for one seed each. Raises ValueError with every problem."""
    from weft.training.dry_run import check, memory_problem

    problems: dict[str, list[str]] = {}
    unfinished = [trial for trial in trials if not _is_finished(trial.folder)]
    first = {name: members[0].name for name, members in trial_groups(unfinished).items()}
    with display.waiting(f"checking {len(trials)} trials"):
        for trial, run in zip(trials, runs, strict=True):
            if trial.name not in first.values():
                continue
            try:
                for report in check(run):
                    if problem := memory_problem(report):
                        raise ValueError(f"stage {report.stage}: {problem}")
            except ValueError as error:
                problems.setdefault(str(error), []).append(trial.name)
    _raise_problems(problems, len(first))


def _raise_problems(problems: Mapping[str, list[str]], trials: int) -> None:
    """Raise ValueError with the problems and the trials that have them, if there are any."""
    if not problems:
        return
    lines = [f"{text}\n  (in {_some(names) if len(names) < trials else 'every trial'})" for text, names in problems.items()]
    raise ValueError("\n".join(lines) + "\nnothing was trained")


def _some(names: list[str]) -> str:
    if len(names) == 1:
        return f"the trial {names[0]}"
    return f"{len(names)} trials: {'; '.join(names[:4])}{'; ...' * (len(names) > 4)}"


# -------------------------------------------------------------------------------------------------------------- training


def _is_finished(path: Path) -> bool:
    folder = RunFolder(path)
    return folder.is_run() and folder.model.is_file() and folder.metrics.is_file() and folder.ledger.is_file()


def _train(trial: Trial, run: Run, plugins: list[str], display: Display) -> None:
    """Train or resume a trial. An error is recorded in the trial, unless it is an interruption by the user."""
    from weft.learning import Interrupted
    from weft.training.trainer import train

    try:
        if _is_finished(trial.folder):
            _require_same_recipe(trial.folder, run)
            display.message("  already finished")
        else:
            folder = RunFolder(trial.folder)
            train(run, trial.folder, resume=folder.is_run() or folder.is_incomplete(), plugins=plugins, display=display)
        _read_metrics(trial)
    except Interrupted:
        raise
    except Exception as error:  # of any type: the other trials can still succeed
        expected = isinstance(error, ValueError | ArithmeticError | OSError)
        message = " ".join(str(error).split())
        trial.error = message if expected else f"{type(error).__name__}: {message}"
        display.message(f"  failed: {error if expected else trial.error}")


def _read_metrics(trial: Trial) -> None:
    metrics = read_metrics(RunFolder(trial.folder).metrics)
    trial.metric_values, trial.higher_is_better = metric_values(metrics), metric_directions(metrics)


def _read_finished(trials: list[Trial]) -> None:
    """Read the metrics of the finished trials that an interrupted sweep did not reach."""
    for trial in trials:
        if trial.metric_values is None and not trial.error and _is_finished(trial.folder):
            with contextlib.suppress(ValueError, OSError):
                _read_metrics(trial)


def _require_same_recipe(folder: Path, run: Run) -> None:
    """Raise FolderError if a finished trial was trained with other options."""
    from weft.training.recipes import read_run

    found = compare_recipes(read_run(RunFolder(folder).recipe).dump(hashes=True), run.dump(hashes=True))
    if found:
        differences = "; ".join(f"{path} was {old!r}, now {new!r}" for path, (old, new) in found.items())
        raise FolderError(f"{folder} was trained with other options: {differences}")
