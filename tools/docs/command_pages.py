"""Pages of the command line: an index and a page for each command."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any, Literal, get_args, get_origin, get_type_hints

from tools.docs.markdown import cell, code, page, prose, table
from tools.docs.package import command_line

FOLDER = "reference/cli"
WORDS = {int: "INTEGER", float: "NUMBER", str: "TEXT", Path: "PATH"}


def commands() -> list[tuple[str, Any]]:
    """Every command with its whole name (``latent sample``); a group comes before its commands."""
    return list(_below(command_line(), ""))


def _below(group: Any, prefix: str) -> Iterator[tuple[str, Any]]:
    for name, command in group.commands.items():
        if not command.hidden:
            yield f"{prefix}{name}", command
            if hasattr(command, "commands"):
                yield from _below(command, f"{prefix}{name} ")


def pages() -> Iterator[tuple[str, str]]:
    """Path and Markdown of every page: one for each command, a group's commands on the group's page."""
    top = [(name, command) for name, command in commands() if " " not in name]
    rows = [[f"[`weft {name}`]({name}.md)", cell(prose(first_line(command)))] for name, command in top]
    yield (
        f"{FOLDER}/index.md",
        page(
            "# Command line",
            prose(command_line().help),
            code("$ weft [--version] [--help] COMMAND [ARGUMENTS]", "console"),
            table(["Command", "Purpose"], rows),
            "Exit codes: 0 success, 1 failure, 2 invalid input (recipe, option or data), 130 interrupted.",
        ),
    )
    for name, command in top:
        inner = [(n, c) for n, c in commands() if n.startswith(f"{name} ")]
        yield f"{FOLDER}/{name}.md", page(_command(name, command, "#"), *(_command(n, c, "##") for n, c in inner))


def first_line(command: Any) -> str:
    """The first sentence of a command's help."""
    return " ".join((command.help or "").split()).partition(". ")[0]


def _command(name: str, command: Any, heading: str) -> str:
    arguments = [p for p in command.params if not _is_option(p)]
    options = [p for p in command.params if _is_option(p)]
    hints = get_type_hints(inspect.unwrap(command.callback), include_extras=True) if command.callback else {}
    title = f"{heading} weft {name} {{#{name.replace(' ', '-')}}}"
    return page(
        title,
        prose(" ".join((command.help or "").split())),
        code(_usage(name, arguments, options, hasattr(command, "commands")), "console"),
        table(["Argument", "Description"], map(_argument, arguments)) if arguments else None,
        table(["Option", "Value", "Default", "Description"], (_row(p, hints) for p in options)) if options else None,
    )


def _is_option(parameter: Any) -> bool:
    return parameter.opts[0].startswith("-")


def _usage(name: str, arguments: list[Any], options: list[Any], group: bool) -> str:
    words = [f"$ weft {name}", *(_metavar(p) if p.required or _metavar(p)[0] == "[" else f"[{_metavar(p)}]" for p in arguments)]
    return " ".join([*words, *(["[OPTIONS]"] if options else []), *(["COMMAND [ARGUMENTS]"] if group else [])])


def _metavar(parameter: Any) -> str:
    return parameter.metavar or parameter.name.upper()


def _argument(parameter: Any) -> list[str]:
    return [f"`{_metavar(parameter)}`", cell(prose(parameter.help or ""))]


def _row(parameter: Any, hints: dict[str, Any]) -> list[str]:
    flags = ", ".join(f"`{flag}`" for flag in [*parameter.opts, *parameter.secondary_opts])
    default = parameter.default
    shown = "" if default is None or default is False or default == [] or callable(default) else f"`{default}`"
    return [flags, cell(_value(parameter, hints.get(parameter.name))), shown, cell(prose(parameter.help or ""))]


def _value(parameter: Any, hint: Any) -> str:
    """What stands after an option: its metavar or type, with its range; nothing after a flag."""
    kinds, low, high = _kinds(hint)
    if kinds == [bool]:
        return ""
    literals = [str(value) for kind in kinds if get_origin(kind) is Literal for value in get_args(kind)]
    word = parameter.metavar or " or ".join(literals) or next((WORDS[kind] for kind in kinds if kind in WORDS), "TEXT")
    bounds = {(False, False): "", (True, False): f" ≥ {low}", (False, True): f" ≤ {high}", (True, True): f" {low} to {high}"}
    return f"{word}{bounds[low is not None, high is not None]}"


def _kinds(hint: Any) -> tuple[list[Any], Any, Any]:
    """The types of a parameter without None and list, and its bounds."""
    low = high = None
    if get_origin(hint) is Annotated:
        hint, *rest = get_args(hint)
        low, high = next(((r.min, r.max) for r in rest if hasattr(r, "min")), (None, None))
    members = [member for member in (get_args(hint) or (hint,)) if member is not type(None)]
    if get_origin(hint) is Literal:
        members = [hint]
    return [get_args(member)[0] if get_origin(member) is list else member for member in members], low, high
