"""Figures of arms that were run, kept in the repository: a table needs no run to be done again, and says which are missing.

A file for each arm under benchmarks/results, by its name and the hash of its recipe; what the arm was measured on besides the
recipe (how it was judged) is part of the name.
"""

from __future__ import annotations

import json
import statistics
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from weft.core.io import read_json, write_text

PLACE = Path(__file__).parent / "results"


def recorded(name: str) -> dict[str, Any] | None:
    """The figures under this name; None where there are none."""
    file = PLACE / f"{name}.json"
    return read_json(file) if file.is_file() else None


def record(name: str, metric_values: dict[str, Any]) -> None:
    PLACE.mkdir(exist_ok=True)
    write_text(PLACE / f"{name}.json", json.dumps(metric_values, indent=1, sort_keys=True) + "\n")


def spread(found: Sequence[float], digits: int = 1) -> str:
    """Mean and standard deviation of several seeds, for a table."""
    if not found:
        return ""
    return f"{statistics.mean(found):.{digits}f}" + (f" ± {statistics.stdev(found):.{digits}f}" if len(found) > 1 else "")
