"""Data from Python: lists, pandas data frames, datasets of the library ``datasets``."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Iterable, Mapping
from typing import Any

from weft.data import cache


def rows(data: Any, columns: tuple[str, ...] = ("text",)) -> str:
    """Keep rows in a file of their own and return its path, for any source that reads tables.

    The file is named by its content and stays in the cache, so a run from Python has a recipe, can be resumed and repeated, like
    any other.

    Missing values (None, NaN, pandas' NA) are empty cells. Classes that a Dataset has by number are written by name.

    Args:
        data: Texts; or dicts, tuples or lists (a list among the cells is a set of labels, or words, or tags); or a pandas
            DataFrame; or a Dataset of the library ``datasets``.
        columns: The names of the columns, where rows are texts, tuples or lists.

    Example:
        >>> from functools import partial
        >>> from weft.data import LabelledText
        >>> data = partial(LabelledText, train=rows([("good", 1), ("bad", 0)], ("text", "label")))
        >>> data().declare()["label"].vocab
        2
    """
    lines = [json.dumps(_named(row, columns), ensure_ascii=False, default=_plain) + "\n" for row in _each(data)]
    if not lines:
        raise ValueError("there are no rows to keep")
    content = "".join(lines).encode("utf-8", "surrogatepass")
    name = hashlib.sha256(content).hexdigest()[:32]
    with cache.entry(f"rows-{name}") as folder:
        file = folder / "rows.jsonl"
        if not file.is_file():
            new = file.with_suffix(".new")
            new.write_bytes(content)
            new.replace(file)
    return str(file)


def _each(data: Any) -> Iterable[Any]:
    if hasattr(data, "to_dict") and hasattr(data, "columns"):  # a data frame
        return data.to_dict(orient="records")
    names = {column: feature for column, feature in (getattr(data, "features", None) or {}).items() if _class_names(feature)}
    if names and not isinstance(data, Mapping):
        return ({name: _by_name(cell, names.get(name)) for name, cell in row.items()} for row in data)
    if isinstance(data, str | bytes | Mapping):
        raise ValueError(f"rows must be a list, a DataFrame or a Dataset, not a {type(data).__name__}")
    return data


def _named(row: Any, columns: tuple[str, ...]) -> dict[str, Any]:
    if isinstance(row, Mapping):
        return {str(name): _there(value) for name, value in row.items()}
    if not isinstance(row, str | Iterable):
        raise ValueError(f"a row is {row!r}, a {type(row).__name__}, but must be a text, a tuple, a list or a dict: leave it out")
    cells = (row,) if isinstance(row, str) else tuple(row)
    if len(cells) != len(columns):
        raise ValueError(
            f"a row has {len(cells)} cells, but columns names {len(columns)} ({', '.join(columns)}): {str(row)[:80]}. Name the "
            'columns: rows(data, ("text", "label"))'
        )
    return {name: _there(cell) for name, cell in zip(columns, cells, strict=True)}


def _there(value: Any) -> Any:
    """The value, or None where it is missing."""
    if isinstance(value, list | tuple):
        return [_there(inner) for inner in value]
    if hasattr(value, "item") and getattr(value, "shape", None) == ():  # a number of numpy
        value = value.item()
    missing = type(value).__name__ in ("NAType", "NaTType") or (isinstance(value, float) and math.isnan(value))
    return None if missing else value


def _class_names(feature: Any) -> list[str]:
    """The names of a column's classes, as ``datasets`` keeps them; of a list of classes, those of its members."""
    return getattr(feature, "names", None) or getattr(getattr(feature, "feature", None), "names", None) or []


def _by_name(cell: Any, feature: Any) -> Any:
    names = _class_names(feature)
    if not names or cell is None:
        return cell
    if isinstance(cell, list):
        return [_by_name(number, feature) for number in cell]
    return names[cell] if cell >= 0 else None  # -1: without a class


def _plain(value: Any) -> Any:
    """numpy's numbers and arrays as JSON can say them."""
    if hasattr(value, "tolist"):
        return value.tolist()
    raise ValueError(f"a cell is a {type(value).__name__}, which cannot be written in a table: {str(value)[:80]}")
