"""The public surface: every block's name, its options and their defaults, frozen in surface.json.

A change of the surface is a decision. Take it with

    python -m tests.catalog.surface
"""

from __future__ import annotations

import functools
import inspect
import json
from pathlib import Path
from typing import Any

from weft.core.registry import base_of, name_of, option_parameters

from .bench import entries, fill_catalog

FILE = Path(__file__).with_name("surface.json")
REQUIRED = "(required)"

Surface = dict[str, dict[str, dict[str, Any]]]


def surface() -> Surface:
    """Slot -> name -> option -> default."""
    found: Surface = {}
    for slot, name, factory in entries():
        known = {option: written(parameter.default) for option, parameter in option_parameters(factory).items()}
        found.setdefault(slot.__name__, {})[name] = known
    return {slot: dict(sorted(named.items())) for slot, named in sorted(found.items())}


def written(value: Any) -> Any:
    """A default as written in a recipe."""
    if value is inspect.Parameter.empty:
        return REQUIRED
    if base_of(value) is not None:
        given = value.keywords if isinstance(value, functools.partial) else {}
        name = name_of(value)
        return {"type": name, **{k: written(v) for k, v in given.items()}} if given else name
    if isinstance(value, list | tuple):
        return [written(v) for v in value]
    if isinstance(value, dict):
        return {str(k): written(v) for k, v in value.items()}
    return value if value is None or isinstance(value, bool | int | float | str) else repr(value)


def differences(frozen: Surface, now: Surface) -> list[str]:
    """What differs, a line for each block."""
    lines = []
    for slot in sorted({*frozen, *now}):
        before, after = frozen.get(slot, {}), now.get(slot, {})
        for name in sorted({*before, *after}):
            if name not in after:
                lines.append(f"{slot} {name!r} is gone")
            elif name not in before:
                lines.append(f"{slot} {name!r} is new")
            elif list(before[name].items()) != list(after[name].items()):
                lines.append(f"{slot} {name!r} had the options {before[name]}, now {after[name]}")
    return lines


if __name__ == "__main__":
    if broken := fill_catalog():
        raise SystemExit(f"not written, because these cannot be imported: {broken}")
    FILE.write_text(json.dumps(surface(), indent=2) + "\n", encoding="utf-8")
