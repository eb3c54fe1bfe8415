"""weft: Transformers and their relatives, composed from data, structure, objective and learning."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"
__all__ = [
    "Run",
    "Stage",
    "TrainedRun",
    "block",
    "blocks",
    "composition",
    "data",
    "evaluate",
    "generate",
    "learning",
    "load",
    "models",
    "objectives",
    "slot",
    "tune",
]

if TYPE_CHECKING:
    from weft import blocks as blocks
    from weft import data as data
    from weft import evaluate as evaluate
    from weft import generate as generate
    from weft import learning as learning
    from weft import models as models
    from weft import objectives as objectives
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

    if name not in __all__:
        raise AttributeError(f"module 'weft' has no attribute {name!r}")
    if name not in _HOMES:
        return importlib.import_module(f"weft.{name}")
    return getattr(importlib.import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    """The public names, for completion: neither imports of this file nor modules that happen to be loaded."""
    return [*__all__, "__version__"]
