"""Numbers on the command line are plain ASCII digits."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

from weft.core.plain_number import is_plain_integer, is_plain_number

_CHECKS: dict[str, Callable[[str], bool]] = {
    "integer": is_plain_integer,
    "integer range": is_plain_integer,
    "float": is_plain_number,
    "float range": is_plain_number,
}
"""How values of a type of click, by its name, must be written."""


def read_plain_numbers(command: Any) -> None:
    """Make a command and its subcommands refuse numbers with underscores or digits of other scripts, which Python would read."""
    for parameter in command.params:
        check = _CHECKS.get(parameter.type.name)
        if check is not None:
            parameter.type = copy.copy(parameter.type)  # click shares the type between parameters
            parameter.type.convert = _checked(parameter.type, check)
    for inner in getattr(command, "commands", {}).values():
        read_plain_numbers(inner)


def _checked(kind: Any, check: Callable[[str], bool]) -> Callable[..., Any]:
    convert = kind.convert

    def checked(value: Any, parameter: Any, context: Any) -> Any:
        if isinstance(value, str) and not check(value):
            kind.fail(f"{value!r} is not a number in plain digits, such as 1000.", parameter, context)
        return convert(value, parameter, context)

    return checked
