"""Numbers on the command line are plain ASCII digits."""

from __future__ import annotations

import inspect
import itertools
import math
from collections.abc import Iterable, Sequence
from typing import Any, get_args

from weft.core.plain_number import is_plain_integer, is_plain_number

_OPTIONS: dict[str, type] = {}
"""The options of all commands that are numbers, and their type."""


def note_numbers(parameters: Iterable[inspect.Parameter]) -> None:
    """Remember which parameters of a command are numbers."""
    for parameter in parameters:
        kinds, declared = _kinds(parameter.annotation), [f"--{parameter.name.replace('_', '-')}"]
        for details in getattr(parameter.annotation, "__metadata__", ()):
            declared = list(getattr(details, "param_decls", None) or declared)
        if kinds & {int, float}:
            _OPTIONS.update(dict.fromkeys(declared, float if float in kinds else int))


def _kinds(annotation: Any) -> set[Any]:
    """The types in an annotation: of ``Annotated[int | None, ...]``, int and NoneType."""
    inner = get_args(annotation)[0] if hasattr(annotation, "__metadata__") else annotation
    return set(get_args(inner)) or {inner}


def check_numbers(arguments: Sequence[str]) -> None:
    """Raise ValueError for a number that Python reads but that is not written in plain digits: 1_000, full-width digits."""
    for argument, following in itertools.pairwise([*arguments, ""]):
        if argument == "--":
            return
        option, has_value, value = argument.partition("=")
        if option not in _OPTIONS:
            continue
        value, kind = value if has_value else following, _OPTIONS[option]
        try:
            if not math.isfinite(kind(value)):
                continue
        except ValueError:
            continue  # the command reports it
        if not (is_plain_integer(value) if kind is int else is_plain_number(value)):
            raise ValueError(f"{option}: {value!r} is not a number in plain digits, such as 1000")
