"""Fill the catalog: import every package that registers parts, so that recipes can use them by name.

The research systems are plug-ins that come with weft: ``weft.systems`` lists the modules that register their parts.
"""

from __future__ import annotations

import importlib

PACKAGES = (
    "weft.blocks",
    "weft.data",
    "weft.models",
    "weft.objectives",
    "weft.learning",
    "weft.pretrained",
    "weft.generate",
    "weft.evaluate",
    "weft.training.stages",
)


def fill_catalog() -> None:
    """Register all parts that weft ships."""
    for package in (*PACKAGES, *importlib.import_module("weft.systems").PARTS):
        importlib.import_module(package)
