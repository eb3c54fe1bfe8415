"""Types of options: allowed ranges of numbers, files, models. Validated by pydantic and exported to the JSON Schema."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Annotated, Any, Literal

from annotated_types import Ge, Gt, Le, Lt
from pydantic import BeforeValidator, ValidationInfo, WithJsonSchema

from weft.core.hub import find_model
from weft.core.hub_data import is_hub_name, parse_name
from weft.core.io import content_hash

Count = Annotated[int, Ge(1), Le(10**12)]
"""A positive count: steps, examples, tokens."""
Natural = Annotated[int, Ge(0), Le(10**12)]
"""A count that may be zero (zero = never, or none)."""
Layers = Annotated[int, Ge(1), Le(1000)]
Dim = Annotated[int, Ge(1), Le(10**6)]
"""A size of vectors: dim, hidden, head_dim."""
Heads = Annotated[int, Ge(1), Le(10**4)]
KernelSize = Annotated[int, Ge(1), Le(1000)]
"""Positions that a convolution spans; one of more would take minutes to build."""
KernelSide = Annotated[int, Ge(1), Le(100)]
"""Height and width of the kernel of a 2-D convolution or pooling."""
Vocab = Annotated[int, Ge(8), Le(10**8)]
Dropout = Annotated[float, Ge(0), Lt(1)]
Fraction = Annotated[float, Ge(0), Le(1)]
Positive = Annotated[float, Gt(0), Le(1e12)]
Byte = Annotated[int, Ge(0), Le(255)]
"""A pixel value."""
NonNegative = Annotated[float, Ge(0), Le(1e12)]
Every = Natural | dict[Literal["epochs"], Positive]
"""An interval: a number of steps (0 = never), or {epochs: n}, where n may be a fraction."""


WEFT_DATA = "WEFT_DATA"
"""Environment variable: a second folder to resolve data files in, after the folder of the recipe."""


class OptionError(ValueError):
    """An error of one option, found after its part was built. A recipe reports it where the option is written.

    Args:
        option: Name of the option.
        text: What is wrong.
    """

    def __init__(self, option: str, text: str):
        super().__init__(text)
        self.option = option


class IsFile:
    """Marks an option that is a path, so that the filled recipe stores it absolute, with the hash of the file."""


def _file_or_folder(value: Any, info: ValidationInfo) -> Any:
    return _file(value, info, folders=True)


def _file(value: Any, info: ValidationInfo, *, folders: bool = False) -> Any:
    """A path, or {path, sha256} as in the recipe of a run folder. Resolved against the folder of the recipe."""
    wanted = None
    if isinstance(value, dict):
        if set(value) != {"path", "sha256"} or not all(isinstance(v, str) for v in value.values()):
            raise ValueError("a file must be a path, or {path: ..., sha256: ...}")
        value, wanted = value["path"], value["sha256"]
    if not isinstance(value, str | Path) or not str(value).strip():  # an empty path would be the folder of the recipe
        raise ValueError(f"must be the path of a file, not {json.dumps(value, default=str)}")
    if is_hub_name(value):
        return str(parse_name(str(value)))
    if not info.context:
        return str(value)
    try:
        path = find_file(value, *info.context["folders"])
        if not info.context["files"]:
            return str(path)
        if not path.is_file() and not (folders and path.is_dir()):
            raise ValueError(
                f"{path} is a folder, not a file" if path.is_dir() else missing_file_message(value, *info.context["folders"])
            )
        found = content_hash(path) if wanted else None
    except (OSError, RuntimeError) as error:  # no access, a name that is too long, a link to itself
        raise ValueError(f"the file {str(value)[:200]} cannot be read: {getattr(error, 'strerror', None) or error}") from None
    if wanted and found and found != wanted.lower():
        raise ValueError(f"{path} is not the file of this recipe: its SHA-256 is {found[:12]}..., not {wanted[:12]}...")
    return str(path)


def find_file(name: str | Path, *folders: str | Path) -> Path:
    """The first existing file of that name in the folders, then in the folder WEFT_DATA."""
    candidates = _candidates(name, *folders)
    return next((path for path in candidates if path.exists()), candidates[0])


def missing_file_message(name: str | Path, *folders: str | Path) -> str:
    """The message for a file that is in none of these folders."""
    hint = not Path(name).is_absolute() and WEFT_DATA not in os.environ
    unset = f" ({WEFT_DATA}, a second folder to search, is not set)" if hint else ""
    return f"there is no file {', nor '.join(map(str, _candidates(name, *folders)))}{unset}"


def _candidates(name: str | Path, *folders: str | Path) -> list[Path]:
    """The paths to try, without repetition."""
    elsewhere = [os.environ[WEFT_DATA]] if os.environ.get(WEFT_DATA) else []
    return list(dict.fromkeys(Path(folder, name).resolve() for folder in (*(folders or [Path()]), *elsewhere)))


def _only_file(value: Any, info: ValidationInfo) -> Any:
    return _file(value, info)


_FILE_SCHEMA = {
    "anyOf": [
        {"type": "string", "pattern": r"\S"},
        {
            "type": "object",
            "properties": {"path": {"type": "string", "pattern": r"\S"}, "sha256": {"type": "string"}},
            "required": ["path", "sha256"],
            "additionalProperties": False,
        },
    ]
}
File = Annotated[str, BeforeValidator(_only_file), WithJsonSchema(_FILE_SCHEMA), IsFile]
"""A file that must exist. In a recipe, a path relative to the recipe's own folder, or to the folder WEFT_DATA; on the command
line also to the working directory. Or data on the Hub: ``hub:owner/dataset/split@revision``."""
FileOrFolder = Annotated[str, BeforeValidator(_file_or_folder), WithJsonSchema(_FILE_SCHEMA), IsFile]
"""A file, or a folder with files in it."""


def _model(value: Any, info: ValidationInfo) -> Any:
    """A published model: a folder beside the recipe, or a name that ``find_model`` knows."""
    named = isinstance(value, str) and value.strip() and info.context and not find_file(value, *info.context["folders"]).exists()
    if named and info.context and info.context["files"]:
        return str(find_model(value).resolve())
    return value if named else _file(value, info, folders=True)


Model = Annotated[str, BeforeValidator(_model), WithJsonSchema(_FILE_SCHEMA), IsFile]
"""A published model: a folder, the name of a packaged model, or a name on the hub."""
