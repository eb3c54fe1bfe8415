"""``weft compare`` and ``weft sweep``: several runs at once."""

from __future__ import annotations

import shlex
from dataclasses import dataclass, fields
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from weft.cli.console import FAILURE, INTERRUPTED, message, print_json
from weft.cli.options import Json, Quiet, Recipe, command
from weft.cli.plugins import Plugins


class SearchMethod(StrEnum):
    """How the configurations of a sweep are chosen."""

    GRID = "grid"
    RANDOM = "random"
    OPTUNA = "optuna"


@command
def compare(
    runs: Annotated[list[Path], typer.Argument(metavar="RUN...", help="Two or more run folders.", show_default=False)],
    out: Annotated[Path, typer.Option(metavar="FILE", help="Plot of the learning curves.")] = Path("compare.png"),
    as_json: Json = False,
) -> None:
    """Compare runs: options that differ, learning curves in one plot, metrics side by side with tests of significance."""
    from weft.experiments.compare import compare as compare_runs

    comparison = compare_runs(runs, out)
    if as_json:
        print_json(comparison.as_json())
    else:
        comparison.print()


@dataclass(frozen=True)
class SweepOptions:
    """How a sweep chooses, ranks and trains its trials."""

    random: Annotated[
        int | None,
        typer.Option("--random", metavar="N", min=1, help="Random search: train N random configurations.", show_default=False),
    ] = None
    search: Annotated[
        SearchMethod, typer.Option("--search", help="How the configurations are chosen; optuna needs the extra optuna.")
    ] = SearchMethod.GRID
    trials: Annotated[
        int, typer.Option("--trials", metavar="N", min=1, help="Number of configurations for --search random or optuna.")
    ] = 20
    folds: Annotated[
        int | None,
        typer.Option(
            "--folds", metavar="K", min=2, help="K-fold cross-validation: data.folds=K data.fold=0..K-1.", show_default=False
        ),
    ] = None
    metric: Annotated[
        str | None,
        typer.Option(
            "--metric",
            metavar="NAME",
            help="Validation metric that ranks the trials (default: evaluate.monitor, or if that is the loss, the first metric).",
            show_default=False,
        ),
    ] = None
    workers: Annotated[
        int, typer.Option("--workers", metavar="N", min=1, help="Trials to train at the same time, in processes of their own.")
    ] = 1
    max_minutes: Annotated[
        float | None,
        typer.Option(
            "--max-minutes", metavar="M", min=0.01, help="Stop after this time; the same command resumes.", show_default=False
        ),
    ] = None

    def kind(self) -> Any:
        """How the configurations are chosen. Raises ValueError for options that exclude each other."""
        if self.random is not None and self.search is not SearchMethod.GRID:
            raise ValueError(f"--random N and --search {self.search.value} exclude each other; use one of them")
        return "random" if self.random is not None else self.search.value

    def assignments(self, given: list[str] | None) -> list[str]:
        """The assignments that are given, and those of the folds."""
        folds = [f"data.folds={self.folds}", f"data.fold=0..{self.folds - 1}"] if self.folds else []
        return [*(given or []), *folds]

    def arguments(self) -> list[str]:
        """The options that differ from their defaults, as on the command line, without ``--folds``."""
        chosen = {f.name: getattr(self, f.name) for f in fields(self) if f.name != "folds" and getattr(self, f.name) != f.default}
        return [f"--{name.replace('_', '-')}={value}" for name, value in chosen.items()]


@command
def sweep(
    plugins: Plugins,
    recipe: Recipe,
    options: SweepOptions,
    assignments: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[PATH=V1,V2...]...",
            help="The values of each option: a list (seed=1,2,3), a range of integers (data.fold=0..4), or for random search and "
            "Optuna a range of numbers (learning.optimizer.lr=1e-5..1e-2:log).",
            show_default=False,
        ),
    ] = None,
    run: Annotated[
        Path | None, typer.Option("--run", metavar="DIR", help="Folder of the sweep (default: runs/<recipe>-sweep-<hash>).")
    ] = None,
    quiet: Quiet = False,
    as_json: Json = False,
) -> None:
    """Train a recipe with many combinations of values: a grid, a random search, Optuna, or the folds of cross-validation.

    The table has mean and standard deviation over seeds and folds, ranked by a validation metric, and the test metrics of the
    best row. Interrupt with Ctrl-C; the same command resumes.
    """
    from weft.experiments.sweep import default_folder
    from weft.experiments.sweep import sweep as run_sweep
    from weft.learning import Interrupted
    from weft.training.display import Display, Terminal

    kind, varied = options.kind(), options.assignments(assignments)
    folder = run or default_folder(recipe, varied, kind)
    try:
        result = run_sweep(
            recipe,
            varied,
            folder,
            search=kind,
            max_trials=options.random or options.trials,
            metric=options.metric,
            workers=options.workers,
            max_minutes=options.max_minutes,
            plugins=plugins.names,
            display=Display() if quiet else Terminal(),
        )
    except (Interrupted, KeyboardInterrupt):
        command_line = ["weft", "sweep", recipe, *varied, *options.arguments(), "--run", str(folder), *plugins.arguments()]
        message(f"interrupted; finished runs and the last checkpoint are in {folder}. Resume with: {shlex.join(command_line)}")
        raise typer.Exit(INTERRUPTED) from None
    if as_json:
        print_json(result.as_json())
    else:
        result.print()
        message(f"wrote {folder / 'table.md'}")
    if result.failed:
        raise typer.Exit(FAILURE)
