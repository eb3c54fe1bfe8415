"""Values and directions of the metrics in ``metrics.json``."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from weft.core.io import read_json

FORMAT = 1
_TYPES = {"split": str, "valid": dict, "intervals": dict, "signatures": dict, "remarks": list, "higher_is_better": dict}
"""Types of the entries that are not metrics."""


def read_metrics(path: Path) -> dict[str, Any]:
    """Return the content of a ``metrics.json``. Raises ValueError if it is not the file of a run in the current format."""
    metrics = read_json(path)
    if not isinstance(metrics, dict):
        raise ValueError(f"{path}: must be a JSON object with the metrics of a run, not {type(metrics).__name__}")
    if metrics.get("format") != FORMAT:
        raise ValueError(f"{path}: has format {metrics.get('format')!r}; this version of weft supports {FORMAT}")
    for name, kind in _TYPES.items():
        if not isinstance(metrics.get(name, kind()), kind):
            raise ValueError(f"{path}: {name}: must be a {kind.__name__}, not {type(metrics[name]).__name__}")
    return metrics


def metric_values(metrics: Mapping[str, Any]) -> dict[str, float]:
    """Return the metrics of a ``metrics.json`` by split and name (``test loss``), those of validation last.

    A metric that is not defined (null) is NaN.
    """
    split, valid = metrics.get("split", "test"), metrics.get("valid")
    found = {f"{split} {name}": v for name, v in metrics.items() if name not in ("format", "split", "valid")}
    found |= {f"valid {name}": v for name, v in (valid or {}).items()}
    found = {name: math.nan if v is None else v for name, v in found.items()}
    return {name: v for name, v in found.items() if isinstance(v, int | float) and not isinstance(v, bool)}


def metric_directions(metrics: Mapping[str, Any]) -> dict[str, bool]:
    """Return whether higher is better, by split and name, as a ``metrics.json`` declares it (``higher_is_better``)."""
    named = metrics.get("higher_is_better", {}).items()
    splits = (metrics.get("split", "test"), "valid")
    return {f"{split} {name}": higher for split in splits for name, higher in named if isinstance(higher, bool)}


def common_directions(runs: Iterable[Mapping[str, bool]]) -> dict[str, bool]:
    """Return the direction of each metric over several runs, without metrics on whose direction the runs disagree."""
    found: dict[str, set[bool]] = {}
    for run in runs:
        for name, higher in run.items():
            found.setdefault(name, set()).add(higher)
    return {name: higher.pop() for name, higher in found.items() if len(higher) == 1}


def best_indices(values: Sequence[float | None], higher_is_better: bool | None) -> list[int]:
    """Return the indices of the best value: none if all values are equal, or if the metric has no direction."""
    finite = [v for v in values if v is not None and math.isfinite(v)]
    if higher_is_better is None or len(finite) < 2 or min(finite) == max(finite):
        return []
    best = max(finite) if higher_is_better else min(finite)
    return [i for i, v in enumerate(values) if v == best]
