"""Strict parsing of tables (TSV, CSV, JSON Lines): every row has its file and line, and a problem if it is malformed."""

from __future__ import annotations

import contextlib
import csv
import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple

from weft.core.io import InvalidJSON, parse_json
from weft.data.sources.cursor import Cursor

COMMENTS = "comment lines"
"""Ledger entry of comments between tagged sentences."""
_MAX_CELL = 1 << 24
_SURROGATE = re.compile("[\ud800-\udfff]")


class ParsedRow(NamedTuple):
    """One row of a source: where it starts, its cells by field (none: the row is empty), and its problem ("" = none)."""

    file: str
    line: int
    cells: Mapping[str, str]
    problem: str = ""

    @property
    def where(self) -> str:
        """``file:line``."""
        return f"{self.file}:{self.line}"


def is_json_lines(file: str) -> bool:
    """Return whether the suffix is ``.jsonl`` or ``.ndjson``."""
    return Path(file).suffix.lower() in (".jsonl", ".ndjson")


Layout = Literal["csv", "tsv", "jsonl", "columns", "text"]
"""How the rows of a file are written: as a table, as one word per line with its tags, or otherwise."""


def table_layout(file: str) -> Layout:
    """Return the layout of a table, by file suffix."""
    return "jsonl" if is_json_lines(file) else "csv" if Path(file).suffix.lower() == ".csv" else "tsv"


class ColumnSpec(NamedTuple):
    """A column that a source needs.

    Args:
        name: Its name; None = the first of the usual names that the table has.
        usual: Usual names.
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
        return next((name for name in self.usual if name in available), None)

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


def records(cursor: Cursor, column_names: Sequence[str] | None = None) -> Iterator[Record]:
    """Yield rows with all their columns, parsed as ``tables`` does: strings, or JSON values in JSON Lines."""
    for file in cursor.each_file():
        if is_json_lines(file):
            for line, problem in cursor.lines():
                value: dict[str, Any] | None = None
                if not problem and line and not line.isspace():
                    try:
                        value = _parse_object(line)
                    except ValueError as error:
                        problem = str(error)
                yield Record(file, cursor.line, value, problem)
            continue
        names, found = _named_cells(cursor, file, column_names)
        for line, cells, problem in found:
            if not problem and cells and len(cells) != len(names):
                problem = _wrong_column_count(cells, names)
            yield Record(file, line, dict(zip(names, cells, strict=True)) if cells and not problem else None, problem)


def tables(cursor: Cursor, columns: Mapping[str, ColumnSpec], column_names: Sequence[str] | None = None) -> Iterator[ParsedRow]:
    """Yield the rows of tables by file suffix: .csv (quoted cells), .jsonl (one object per line), else tab-separated.

    Tab-separated lines are split at tabs only: quotation marks have no special meaning.

    Args:
        cursor: Where to read.
        columns: The columns of a row, by field. The option that names a column has the field's name.
        column_names: Names of the columns; None = the first line has them.
    """
    for _ in cursor.each_file():
        yield from table(cursor, columns, column_names)


def table(cursor: Cursor, columns: Mapping[str, ColumnSpec], column_names: Sequence[str] | None = None) -> Iterator[ParsedRow]:
    """Yield the rows of the current file; see ``tables``."""
    if is_json_lines(cursor.file):
        yield from _objects(cursor, columns)
        return
    names, found = _named_cells(cursor, cursor.file, column_names)
    yield from _select_columns(cursor.file, found, names, columns, column_names is None)


def _named_cells(
    cursor: Cursor, file: str, column_names: Sequence[str] | None
) -> tuple[Sequence[str], Iterator[tuple[int, list[str], str]]]:
    """The columns of a tab- or comma-separated file, and its rows: line, cells, problem."""
    quoted = Path(file).suffix.lower() == ".csv"
    found = _csv_rows(cursor) if quoted else _tsv_rows(cursor)
    if column_names is not None:
        return column_names, found
    # a resumed cursor is past the header: it is read separately, and skipped only at the start
    names = _header(Cursor([file]), quoted)
    if not cursor.line:
        next(found, None)
    return names, found


def _wrong_column_count(cells: Sequence[str], names: Sequence[str]) -> str:
    return f"{len(cells)} columns, but the header has {len(names)} ({', '.join(names)})"


def read_column_names(file: str) -> list[str]:
    """Return the columns of a table: the cells of its first line, or the keys of its first object."""
    if not is_json_lines(file):
        return _header(Cursor([file]), Path(file).suffix.lower() == ".csv")
    for line, problem in Cursor([file]).lines():
        if not problem and line.strip():
            with contextlib.suppress(InvalidJSON):
                value = parse_json(line)
                return list(map(str, value)) if isinstance(value, dict) else []
    return []


def _header(cursor: Cursor, quoted: bool) -> list[str]:
    _, cells, problem = next(_csv_rows(cursor) if quoted else _tsv_rows(cursor), (1, [], ""))
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


def _tsv_rows(cursor: Cursor) -> Iterator[tuple[int, list[str], str]]:
    for line, problem in cursor.lines():
        yield cursor.line, line.split("\t") if line and not line.isspace() else [], problem


def _csv_rows(cursor: Cursor) -> Iterator[tuple[int, list[str], str]]:
    """Records of a CSV file; a quoted cell may span lines, and a record is located by its first line."""
    problems: list[str] = []
    csv.field_size_limit(max(csv.field_size_limit(), _MAX_CELL))

    def watched() -> Iterator[str]:
        for line, problem in cursor.lines():
            if problem:
                problems.append(problem)
            yield line + "\n"

    records = csv.reader(watched(), strict=True)
    while True:
        problems.clear()
        first = cursor.line + 1
        try:
            cells = next(records)
        except StopIteration:
            return
        except csv.Error as error:
            unclosed = "end of data" in str(error) or "field limit" in str(error)
            lines = f" (lines {first} to {cursor.line})" if cursor.line > first else ""
            why = f"a quotation mark is never closed{lines}" if unclosed else str(error)
            cells, problems = [], [*problems, f"not valid CSV: {why}"]
        yield first, cells, problems[0] if problems else ""


def _objects(cursor: Cursor, columns: Mapping[str, ColumnSpec]) -> Iterator[ParsedRow]:
    for line, problem in cursor.lines():
        cells: dict[str, str] = {}
        if not problem and line and not line.isspace():
            try:
                cells = _object_cells(line, columns)
            except ValueError as error:
                problem = str(error)
        yield ParsedRow(cursor.file, cursor.line, cells, problem)


def _parse_object(line: str) -> dict[str, Any]:
    try:
        value = parse_json(line, constants=False)
    except InvalidJSON as error:
        raise ValueError(f"not valid JSON: {error.problem} (column {error.column})") from None
    if not isinstance(value, dict):
        raise ValueError(f"must be an object {{...}}, not {line[:40]}")
    return value


def _object_cells(line: str, columns: Mapping[str, ColumnSpec]) -> dict[str, str]:
    value = _parse_object(line)
    cells: dict[str, str] = {}
    for field, column in columns.items():
        name = column.find(value)
        if name is not None:
            cells[field] = to_cell(value[name], name)
        elif column.required:
            raise ValueError(column.missing(value, field))
    return cells


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
