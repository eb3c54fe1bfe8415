"""Recipes and runs as the commands name them: reading them, and messages that tell how to resume."""

from __future__ import annotations

import contextlib
import re
import shlex
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from weft.cli.console import FAILURE, INTERRUPTED, message
from weft.cli.plugins import COMMANDS

if TYPE_CHECKING:
    from weft.inference.trained_run import TrainedRun
    from weft.training.run import Run

PREDICTORS = frozenset(("Classifies", "Tags", "ScoresChoices", "ExtractsSpans", "PredictsMasked"))
"""Protocols of models that ``weft predict`` can use."""
_PROTOCOLS = {"weft generate": {"Decodes"}, "weft predict": PREDICTORS, "weft embed": {"Encodes"}}


def read_recipe(recipe: str, overrides: list[str] | None) -> Run:
    """Read a run from a recipe. If the recipe of a run folder is invalid, the message names plug-ins that were not imported."""
    from weft.recipe import RecipeError
    from weft.training.recipes import find_recipe, read_run
    from weft.training.run_folder import RunFolder

    path = find_recipe(recipe)
    try:
        return read_run(recipe, overrides or [])
    except RecipeError as error:
        if missing := [name for name in RunFolder(path.parent).plugins() if name.partition(":")[0] not in sys.modules]:
            raise ValueError(f"{error}\nthis run was trained with plug-ins: add --import {' --import '.join(missing)}") from None
        raise


def load_for_files(run: Path, arguments: list[str] | None) -> tuple[TrainedRun, list[str]]:
    """Load a run and split the arguments into overrides, which change how data is read, and data files. Returns run and files."""
    from weft.core.registry import option_parameters
    from weft.inference.load import load
    from weft.training.run import Run

    arguments = arguments or []
    overrides = [a for a in arguments if "=" in a and not Path(a).exists() and re.split(r"[.=]", a)[0] in option_parameters(Run)]
    files = [a for a in arguments if a not in overrides]
    trained = load(run, changes=overrides)
    if overrides and not files:
        raise ValueError(f"{overrides[0]} changes how data files are read, but no file is given: name the files as well")
    return trained, files


def capabilities(run: TrainedRun) -> set[str]:
    """The names of the protocols that the model of a run provides."""
    return {protocol.__name__ for protocol in run.model.provides()}


def commands_for(run: TrainedRun) -> list[str]:
    """The commands that a run supports, those of plug-ins included."""
    provided = capabilities(run)
    if getattr(run.model, "class_conditional", False):
        provided -= {"Decodes"}  # not from a text alone
    plain = [name for name, any_of in _PROTOCOLS.items() if any_of & provided]
    return [*plain, *(f"weft {one.name}" for one in COMMANDS.values() if one.supports is not None and one.supports(run))]


@contextlib.contextmanager
def resumable(folder: Path, imports: list[str] | None = None) -> Iterator[None]:
    """While training: turn an interruption into an exit code and print the command that resumes the run."""
    from weft.learning import Interrupted, NonFiniteError

    command = shlex.join(["weft", "train", str(folder), "--resume", *(imports or [])])
    try:
        yield
    except Interrupted:
        message(f"interrupted; the checkpoint is in {folder}. Resume with: {command}")
        raise typer.Exit(INTERRUPTED) from None
    except KeyboardInterrupt:
        message(f"interrupted before the step was finished. Resume from the last checkpoint with: {command}")
        raise typer.Exit(INTERRUPTED) from None
    except NonFiniteError as error:
        message(f"error: {error}\nthe last finite checkpoint is kept; see learning.on_nonfinite (stop, skip, rollback)")
        raise typer.Exit(FAILURE) from None
