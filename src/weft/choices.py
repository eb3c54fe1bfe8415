"""Leaf types for the options of blocks: what a number may be. pydantic reads the constraints, and so does the schema."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from annotated_types import Ge, Gt, Le, Lt
from pydantic import BeforeValidator

Count = Annotated[int, Ge(1), Le(10**12)]
"""How many of something: steps, rows, tokens."""
Natural = Annotated[int, Ge(0), Le(10**12)]
"""A count that may be zero (zero = never, or none)."""
Layers = Annotated[int, Ge(1), Le(1000)]
Width = Annotated[int, Ge(1), Le(10**6)]
"""A size of vectors: dim, hidden, head_dim."""
Heads = Annotated[int, Ge(1), Le(10**4)]
Vocab = Annotated[int, Ge(8), Le(10**8)]
Dropout = Annotated[float, Ge(0), Lt(1)]
Share = Annotated[float, Ge(0), Le(1)]
Positive = Annotated[float, Gt(0), Le(1e12)]
NonNegative = Annotated[float, Ge(0), Le(1e12)]


def _as_path(value: object) -> object:
    return str(value) if isinstance(value, Path) else value


File = Annotated[str, BeforeValidator(_as_path), "file"]
"""A path to a file that must exist. In a recipe it is resolved against the recipe's own folder."""
