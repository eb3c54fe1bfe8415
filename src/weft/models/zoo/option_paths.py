"""Options of a structure by their paths, such as ``encoder.layer.mixer.heads``.

Where a part is a list, the next step is an index; or the name of an option that all parts have: they are read from the first one,
and set in all.
"""

from __future__ import annotations

import functools
from typing import Any

from weft.core.registry import base_of, option_values


def option_at(factory: Any, path: str) -> Any:
    """The option at a path of nested factories, defaults included: ``option_at(factory, "encoder.layer.mixer.heads")``."""
    for step in path.split("."):
        if isinstance(factory, list | tuple):
            factory = factory[int(step) if step.isdecimal() else 0]
            if step.isdecimal():
                continue
        factory = option_values(factory)[step]
    return factory


def has_option(factory: Any, path: str) -> bool:
    """Whether nested factories have an option at a path; a part that is None has none."""
    step, _, rest = path.partition(".")
    if isinstance(factory, list | tuple):
        if not step.isdecimal():
            return bool(factory) and all(has_option(part, path) for part in factory)
        if int(step) >= len(factory):
            return False
        found = factory[int(step)]
    else:
        options = {} if base_of(factory) is None else option_values(factory)
        if step not in options:
            return False
        found = options[step]
    return not rest or has_option(found, rest)


def with_options(factory: Any, **changes: Any) -> Any:
    """A factory with some options replaced."""
    base: Any = base_of(factory)
    return functools.partial(base, **{**option_values(factory), **changes})


def with_option_at(factory: Any, path: str, value: Any) -> Any:
    """Nested factories with the option at a path replaced."""
    step, _, rest = path.partition(".")
    if isinstance(factory, list | tuple) and not step.isdecimal():
        return [with_option_at(part, path, value) for part in factory]
    if isinstance(factory, list | tuple):
        return [with_option_at(part, rest, value) if i == int(step) else part for i, part in enumerate(factory)]
    return with_options(factory, **{step: with_option_at(option_values(factory)[step], rest, value) if rest else value})
