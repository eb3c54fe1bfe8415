"""In-memory data as files: lists, pandas DataFrames, and Datasets of the library ``datasets``."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Iterable, Mapping
from typing import Any

from weft.data import cache


def cache_rows(data: Any, columns: tuple[str, ...] = ("text",)) -> str:
    """Write in-memory rows to a JSON Lines file in the cache and return its path, for any source that reads tables.

    The file name is a hash of the content, so a run started from Python has a recipe and can be resumed and reproduced.
    Missing values (None, NaN, pandas.NA) become empty cells. Class indices of a Dataset are written as class names.

    Args:
        data: Texts; or dicts, tuples or lists (a list in a cell is a list of labels, words or tags); or a pandas DataFrame; or
            a Dataset of the library ``datasets``.
        columns: Column names, if rows are texts, tuples or lists.

    Example:
        >>> from functools import partial
        >>> from weft.data import LabeledText
        >>> data = partial(LabeledText, train=cache_rows([("good", 1), ("bad", 0)], ("text", "label")))
        >>> data().declare()["label"].vocab
        2
    """
    lines = [json.dumps(_named(row, columns), ensure_ascii=False, default=_to_json) + "\n" for row in _rows(data)]
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


def _rows(data: Any) -> Iterable[Any]:
    if hasattr(data, "to_dict") and hasattr(data, "columns"):  # a DataFrame
        return data.to_dict(orient="records")
    features = {column: feature for column, feature in (getattr(data, "features", None) or {}).items() if _class_names(feature)}
    if features and not isinstance(data, Mapping):
        return ({name: _to_class_name(cell, features.get(name)) for name, cell in row.items()} for row in data)
    if isinstance(data, str | bytes | Mapping):
        raise ValueError(f"data must be a list, a DataFrame or a Dataset, not a {type(data).__name__}")
    return data


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
