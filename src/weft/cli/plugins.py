"""Plug-ins: modules that register parts, recipes and commands, found without an edit in weft.

- The entry point ``weft.plugins`` of an installed package names a module that registers parts and recipes. It is imported
  before a command runs.
- The entry point ``weft.commands`` names a module that registers commands with `register_command`. It is imported whenever weft
  starts, so it imports torch only inside its functions.
- ``--import MODULE`` does the same for a module that is not installed.

The research systems in ``weft.systems`` register their parts and commands in this way.
"""

from __future__ import annotations

import importlib
import re
import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from importlib.metadata import entry_points
from typing import TYPE_CHECKING, Any

import typer

if TYPE_CHECKING:
    from weft.inference.trained_run import TrainedRun

PANEL = "Plug-ins"
NAME = re.compile(r"[a-z][a-z0-9-]{0,49}")
"""Names of commands."""
BUILT_IN: set[str] = set()
"""The names of weft's own commands."""


@dataclass(frozen=True)
class Plugins:
    """The plug-in modules of a command: those of ``--import``, then the installed ones."""

    requested: list[str]
    names: list[str]

    def arguments(self) -> list[str]:
        """The ``--import`` options that request the same plug-ins."""
        return [f"--import={module}" for module in self.requested]


@dataclass(frozen=True)
class PluginCommand:
    """A registered command.

    Args:
        name: Its name on the command line.
        run: A function decorated with [`command`][weft.cli.options.command], or a `typer.Typer` group of them.
        panel: The panel of ``weft --help`` that lists it.
        supports: Whether the command is for a trained run; None = it is not for trained runs.
    """

    name: str
    run: Callable[..., Any] | typer.Typer
    panel: str = PANEL
    supports: Callable[[TrainedRun], bool] | None = None

    def add_to(self, app: typer.Typer) -> None:
        """Add the command to a `typer.Typer` application."""
        if isinstance(self.run, typer.Typer):
            app.add_typer(self.run, name=self.name, rich_help_panel=self.panel)
        else:
            app.command(self.name, rich_help_panel=self.panel)(self.run)


COMMANDS: dict[str, PluginCommand] = {}
"""The commands of plug-ins by name."""


def register_command(
    run: Callable[..., Any] | typer.Typer,
    name: str,
    *,
    panel: str = PANEL,
    supports: Callable[[TrainedRun], bool] | None = None,
) -> None:
    """Register a command of a plug-in. Raises ValueError for a name that is taken or malformed.

    Args:
        run: A function decorated with [`command`][weft.cli.options.command], or a `typer.Typer` group of them.
        name: The name on the command line.
        panel: The panel of ``weft --help`` that lists it.
        supports: Whether the command is for a trained run, for messages that tell what a run can be used for.

    Example:
        >>> from weft.cli.options import command
        >>> @command
        ... def version() -> None:
        ...     '''Print the version.'''
        >>> register_command(version, "version")
        >>> COMMANDS.pop("version").panel
        'Plug-ins'
    """
    if not NAME.fullmatch(name):
        raise ValueError(
            f"{name[:40]!r} is no name of a command; use at most 50 lower-case letters, digits and -, a letter first"
        )
    if name in COMMANDS or name in BUILT_IN:
        raise ValueError(f"the command {name!r} exists; choose another name")
    COMMANDS[name] = PluginCommand(name, run, panel, supports)


def import_plugins(modules: list[str] | None) -> Plugins:
    """Import plug-ins: the named modules and the installed ones with an entry point ``weft.plugins``."""
    names = list(modules or [])
    if names and "" not in sys.path:
        sys.path.insert(0, "")
    names += [module for module in _installed("weft.plugins") if module not in names]
    if names:
        importlib.import_module("weft.training.run")  # first: a plug-in must not take a name of weft's own catalog
    for module in names:
        try:
            importlib.import_module(module.partition(":")[0])
        except (Exception, SystemExit) as error:  # third-party code: anything can go wrong
            raise ValueError(f"cannot import the plug-in {module}: {type(error).__name__}: {error}") from error
    return Plugins(list(modules or []), names)


def import_command_modules() -> Iterator[str]:
    """Import the modules that register commands: those of the research systems, and the installed ones with an entry point
    ``weft.commands``. Yield a problem for each that cannot be imported."""
    for module in (*importlib.import_module("weft.systems").COMMANDS, *_installed("weft.commands")):
        try:
            importlib.import_module(module)
        except (Exception, SystemExit) as error:
            yield f"cannot import the commands of {module}: {type(error).__name__}: {error}"


def requested_modules(arguments: Iterable[str]) -> list[str]:
    """Return the modules of ``--import`` in a command line that is not parsed yet.

    Example:
        >>> requested_modules(["report", "runs/a", "--import", "mine", "--import=yours"])
        ['mine', 'yours']
    """
    found: list[str] = []
    left = iter(arguments)
    for argument in left:
        if argument == "--import":
            found += [module for module in [next(left, "")] if module]
        elif argument.startswith("--import="):
            found.append(argument.removeprefix("--import="))
    return found


def _installed(group: str) -> list[str]:
    """The modules that installed packages name in an entry point."""
    return [entry.value for entry in entry_points(group=group)]
