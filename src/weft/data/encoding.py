"""Encoding: from the cells of rows to columns of numbers, and from the numbers of a row to an example.

What a field does with its cells is part of its kind (``weft.core.fields``); here are the rows of all fields.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from weft.core.contracts import Codec
from weft.core.fields import Columns, Encoding, Info, StoredColumn, Values
from weft.core.ragged_array import RaggedArray
from weft.data.tokenizers.word_cache import WordCache

# ---------------------------------------------------------------------------------------------------------- rows to columns


def columns_of(info: Info) -> dict[str, StoredColumn]:
    """Return the columns of all fields."""
    return {name: column for field in info.fields.values() for name, column in field.columns().items()}


def encode(codec: Codec, rows: Sequence[Mapping[str, str]], caches: Mapping[str, WordCache] | None = None) -> Columns:
    """Encode rows as columns. A missing cell (an input without its label) counts as class 0.

    Args:
        codec: Fields and tokenizers.
        rows: Cells by field name.
        caches: Word caches by id space, to speed up large corpora.
    """
    columns: Columns = {}
    encoding = Encoding(codec.info, codec.tokenizers, caches or {})
    for field in codec.info.fields.values():
        if field.columns():
            columns |= field.encode(rows, encoding)
    return columns


def rows_of(columns: Columns) -> list[Values]:
    """Return the rows of columns."""
    lists = [column.rows() if isinstance(column, RaggedArray) else column for column in columns.values()]
    return [dict(zip(columns, row, strict=True)) for row in zip(*lists, strict=True)]


def columns_from(info: Info, rows: Sequence[Values]) -> Columns:
    """Return the columns of rows: the inverse of ``rows_of``."""
    return {
        name: RaggedArray.concatenate([row[name] for row in rows], column.dtype)
        if column.ragged
        else np.array([row[name] for row in rows])
        for name, column in columns_of(info).items()
    }


def cut_cells(info: Info, cells: Mapping[str, str]) -> Mapping[str, str]:
    """Return the cells of a row with ``cut_text`` of each text; the same object if no text is so long."""
    shorter: dict[str, str] = {}
    for field in info.tokenized():
        text = cells.get(field.name, "")
        cut = field.cut_cell(text)
        if len(cut) < len(text):
            shorter[field.name] = cut
    return {**cells, **shorter} if shorter else cells


def truncate(info: Info, values: Values) -> tuple[Values, int]:
    """Truncate the texts of a row to the maximum length of their field; return the row and the number of tokens removed."""
    lost = 0
    for field in info.tokenized():
        changed, removed = field.truncate(info, values)
        if changed:
            values, lost = values | changed, lost + removed
    return values, lost


# ------------------------------------------------------------------------------------------------------------------ examples


def assemble(info: Info, values: Mapping[str, Any]) -> dict[str, Any]:
    """Build an example from the numbers of a row; fields that it lacks are left out."""
    return {field.name: field.assemble(values, info) for field in info.fields.values() if field.name in values}


def encode_example(codec: Codec, cells: Mapping[str, str], on_truncation: Callable[[int], None] | None = None) -> dict[str, Any]:
    """Encode the cells of a row as a training example. Missing labels are class 0.

    Args:
        codec: Fields and tokenizers.
        cells: Cells by field name.
        on_truncation: Called with the number of tokens removed from texts that are too long.
    """
    return encode_examples(codec, [cells], on_truncation)[0]


def encode_examples(
    codec: Codec, rows: Sequence[Mapping[str, str]], on_truncation: Callable[[int], None] | None = None
) -> list[dict[str, Any]]:
    """Encode rows as examples, their texts tokenized together. See ``encode_example``."""
    short = [cut_cells(codec.info, cells) for cells in rows]
    encoded = rows_of(encode(codec, short))
    examples, removed = list[dict[str, Any]](), list[int]()
    for cells, cut_row, values in zip(rows, short, encoded, strict=True):
        truncated, lost = truncate(codec.info, values)
        examples.append(assemble(codec.info, truncated))
        removed += [lost] if lost or cut_row is not cells else []
    if on_truncation is not None:
        for lost in removed:
            on_truncation(lost)
    return examples
