"""``weft train``."""

from __future__ import annotations

import shlex
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from weft.cli.console import message
from weft.cli.launch import Group, launch
from weft.cli.options import Overrides, Quiet, Recipe, command
from weft.cli.plugins import Plugins
from weft.cli.runs import read_recipe, resumable

if TYPE_CHECKING:
    from weft.training.run import Run

GROUP_PANEL = "Several processes"


class ExperimentTracker(StrEnum):
    """What receives the log of a run beside its folder."""

    TENSORBOARD = "tensorboard"
    WANDB = "wandb"
    MLFLOW = "mlflow"


@command
def train(
    plugins: Plugins,
    recipe: Recipe,
    overrides: Overrides = None,
    run: Annotated[Path | None, typer.Option("--run", metavar="DIR", help="Run folder (default: runs/<recipe>-<n>).")] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Resume an interrupted run from its last checkpoint.")] = False,
    quiet: Quiet = False,
    keep: Annotated[
        bool, typer.Option("--keep", help="Keep the checkpoints of the finished run, to resume it with more steps.")
    ] = False,
    track: Annotated[
        ExperimentTracker | None, typer.Option("--track", help="Tracker that receives the log too.", show_default=False)
    ] = None,
    processes: Annotated[
        int, typer.Option(help="Processes on this host that train together.", min=1, max=1024, rich_help_panel=GROUP_PANEL)
    ] = 1,
    nodes: Annotated[
        int,
        typer.Option(help="Hosts that train together; start the command on each.", min=1, max=65536, rich_help_panel=GROUP_PANEL),
    ] = 1,
    rendezvous: Annotated[
        str | None, typer.Option(metavar="HOST:PORT", help="Address of one of the hosts.", rich_help_panel=GROUP_PANEL)
    ] = None,
) -> None:
    """Train a recipe. Interrupt with Ctrl-C, resume with --resume."""
    from weft.training.display import Display, Terminal
    from weft.training.run_folder import latest_folder, next_folder
    from weft.training.trainer import train as train_run

    group = Group(processes, nodes, rendezvous)
    if nodes > 1 and run is None and not resume:
        raise ValueError(f"--nodes {nodes} needs --run DIR: the run folder, which all hosts see")
    if resume:
        run = _folder_to_resume(recipe, run)
    specification = read_recipe(recipe, overrides)
    folder = run or (latest_folder(specification.name) if resume else next_folder(specification.name))
    if group.needs_launcher():
        arguments = ["train", recipe, *(overrides or []), *(["--resume"] if resume else []), "--run", str(folder)]
        arguments += [f"--{name}" for name, wanted in (("quiet", quiet), ("keep", keep)) if wanted]
        arguments += ["--track", track.value] if track else []
        launch(group, [*arguments, *group.arguments(), *plugins.arguments()], folder, plugins.arguments())
        return
    _check_first(recipe, specification, resume, quiet)
    with resumable(folder, [*group.arguments(), *plugins.arguments()]):
        display = Display() if quiet else Terminal()
        train_run(
            specification,
            folder,
            resume=resume,
            plugins=plugins.names,
            display=display,
            track=track.value if track else None,
            keep=keep,
        )


def _check_first(recipe: str, specification: Run, resume: bool, quiet: bool) -> None:
    """Raise ValueError for a run that does not fit into memory, and print warnings."""
    from weft.cli.check_report import warnings_of
    from weft.training.dry_run import check, memory_problem
    from weft.training.recipes import find_recipe

    for report in [] if resume else check(specification):
        if problem := memory_problem(report):
            raise ValueError(f"{find_recipe(recipe)}: stage {report.stage}: {problem}")
    for warning in [] if quiet else warnings_of(specification):
        message(f"warning: {warning}")


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
