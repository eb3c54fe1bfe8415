"""``weft compare`` and ``weft sweep``: several runs at once."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Annotated

import typer

from weft.cli.console import FAILURE, INTERRUPTED, message, print_json
from weft.cli.options import Json, Plugins, Quiet, Recipe, command


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


@command
def sweep(
    plugins: Plugins,
    recipe: Recipe,
    assignments: Annotated[
        list[str], typer.Argument(metavar="PATH=V1,V2...", help="The values of each option.", show_default=False)
    ],
    run: Annotated[
        Path | None, typer.Option("--run", metavar="DIR", help="Folder of the sweep (default: runs/<recipe>-sweep-<hash>).")
    ] = None,
    quiet: Quiet = False,
    as_json: Json = False,
) -> None:
    """Grid search: train a recipe with every combination of values, one after another.

    Interrupt with Ctrl-C; the same command resumes.
    """
    from weft.experiments.sweep import default_folder
    from weft.experiments.sweep import sweep as run_sweep
    from weft.learning import Interrupted
    from weft.training.display import Display, Terminal

    folder = run or default_folder(recipe, assignments)
    try:
        result = run_sweep(recipe, assignments, folder, plugins=plugins.names, display=Display() if quiet else Terminal())
    except (Interrupted, KeyboardInterrupt):
        again = shlex.join(["weft", "sweep", recipe, *assignments, "--run", str(folder), *plugins.arguments()])
        message(f"interrupted; finished runs and the last checkpoint are in {folder}. Resume with: {again}")
        raise typer.Exit(INTERRUPTED) from None
    if as_json:
        print_json(result.as_json())
    else:
        result.print()
        message(f"wrote {folder / 'table.md'}")
    if result.failed:
        raise typer.Exit(FAILURE)
