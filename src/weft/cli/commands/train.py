"""``weft train``."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Annotated

import typer

from weft.cli.console import message
from weft.cli.options import Overrides, Plugins, Quiet, Recipe, command
from weft.cli.runs import read_recipe, resumable


@command
def train(
    plugins: Plugins,
    recipe: Recipe,
    overrides: Overrides = None,
    run: Annotated[Path | None, typer.Option("--run", metavar="DIR", help="Run folder (default: runs/<recipe>-<n>).")] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Resume an interrupted run from its last checkpoint.")] = False,
    quiet: Quiet = False,
    tensorboard: Annotated[bool, typer.Option("--tensorboard", help="Write TensorBoard event files.")] = False,
) -> None:
    """Train a recipe. Interrupt with Ctrl-C, resume with --resume."""
    from weft.cli.check_report import warnings_of
    from weft.training.display import Display, Terminal
    from weft.training.dry_run import check, memory_problem
    from weft.training.recipes import find_recipe
    from weft.training.run_folder import latest_folder, next_folder
    from weft.training.trainer import train as train_run

    if resume:
        run = _folder_to_resume(recipe, run)
    specification = read_recipe(recipe, overrides)
    folder = run or (latest_folder(specification.name) if resume else next_folder(specification.name))
    if not resume:
        for report in check(specification):
            if problem := memory_problem(report):
                raise ValueError(f"{find_recipe(recipe)}: stage {report.stage}: {problem}")
    for warning in [] if quiet else warnings_of(specification):
        message(f"warning: {warning}")
    with resumable(folder, plugins.arguments()):
        display = Display() if quiet else Terminal()
        train_run(specification, folder, resume=resume, plugins=plugins.names, display=display, tensorboard=tensorboard)


def _folder_to_resume(recipe: str, run: Path | None) -> Path | None:
    """The folder of ``--resume``: that of ``--run``, or the recipe argument if it names a run. Raises ValueError."""
    from weft.training.run_folder import RunFolder

    named = Path(recipe).parent if Path(recipe).name == "recipe.yaml" else Path(recipe)
    if run is None and RunFolder(named).is_run():
        return named
    folder = RunFolder(run or Path(recipe))
    if folder.path.is_dir() and not folder.is_run() and not (run and folder.is_incomplete()):
        if folder.is_incomplete() or not any(folder.path.iterdir()):
            start = shlex.join(["weft", "train", "RECIPE", "--run", str(folder.path)])
            raise ValueError(f"{folder.path} holds no run to resume; start one with: {start}")
        raise ValueError(
            f"{folder.path} is not a run folder (it has no recipe.yaml); name a run folder, or a recipe and --run DIR"
        )
    return run
