"""weft: Transformers and their relatives, composed from data, structure, objective and learning."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"
__all__ = ["Run", "Stage", "TrainedRun", "block", "composition", "load", "models", "slot", "tune"]

if TYPE_CHECKING:
    from weft import models as models
    from weft.core.registry import block, composition, slot
    from weft.experiments.tune import tune
    from weft.inference.load import load
    from weft.inference.trained_run import TrainedRun
    from weft.training.run import Run
    from weft.training.stages import Stage

_HOMES = {
    "Run": "weft.training.run",
    "Stage": "weft.training.stages",
    "TrainedRun": "weft.inference.trained_run",
    "load": "weft.inference.load",
    "tune": "weft.experiments.tune",
    "block": "weft.core.registry",
    "composition": "weft.core.registry",
    "slot": "weft.core.registry",
}


def __getattr__(name: str) -> Any:
    """Import on first use: `weft --help` must not wait for torch."""
    import importlib

    if name == "models":
        return importlib.import_module("weft.models")
    if name not in _HOMES:
        raise AttributeError(f"module 'weft' has no attribute {name!r}")
    return getattr(importlib.import_module(_HOMES[name]), name)
