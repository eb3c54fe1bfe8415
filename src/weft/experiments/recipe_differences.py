"""Options that differ between recipes, and whether the runs are still comparable."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

from weft.experiments.tables import format_option

_PARTS = {"data.type": "data", "objective.type": "objectives", "structure.type": "structures"}
_DATA = re.compile(r"(stages\.\d+\.)?data\.")
_COMPARABLE_DATA = re.compile(r"data\.(type|train)\b")
_EVALUATION = re.compile(r"(stages\.\d+\.)?evaluate\.(type|metrics|search)\b")


def recipe_differences(recipes: Sequence[Any]) -> dict[str, list[Any]]:
    """Return the options that differ between filled recipes: path -> the value in each, None where it is absent.

    A file with a hash is shown as ``path (hash)``. A list of plain values is one value.

    >>> recipe_differences([{"data": {"train": 60}, "seed": 1}, {"data": {"train": 90}, "seed": 1}])
    {'data.train': [60, 90]}
    """
    flat = [_flatten(recipe) for recipe in recipes]
    paths = dict.fromkeys(path for one in flat for path in one)
    values = {path: [one.get(path) for one in flat] for path in paths}
    return {path: v for path, v in values.items() if any(json.dumps(x) != json.dumps(v[0]) for x in v[1:])}


def _flatten(value: Any, path: str = "") -> dict[str, Any]:
    if isinstance(value, dict) and set(value) == {"path", "sha256"}:
        return {path: f"{value['path']} ({str(value['sha256'])[:8]})"}
    inner = value if isinstance(value, dict) else dict(enumerate(value)) if isinstance(value, list) else {}
    if not inner:
        return {path: value}
    if isinstance(value, list) and not any(isinstance(v, dict | list) for v in value):
        return {path: value}
    return {p: v for key, item in inner.items() for p, v in _flatten(item, f"{path}.{key}" if path else str(key)).items()}


def comparability_notes(options: Mapping[str, list[Any]], names: Sequence[str]) -> list[str]:
    """Return notes on differences that may make metrics incomparable: other data, objectives, structures or evaluation.

    Args:
        options: The options that differ, from ``recipe_differences``.
        names: The names of the runs.
    """
    notes = []
    for path, part in _PARTS.items():
        if path in options:
            values = ", ".join(f"{name}: {format_option(value)}" for name, value in zip(names, options[path], strict=True))
            warning = "" if path == "structure.type" else "; metrics of the same name may not be comparable"
            notes.append(f"the runs have different {part} ({values}){warning}")
    data = [path for path in options if _DATA.match(path) and not _COMPARABLE_DATA.match(path)]
    if data and "data.type" not in options:
        notes.append(f"the data differ in {_first_three(data)}; metrics may not be comparable")
    if evaluation := [path for path in options if _EVALUATION.match(path)]:
        notes.append(f"the runs are evaluated differently ({_first_three(evaluation)})")
    return notes


def _first_three(names: list[str]) -> str:
    return ", ".join(names[:3]) + (", ..." if len(names) > 3 else "")
