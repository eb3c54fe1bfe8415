"""Detection of the delimiter and the quotes of a table."""

from __future__ import annotations

from itertools import islice
from typing import NamedTuple

from weft.core.io import list_files
from weft.core.text_stream import data_suffix
from weft.data.sources.cursor import Cursor
from weft.data.sources.parsing import TableFormat
from weft.experiments.scaffold.detected_data import MAX_ROWS

_DEFAULTS = {".csv": (",", True), ".tsv": ("\t", False)}
_CANDIDATES = tuple((delimiter, quoted) for delimiter in ("\t", ";", "|", ",") for quoted in (False, True))
_CONSISTENT = 0.95
"""Share of the rows that have as many columns as the first one."""
_CONSISTENT_TEXT = 0.97
"""The same for commas, semicolons and bars in files whose suffix is not that of a table."""
_MIN_ROWS = 4
_NAMES = {"\t": "tabs", ",": "commas", ";": "semicolons", "|": "vertical bars"}


class Separation(NamedTuple):
    """A delimiter, whether cells are quoted, and what it makes of a file.

    Args:
        delimiter: The delimiter.
        quoted: Whether cells may be quoted.
        consistent: Share of the rows that have as many columns as the first one.
        columns: Number of columns of the first row.
        rows: Number of rows.
        wrapped: Largest share of the cells of a column that start and end with a quotation mark.
    """

    delimiter: str
    quoted: bool
    consistent: float
    columns: int
    rows: int
    wrapped: float

    def options(self, file: str) -> dict[str, str]:
        """The options of a source that reads a file so, as YAML; empty where they are the default."""
        delimiter, quoted = _DEFAULTS.get(data_suffix(file), ("\t", False))
        found = {} if self.delimiter == delimiter else {"delimiter": '"\\t"' if self.delimiter == "\t" else f'"{self.delimiter}"'}
        return found | ({} if self.quoted == quoted else {"quoted": str(self.quoted).lower()})

    @property
    def layout(self) -> TableFormat:
        """How to read the table."""
        return TableFormat(None, self.delimiter, self.quoted)

    @property
    def description(self) -> str:
        """What separates the columns, in words."""
        return f"columns separated by {_NAMES[self.delimiter]}"


TABS = Separation("\t", False, 1.0, 1, 1, 0.0)
"""Columns separated by tabs."""


def detect_separation(file: str, encoding: str) -> Separation | None:
    """Return how the columns of a file are separated; None if it is no table.

    A file whose suffix is that of a table is one if any delimiter makes columns; for any other file all rows must agree.
    """
    first = list_files(file)[0]
    default = _DEFAULTS.get(data_suffix(first))
    found = [_separate(first, encoding, *candidate) for candidate in dict.fromkeys([*filter(None, [default]), *_CANDIDATES])]
    tables = [each for each in found if each.columns > 1]
    if default is None:
        needed = {each: _CONSISTENT if each.delimiter == "\t" else _CONSISTENT_TEXT for each in tables}
        tables = [each for each in tables if each.consistent > needed[each] and _enough_rows(each)]
    if not tables:
        return None
    usual = next((each for each in tables if (each.delimiter, each.quoted) == default), None)
    if usual and usual.consistent >= _CONSISTENT and not _is_wrapped(usual):
        return usual
    usually_quoted = default is not None and default[1]
    best = max(
        tables,
        key=lambda each: (each.consistent >= _CONSISTENT, not _is_wrapped(each), each.consistent, each.quoted == usually_quoted),
    )
    return usual if usual and best.consistent < _CONSISTENT else best


def _enough_rows(found: Separation) -> bool:
    return found.delimiter == "\t" or found.rows >= _MIN_ROWS


def _is_wrapped(found: Separation) -> bool:
    """Whether cells are quoted, but read as if they were not."""
    return not found.quoted and found.wrapped > 0.8


def _separate(file: str, encoding: str, delimiter: str, quoted: bool) -> Separation:
    layout = TableFormat(None, delimiter, quoted)
    rows = [(cells, problem) for _, cells, problem in islice(layout.rows(Cursor([file], encoding=encoding)), MAX_ROWS)]
    rows = [(cells, problem) for cells, problem in rows if cells or problem]
    columns = len(rows[0][0]) if rows else 0
    good = [cells for cells, problem in rows if not problem and len(cells) == columns]
    wrapped = [sum(map(_in_quotes, column)) / len(good) for column in zip(*good, strict=True)]
    return Separation(delimiter, quoted, len(good) / max(1, len(rows)), columns, len(rows), max(wrapped, default=0.0))


def _in_quotes(cell: str) -> bool:
    return len(cell) > 1 and cell.startswith('"') and cell.endswith('"')
