"""Recorded results of arms, kept in the repository: tables need no training, and name missing arms.

One file per arm under benchmarks/results, named by the arm and the hash of its recipe; evaluation settings outside the recipe are
part of the name.
"""

from __future__ import annotations

import json
import re
import statistics
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from weft.core.io import read_json, write_text

FOLDER = Path(__file__).parent / "results"


_HASH = re.compile(r"-[0-9a-f]{8}(?=-|$)")
"""The hash of the recipe in the name of an arm."""


def recorded(name: str) -> dict[str, Any] | None:
    """Return the results under this name, or None.

    The hash of a recipe changes when an option is renamed or a default is added. If the only result of the same arm has another
    hash, it is returned, and a line is printed.
    """
    file = FOLDER / f"{name}.json"
    if file.is_file():
        return read_json(file)
    earlier = [path for path in FOLDER.glob(f"{_HASH.sub('-*', name)}.json") if _HASH.sub("", path.stem) == _HASH.sub("", name)]
    if len(earlier) != 1 or not _HASH.search(name):
        return None
    print(f"{earlier[0].stem}: measured with an earlier version of the recipe")
    return read_json(earlier[0])


def record(name: str, metric_values: dict[str, Any]) -> None:
    FOLDER.mkdir(exist_ok=True)
    write_text(FOLDER / f"{name}.json", json.dumps(metric_values, indent=1, sort_keys=True) + "\n")


def spread(found: Sequence[float], digits: int = 1) -> str:
    """Mean and standard deviation of several seeds, for a table."""
    if not found:
        return ""
    return f"{statistics.mean(found):.{digits}f}" + (f" ± {statistics.stdev(found):.{digits}f}" if len(found) > 1 else "")
