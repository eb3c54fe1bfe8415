"""In-memory data as files: lists, dicts of columns, DataFrames of pandas and polars, Datasets of the library ``datasets``."""

from __future__ import annotations

import hashlib
import json
import math
import os
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from weft.data import cache
from weft.data.sources.python_images import image_path
from weft.data.text_files import class_and_file

_FILE_NAME = re.compile(r"\S+\.\w{1,8}")
_MAX_PATH = 1000
"""Characters of a string that may be a path; most systems allow 255 for one name."""


def data_files(data: Any, columns: tuple[str, ...] = ("text",)) -> list[str]:
    """Return the files of data: paths as they are, in-memory rows as a file in the cache (see ``cache_rows``).

    A list of strings is a list of files where one of them names a file, and of texts otherwise.

    Args:
        data: A path, a list of paths, or rows as for ``cache_rows``.
        columns: Column names, if rows are texts, tuples or lists.

    Example:
        >>> data_files(["train-1.csv", "train-2.csv"])
        ['train-1.csv', 'train-2.csv']
    """
    if isinstance(data, str) and (len(data) > _MAX_PATH or "\n" in data):
        raise ValueError(f"expected a file or a list of texts, got one text: {data[:40]!r}...; pass [text]")
    if isinstance(data, str | os.PathLike):
        return [os.fspath(data)]
    strings = isinstance(data, list | tuple) and all(isinstance(item, str | os.PathLike) for item in data)
    if strings and any(map(names_file, data)):
        return [os.fspath(item) for item in data]
    return [cache_rows(data, columns)]


def names_file(item: str | os.PathLike[str]) -> bool:
    """Return whether a string is the name of a file rather than a text: it exists, or it has a suffix and no blanks."""
    if not isinstance(item, str):
        return True
    if _FILE_NAME.fullmatch(item):
        return True
    try:
        named = class_and_file(item) if len(item) < _MAX_PATH else None
        return len(item) < _MAX_PATH and Path(item if named is None else named[1]).exists()
    except (OSError, ValueError):  # too long for a name, or a null character
        return False


def cache_rows(data: Any, columns: tuple[str, ...] = ("text",)) -> str:
    """Write in-memory rows to a JSON Lines file in the cache and return its path, for any source that reads tables.

    The file name is a hash of the content, so a run started from Python has a recipe and can be resumed and reproduced.
    Missing values (None, NaN, pandas.NA) become empty cells. Class indices of a Dataset are written as class names. Images (of
    PIL, arrays, of a Dataset) are written to files in the cache, and names of image files become absolute.

    Args:
        data: Texts; or dicts, tuples or lists (a list in a cell is a list of labels, words or tags); or a dict of columns; or a
            DataFrame of pandas or polars; or a Dataset of the library ``datasets``.
        columns: Column names, if rows are texts, tuples or lists.

    Example:
        >>> from functools import partial
        >>> from weft.data import LabeledText
        >>> data = partial(LabeledText, train=cache_rows([("good", 1), ("bad", 0)], ("text", "label")))
        >>> data().declare()["label"].vocab
        2
    """
    lines = [json_line(row, columns) for row in table_rows(data)]
    if not lines:
        raise ValueError("data has no rows; at least one is needed")
    content = "".join(lines).encode("utf-8", "surrogatepass")
    name = hashlib.sha256(content).hexdigest()[:32]
    with cache.entry(f"rows-{name}") as folder:
        file = folder / "rows.jsonl"
        if not file.is_file():
            new = file.with_suffix(".new")
            new.write_bytes(content)
            new.replace(file)
    return str(file)


def json_line(row: Any, columns: tuple[str, ...] = ("text",)) -> str:
    """Return a row as a line of JSON. See ``cache_rows``."""
    return json.dumps(_named(row, columns), ensure_ascii=False, default=_to_json) + "\n"


def is_table(data: Any) -> bool:
    """Return whether in-memory data has named columns: a DataFrame, a Dataset, or a dict of columns."""
    return isinstance(data, Mapping) or hasattr(data, "columns") or hasattr(data, "column_names")


def table_rows(data: Any) -> Iterable[Any]:
    """Return the rows of in-memory data; those of a table are dicts. See ``cache_rows``."""
    if hasattr(data, "to_dicts"):  # a DataFrame of polars
        return data.to_dicts()
    if hasattr(data, "to_dict") and hasattr(data, "columns"):  # a DataFrame of pandas
        if repeated := sorted({str(name) for name in data.columns[data.columns.duplicated()]}):
            raise ValueError(f"several columns are named {', '.join(map(repr, repeated))}; rename them, or drop all but one")
        return data.to_dict(orient="records")
    features = {column: feature for column, feature in (getattr(data, "features", None) or {}).items() if _class_names(feature)}
    if features and not isinstance(data, Mapping):
        return ({name: _to_class_name(cell, features.get(name)) for name, cell in row.items()} for row in data)
    if isinstance(data, Mapping) and hasattr(data, "keys") and not hasattr(data, "column_names"):
        return _columns_to_rows(data)
    if isinstance(data, str | bytes | Mapping) or not isinstance(data, Iterable):
        kind = f"{type(data).__name__} of {', '.join(map(str, data))}" if isinstance(data, Mapping) else type(data).__name__
        raise ValueError(f"data must be a list, a dict of columns, a DataFrame or a Dataset, not a {kind}")
    return data


def _columns_to_rows(data: Mapping[Any, Any]) -> Iterable[dict[Any, Any]]:
    scalar = next((name for name, column in data.items() if isinstance(column, str) or not isinstance(column, Iterable)), None)
    if scalar is not None:
        raise ValueError(f"column {scalar!r} is {data[scalar]!r:.40}, not a list; pass a dict of columns, or a list of dicts")
    columns = {name: list(column) for name, column in data.items()}
    if len(set(map(len, columns.values()))) > 1:
        sizes = ", ".join(f"{name}: {len(column)}" for name, column in columns.items())
        raise ValueError(f"the columns have different lengths ({sizes}); give every column the same number of rows")
    return [dict(zip(columns, cells, strict=True)) for cells in zip(*columns.values(), strict=True)]


def _named(row: Any, columns: tuple[str, ...]) -> dict[str, Any]:
    if isinstance(row, Mapping):
        return {str(name): _missing_to_none(value) for name, value in row.items()}
    if not isinstance(row, str | Iterable):
        raise ValueError(f"a row must be a text, a tuple, a list or a dict, not {row!r} ({type(row).__name__}); remove it")
    cells = (row,) if isinstance(row, str) else tuple(row)
    if len(cells) != len(columns):
        raise ValueError(
            f"a row has {len(cells)} cells, but columns names {len(columns)} ({', '.join(columns)}): {str(row)[:80]}; name the "
            'columns: cache_rows(data, ("text", "label"))'
        )
    return {name: _missing_to_none(cell) for name, cell in zip(columns, cells, strict=True)}


def _missing_to_none(value: Any) -> Any:
    if (image := image_path(value)) is not None:
        return image
    if isinstance(value, list | tuple):
        return [_missing_to_none(inner) for inner in value]
    if hasattr(value, "item") and getattr(value, "shape", None) == ():  # a NumPy scalar
        value = value.item()
    missing = type(value).__name__ in ("NAType", "NaTType") or (isinstance(value, float) and math.isnan(value))
    return None if missing else value


def _class_names(feature: Any) -> list[str]:
    """Class names of a ``ClassLabel`` feature of ``datasets``, or of a list of them."""
    return getattr(feature, "names", None) or getattr(getattr(feature, "feature", None), "names", None) or []


def _to_class_name(cell: Any, feature: Any) -> Any:
    names = _class_names(feature)
    if not names or cell is None:
        return cell
    if isinstance(cell, list):
        return [_to_class_name(index, feature) for index in cell]
    return names[cell] if cell >= 0 else None  # -1: unlabeled


def _to_json(value: Any) -> Any:
    """NumPy scalars and arrays as JSON values."""
    if hasattr(value, "tolist"):
        return value.tolist()
    raise ValueError(f"a cell is a {type(value).__name__}, which cannot be written as JSON: {str(value)[:80]}")
