"""Values of nested JSON rows by path: ``question.stem``, ``question.choices.*.text``, ``ending*``."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from weft.data.sources.parsing import to_cell


class PathValue(NamedTuple):
    """A value of a row, the path to it, and what ``*`` matched in the name of its column."""

    value: Any
    path: str
    star: str = ""


def follow_path(row: Mapping[str, Any], path: str) -> list[PathValue] | None:
    """Return the values at a path, with the items of a final list one by one; None if the path does not exist."""
    if path in row:  # a column whose own name has a dot
        return _items(row[path], path)
    if "." not in path and path.endswith("*"):
        pattern = re.compile(re.escape(path[:-1]) + r"[ _-]?([A-Za-z]|\d+)")
        named = [(match, value) for name, value in row.items() if (match := pattern.fullmatch(name))]
        return [PathValue(value, path, match[1]) for match, value in named] or None
    values: list[Any] = [row]
    for step in path.split("."):
        matching = [v for v in values if (isinstance(v, list) if step == "*" else isinstance(v, Mapping) and step in v)]
        if values and not matching:
            return None
        if len(matching) < len(values):
            raise ValueError(f"{path}: {len(values) - len(matching)} of {len(values)} items have no {step!r}")
        values = [item for value in matching for item in value] if step == "*" else [value[step] for value in matching]
    if "*" in path:
        return [PathValue(value, path) for value in values]
    return [found for value in values for found in _items(value, path)]


def _items(value: Any, path: str) -> list[PathValue]:
    return [PathValue(item, path) for item in value] if isinstance(value, list) else [PathValue(value, path)]


def find_value(row: Mapping[str, Any], option: str, name: str | None, usual: Sequence[str]) -> PathValue:
    """Return the single value at the path ``name``, or at the first of the usual paths; raise ValueError if there is none."""
    for path in usual if name is None else (name,):
        found = follow_path(row, path)
        if found is not None and len(found) == 1 and (name is not None or not isinstance(found[0].value, Mapping)):
            return found[0]
    raise ValueError(missing_path(row, option, name, usual))


def missing_path(row: Mapping[str, Any], option: str, name: str | None, usual: Sequence[str]) -> str:
    """Return the error message for a path that the row does not have."""
    wanted = repr(name) if name is not None else " or ".join(map(repr, usual))
    return f"no column {wanted}; available: {', '.join(_paths(row))}; name it with the option {option}"


def _paths(value: Any, path: str = "") -> Iterable[str]:
    """All paths of a row."""
    if isinstance(value, Mapping) and value:
        return dict.fromkeys(
            found for name, inner in value.items() for found in _paths(inner, f"{path}.{name}" if path else name)
        )
    if isinstance(value, list) and any(isinstance(item, Mapping) for item in value):
        return dict.fromkeys(found for item in value for found in _paths(item, f"{path}.*"))
    return [path]


def clean_text(value: Any, name: str) -> str:
    """Return a value as text without tabs: they separate the choices of a row."""
    if isinstance(value, Mapping | list):
        raise ValueError(f"{name} must be a text, not {str(value)[:40]}")
    return to_cell(value, name).replace("\t", " ").strip()
