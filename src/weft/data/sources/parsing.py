"""Strict parsing of tables (separated columns, or JSON): every row has its file and line, and a problem if it is malformed."""

from __future__ import annotations

import csv
import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal, NamedTuple

from weft.core.options import OptionError
from weft.core.text_stream import data_suffix
from weft.data.sources.cursor import Cursor
from weft.data.sources.json_rows import is_json, json_objects

COMMENTS, DOCUMENTS, NO_WORDS = "comment lines", "document marks", "multiword tokens and empty nodes"
"""Ledger entries of lines between tagged sentences that are not words."""
_MAX_CELL = 1 << 24
_SEPARATOR_LINE = re.compile(r"sep=.?", re.IGNORECASE)
_SURROGATE = re.compile("[\ud800-\udfff]")


class ParsedRow(NamedTuple):
    """One row of a source: where it starts (line 0: it is a file), its cells by field (none: the row is empty), and its problem
    ("" = none)."""

    file: str
    line: int
    cells: Mapping[str, str]
    problem: str = ""

    @property
    def where(self) -> str:
        """``file:line``."""
        return f"{self.file}:{self.line}" if self.line else self.file


Layout = Literal["table", "jsonl", "json", "columns", "text"]
"""How the rows of a file are written: in columns with a delimiter, as an object per line, as a list of objects (or one per line)
in a .json file, as one word per line with its tags, or otherwise."""


class ColumnSpec(NamedTuple):
    """A column that a source needs.

    Args:
        name: Its name; None = the first of the usual names that the table has.
        usual: Usual names, in lower case; they are found in any case.
        option: Whether the source has an option for the name.
        headerless: Whether the source has the option ``column_names``, for tables without a header.
        required: Whether a table without the column is an error; else its rows lack the cell.
    """

    name: str | None
    usual: Sequence[str] = ()
    option: bool = True
    headerless: bool = True
    required: bool = True

    def find(self, available: Sequence[str] | Mapping[str, str]) -> str | None:
        """Return the name of the column in the table; None if it is missing."""
        if self.name is not None:
            return self.name if self.name in available else None
        if (exact := next((name for name in self.usual if name in available), None)) is not None:
            return exact
        by_lowercase = {name.lower(): name for name in reversed([*available])}
        return next((by_lowercase[name] for name in self.usual if name in by_lowercase), None)

    def missing(self, available: Sequence[str] | Mapping[str, str], option: str) -> str:
        """Return the error message for a missing column."""
        name = repr(self.name) if self.name is not None else " or ".join(map(repr, self.usual))
        hint = f"; name it with the option {option}" if self.option else ""
        return f"no column {name}; available: {', '.join(available)}{hint}"


class Record(NamedTuple):
    """One row of a table with all columns: where it starts, its values (None: the row is empty), and its problem."""

    file: str
    line: int
    values: Mapping[str, Any] | None
    problem: str = ""


def is_table(file: str) -> bool:
    """Return whether the suffix is that of a table: ``.tsv``, ``.csv`` or JSON, with or without ``.gz``."""
    return is_json(file) or data_suffix(file) in (".tsv", ".csv")


def table_layout(file: str) -> Layout:
    """Return the layout of a table, by file suffix."""
    return "table" if not is_json(file) else "json" if data_suffix(file) == ".json" else "jsonl"


class TableFormat(NamedTuple):
    """How the columns of a table are separated; tables in JSON need none of it.

    Args:
        column_names: Names of the columns; None = the first line has them.
        delimiter: Character between columns; None = a comma in .csv files, a tab in others.
        quoted: Whether cells may be quoted by ``"``, with delimiters, line ends and doubled quotes inside; None = in .csv files.
    """

    column_names: Sequence[str] | None = None
    delimiter: str | None = None
    quoted: bool | None = None

    def rows(self, cursor: Cursor) -> Iterator[tuple[int, list[str], str]]:
        """Yield the rows of the current file, header included: line, cells, problem."""
        delimiter, quoted = self.of_file(cursor.file)
        found = _quoted_rows(cursor, delimiter) if quoted else _split_rows(cursor, delimiter)
        if (first := next(found, None)) is None:
            return
        if first[0] == 1 and _SEPARATOR_LINE.fullmatch(delimiter.join(first[1])):
            raise ValueError(f"{cursor.file}:1: the first line gives Excel the delimiter and is no row; remove the line")
        yield first
        yield from found

    def of_file(self, file: str) -> tuple[str, bool]:
        """Return the delimiter of a file, and whether its cells may be quoted."""
        is_csv = data_suffix(file) == ".csv"
        return self.delimiter or ("," if is_csv else "\t"), is_csv if self.quoted is None else self.quoted


def check_delimiter(delimiter: str | None) -> None:
    """Raise OptionError unless the delimiter is a single character other than a quotation mark or a line end."""
    if delimiter is not None and (len(delimiter) != 1 or delimiter in '"\r\n'):
        raise OptionError("delimiter", f'must be one character, such as ";", not {delimiter!r}')


def records(cursor: Cursor, layout: TableFormat = TableFormat()) -> Iterator[Record]:
    """Yield rows with all their columns, parsed as ``tables`` does: strings, or JSON values in JSON."""
    for file in cursor.each_file():
        if is_json(file):
            yield from (Record(file, *found) for found in json_objects(cursor))
            continue
        names, found = _named_cells(cursor, file, layout)
        for line, cells, problem in found:
            if not problem and cells and len(cells) != len(names):
                problem = _wrong_column_count(cells, names)
            yield Record(file, line, dict(zip(names, cells, strict=True)) if cells and not problem else None, problem)


def tables(cursor: Cursor, columns: Mapping[str, ColumnSpec], layout: TableFormat = TableFormat()) -> Iterator[ParsedRow]:
    """Yield the rows of tables by file suffix: JSON (.jsonl, .ndjson: an object per line; .json: also a list of objects), or
    columns separated by a delimiter.

    Args:
        cursor: Where to read.
        columns: The columns of a row, by field. The option that names a column has the field's name.
        layout: Delimiter, quotes and header.
    """
    for _ in cursor.each_file():
        yield from table(cursor, columns, layout)


def table(cursor: Cursor, columns: Mapping[str, ColumnSpec], layout: TableFormat = TableFormat()) -> Iterator[ParsedRow]:
    """Yield the rows of the current file; see ``tables``."""
    if is_json(cursor.file):
        yield from _object_rows(cursor, columns)
        return
    names, found = _named_cells(cursor, cursor.file, layout)
    yield from _select_columns(cursor.file, found, names, columns, layout.column_names is None)


def _named_cells(cursor: Cursor, file: str, layout: TableFormat) -> tuple[Sequence[str], Iterator[tuple[int, list[str], str]]]:
    """The columns of a table, and its rows: line, cells, problem."""
    found = layout.rows(cursor)
    if layout.column_names is not None:
        return layout.column_names, found
    # a resumed cursor is past the header: it is read separately, and skipped only at the start
    names = _header(Cursor([file], encoding=cursor.encoding), layout)
    if not cursor.line:
        next(found, None)
    return names, found


def _wrong_column_count(cells: Sequence[str], names: Sequence[str]) -> str:
    return f"{len(cells)} columns, but the header has {len(names)} ({', '.join(names)})"


def read_column_names(cursor: Cursor, layout: TableFormat = TableFormat()) -> list[str]:
    """Return the columns of a table: the cells of its first line, or the keys of its first object."""
    if not is_json(cursor.file):
        return _header(cursor, layout)
    return next((list(_flat(value)) for _, value, problem in json_objects(cursor) if value and not problem), [])


def _header(cursor: Cursor, layout: TableFormat) -> list[str]:
    _, cells, problem = next(layout.rows(cursor), (1, [], ""))
    names = [cell.strip() for cell in cells]
    if repeated := [name for name, count in Counter(names).items() if count > 1 and name]:
        problem = problem or f"{names.count(repeated[0])} columns are named {repeated[0]!r}; the header is: {', '.join(names)}"
    if problem:
        raise ValueError(f"{cursor.file}:1: {problem}")
    return names


def _select_columns(
    file: str,
    records: Iterator[tuple[int, list[str], str]],
    names: Sequence[str],
    columns: Mapping[str, ColumnSpec],
    has_header: bool,
) -> Iterator[ParsedRow]:
    indices: dict[str, int] = {}
    for line, cells, problem in records:
        if not indices and cells:  # not before the first row: a file without rows may lack a header
            found = {field: column.find(names) for field, column in columns.items()}
            if missing := [field for field, name in found.items() if name is None and columns[field].required]:
                column, field = columns[missing[0]], missing[0]
                headerless = "; if the first line is not a header, name all columns with the option column_names"
                hint = headerless if has_header and column.option and column.headerless else ""
                raise ValueError(f"{file}:1: {column.missing(names, field)}{hint}")
            indices = {field: names.index(name) for field, name in found.items() if name is not None}
        if not problem and cells and len(cells) != len(names):
            problem = _wrong_column_count(cells, names)
        usable = cells and not problem
        yield ParsedRow(file, line, {field: cells[index] for field, index in indices.items()} if usable else {}, problem)


def _split_rows(cursor: Cursor, delimiter: str) -> Iterator[tuple[int, list[str], str]]:
    """Lines split at every delimiter: quotation marks have no special meaning."""
    for line, problem in cursor.lines():
        yield cursor.line, line.split(delimiter) if line and not line.isspace() else [], problem


def _quoted_rows(cursor: Cursor, delimiter: str) -> Iterator[tuple[int, list[str], str]]:
    """Records of a CSV file; a quoted cell may span lines, and a record is located by its first line."""
    problems: list[str] = []
    csv.field_size_limit(max(csv.field_size_limit(), _MAX_CELL))

    def watched() -> Iterator[str]:
        for line, problem in cursor.lines():
            if problem:
                problems.append(problem)
            yield line + "\n"

    records = csv.reader(watched(), strict=True, delimiter=delimiter)
    while True:
        problems.clear()
        first = cursor.line + 1
        try:
            cells = next(records)
        except StopIteration:
            return
        except csv.Error as error:
            lines = f" (lines {first} to {cursor.line})" if cursor.line > first else ""
            why = f"a quotation mark is never closed{lines}" if "end of data" in str(error) else str(error)
            if "field limit" in str(error):
                cause = f"a quotation mark may not be closed{lines}" if lines else "split it"
                why = f"a cell has more than {csv.field_size_limit():,} characters; {cause}"
            cells, problems = [], [*problems, f"not valid CSV: {why}"]
        yield first, cells, problems[0] if problems else ""


def _object_rows(cursor: Cursor, columns: Mapping[str, ColumnSpec]) -> Iterator[ParsedRow]:
    for line, value, problem in json_objects(cursor):
        cells: dict[str, str] = {}
        if value is not None and not problem:
            try:
                cells = _object_cells(value, columns)
            except ValueError as error:
                problem = str(error)
        yield ParsedRow(cursor.file, line, cells, problem)


def _object_cells(value: Mapping[str, Any], columns: Mapping[str, ColumnSpec]) -> dict[str, str]:
    cells: dict[str, str] = {}
    value = _flat(value)
    for field, column in columns.items():
        name = column.find(value)
        if name is not None:
            cells[field] = to_cell(value[name], name)
        elif column.required:
            raise ValueError(column.missing(value, field))
    return cells


def _flat(value: Mapping[str, Any]) -> dict[str, Any]:
    """The values of nested objects by path: ``{"body": {"text": "a"}}`` has ``body.text``. A key that has a dot itself wins."""
    found: dict[str, Any] = {}
    for name, inner in value.items():
        if isinstance(inner, Mapping):
            found |= {path: leaf for key, leaf in _flat(inner).items() if (path := f"{name}.{key}") not in value}
        else:
            found[name] = inner
    return found


def to_cell(value: object, name: str) -> str:
    """Return a JSON value as a cell. Raises ValueError for a lone surrogate, which UTF-8 cannot encode."""
    cell = _cell(value)
    if problem := lone_surrogate(cell):
        raise ValueError(f"column {name!r} has {problem}")
    return cell


def lone_surrogate(text: str) -> str:
    """Return a description of the first lone surrogate (valid in JSON, not in UTF-8), or ""."""
    found = _SURROGATE.search(text)
    return f"a lone surrogate U+{ord(found[0]):04X}, which UTF-8 cannot encode" if found else ""


def _cell(value: object) -> str:
    """Lists are joined by tabs: no cell of a tab-separated file can contain one."""
    if isinstance(value, list):
        return "\t".join(map(_cell, value))
    return value if isinstance(value, str) else "" if value is None else json.dumps(value)
