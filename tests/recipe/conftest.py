"""A small recipe, and fixtures that parse recipes and collect errors."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from weft.recipe import RecipeError
from weft.training.recipes import read_run_text
from weft.training.run import Run

SMALL = """\
seed: 1
data: {type: dates, train: 100}
structure:
  type: seq2seq
  dim: 16
  encoder: {type: transformer, layers: 1}
  decoder: transformer
objective: next-token
learning:
  type: gradient
  steps: 3
  optimizer: {type: adam, lr: 0.01}
"""

Read = Callable[..., Run]
ErrorsOf = Callable[..., list[str]]


@pytest.fixture
def small() -> str:
    return SMALL


@pytest.fixture
def read() -> Read:
    """Parses the text of a recipe called r.yaml, with overrides."""

    def run(text: str, overrides: Sequence[str] = (), folder: Path = Path()) -> Run:
        return read_run_text(text, "r.yaml", folder, overrides)

    return run


@pytest.fixture
def errors_of(read: Read) -> ErrorsOf:
    """Returns the error messages of a recipe, which must be invalid."""

    def errors(text: str, overrides: Sequence[str] = (), folder: Path = Path()) -> list[str]:
        with pytest.raises(RecipeError) as caught:
            read(text, overrides, folder)
        return str(caught.value).splitlines()

    return errors
