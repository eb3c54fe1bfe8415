"""``weft sweep``: trains a recipe with many combinations of values, and one table of the results."""

from __future__ import annotations

import contextlib
import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from weft.experiments.sweep_folder import add_configuration, holds_sweep, lock_sweep, read_configurations
from weft.experiments.sweep_grid import MAX_TRIALS, Trial, build_trials, read_assignments, search_trials, trial_groups
from weft.experiments.sweep_result import SweepResult
from weft.experiments.sweep_search import SearchKind, import_optuna, is_searched, propose, random_configurations
from weft.experiments.sweep_session import Session, is_finished, read_trial, read_trial_metrics
from weft.recipe import RecipeError
from weft.training.display import Display
from weft.training.run_folder import RunFolder

if TYPE_CHECKING:
    from weft.training.run import Run


def sweep(
    recipe: str | Path | Run,
    assignments: Sequence[str] | Mapping[str, Sequence[Any]],
    folder: str | Path,
    *,
    search: SearchKind = "grid",
    max_trials: int = 20,
    metric: str | None = None,
    workers: int = 1,
    max_minutes: float | None = None,
    plugins: list[str] | None = None,
    display: Display | None = None,
) -> SweepResult:
    """Train a recipe with many combinations of values, each into ``folder/<name of the trial>``.

    Every trial of a grid or random search is checked before the first is trained. A trial that fails in training does not stop
    the others. The same call resumes a sweep that was interrupted: finished trials are kept, an interrupted one is resumed,
    failed ones are repeated.

    Args:
        recipe: A recipe file, the name of a shipped recipe, a run folder, or a Run.
        assignments: ``path=v1,v2`` as on the command line (a single value applies to all trials), or the values by path. A range
            ``low..high`` (``:log`` for a logarithmic one) is searched; one of integers is a list in a grid.
        folder: Folder for the trials, sweep.json, table.md and table.json.
        search: ``grid`` trains all combinations; ``random`` samples them; ``optuna`` proposes them after the earlier results.
        max_trials: Number of configurations of a random search or of Optuna; each is trained with every seed and fold.
        metric: Validation metric that ranks the trials; None = ``evaluate.monitor``, or if that is the loss, the first metric.
        workers: Number of trials that are trained at the same time, each in a process with its share of the threads.
        max_minutes: After this time, running trials are stopped with a checkpoint; the same call resumes. None = no limit.
        plugins: Names of imported plug-ins, which are recorded in the run folders.
        display: Shows the progress.

    Raises ValueError before training if a trial is not valid or the folder holds another sweep; Interrupted or KeyboardInterrupt
    if the sweep is interrupted, after writing the table of the finished trials.
    """
    values, root, display = read_assignments(assignments, search), Path(folder), display or Display()
    if search == "optuna":
        import_optuna()
    trials = _first_trials(values, root, search, max_trials)
    runs = _read_runs(recipe, trials)
    paths = [path for path, texts in values.items() if len(texts) > 1 or is_searched(path, texts)]
    result = SweepResult(root, paths, trials, preferred=_preferred(runs[0], metric))
    home, first = RunFolder(root), runs[0].dump(hashes=True)
    known = values if search == "grid" else {**values, "--search": [search]}
    if holds_sweep(home, known, first):
        display.message(f"resuming the sweep in {root}")
    _check_all(trials, runs, display)
    session = Session(recipe, trials, plugins or [], display)
    try:
        lock_sweep(home, known, first)
        try:
            session.train(_queue(result, values, search, max_trials), workers, max_minutes)
        finally:
            _read_finished(trials)
            result.tabulate()
    finally:
        home.close()
    if metric is not None and result.metric is None and any(row.n for row in result.rows):
        display.message(f"no trial has the validation metric {metric!r}; the rows are not ranked")
    return result


def default_folder(recipe: str, assignments: Sequence[str], search: SearchKind = "grid") -> Path:
    """Return ``runs/<recipe>-sweep-<hash>``, which is the same for the same command, so that repeating it resumes the sweep."""
    from weft.training.recipes import find_recipe, name_of_recipe

    name = name_of_recipe(find_recipe(recipe))
    key = json.dumps([[p, *texts] for p, texts in read_assignments(assignments, search).items()])
    key += "" if search == "grid" else search
    return Path("runs") / f"{name}-sweep-{hashlib.sha256(key.encode()).hexdigest()[:6]}"


# ---------------------------------------------------------------------------------------------------------------- trials


def _first_trials(values: Mapping[str, list[str]], root: Path, search: SearchKind, max_trials: int) -> list[Trial]:
    """The trials that are known before the first is trained: all of them, or with Optuna those proposed so far."""
    if search == "grid":
        return build_trials(values, root)
    if search == "random":
        found = list(random_configurations(values, max_trials))
    else:
        found = read_configurations(root) or [propose(values, [], 0)]
    trials = [trial for number, one in enumerate(found, 1) for trial in search_trials(number, one, values, root)]
    if (total := len(trials) // len(found) * max(max_trials, len(found))) > MAX_TRIALS:
        raise ValueError(
            f"{max_trials:,} configurations with seeds and folds are {total:,} trials; at most {MAX_TRIALS:,} are allowed"
        )
    return trials


def _queue(result: SweepResult, values: Mapping[str, list[str]], search: SearchKind, max_trials: int) -> Iterator[Trial]:
    """The trials in order. Those of Optuna are proposed when they are needed, from the results at that moment, and recorded."""
    yield from list(result.trials)
    if search != "optuna":
        return
    searched = [path for path, texts in values.items() if is_searched(path, texts)]
    if not read_configurations(result.folder):
        add_configuration(result.folder, result.trials[0].chosen(searched))
    for number in range(len(read_configurations(result.folder)), max_trials):
        result.aggregate()
        by_name = {trial.name: trial for trial in result.trials}
        done = {trial.name for trial in result.trials if trial.metric_values is not None or trial.error}
        rows = [row for row in result.rows if done.issuperset(row.trials)]
        rows.sort(key=lambda row: result.trials.index(by_name[row.trials[0]]))  # as proposed, not as ranked
        history = [(by_name[row.trials[0]].chosen(searched), result.score(row)) for row in rows]
        configuration = propose(values, history, number)
        add_configuration(result.folder, configuration)
        trials = search_trials(number + 1, configuration, values, result.folder)
        result.trials += trials
        yield from trials


def _preferred(run: Run, metric: str | None) -> list[str]:
    """Names of the validation metrics that rank the trials: the first one that there is."""
    if metric is not None:
        return [metric.removeprefix("valid "), metric.replace("-", "_")]
    evaluation = run.evaluation()
    names = [name for one in evaluation.metrics for name in one.higher_is_better]
    return [*([] if evaluation.monitor == "loss" else [evaluation.monitor]), *names, "loss"]


# ---------------------------------------------------------------------------------------------------------------- checks


def _read_runs(recipe: str | Path | Run, trials: list[Trial]) -> list[Run]:
    """The run of each trial. Raises ValueError with every mistake."""
    found, problems = [], dict[str, list[str]]()
    for trial in trials:
        try:
            found.append(read_trial(recipe, trial))
        except RecipeError as error:
            for problem in error.problems:
                problems.setdefault(str(problem), []).append(trial.name)
    _raise_problems(problems, len(trials))
    return found


def _check_all(trials: list[Trial], runs: list[Run], display: Display) -> None:
    """Run the checks of ``weft check`` on the unfinished trials, for one seed each. Raises ValueError with every problem."""
    from weft.training.dry_run import check, memory_problem

    problems: dict[str, list[str]] = {}
    unfinished = [trial for trial in trials if not is_finished(trial.folder)]
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
    lines = [
        f"{text}\n  (in {_some(names) if len(names) < trials or trials == 1 else 'every trial'})"
        for text, names in problems.items()
    ]
    raise ValueError("\n".join(lines) + "\nnothing was trained")


def _some(names: list[str]) -> str:
    if len(names) == 1:
        return f"the trial {names[0]}"
    return f"{len(names)} trials: {'; '.join(names[:4])}{'; ...' * (len(names) > 4)}"


def _read_finished(trials: list[Trial]) -> None:
    """Read the metrics of the finished trials that an interrupted sweep did not reach."""
    for trial in trials:
        if trial.metric_values is None and not trial.error and is_finished(trial.folder):
            with contextlib.suppress(ValueError, OSError):
                read_trial_metrics(trial)
