"""Reading text files strictly and in one pass: where a row came from is known, what is wrong with it is said, never hidden."""

from __future__ import annotations

import contextlib
import csv
import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

CursorMark = tuple[int, int, int]
"""Where a cursor stands: number of the file, bytes and lines read of it."""
BOM, WINDOWS, EMPTY_FILES = "byte-order marks removed", "Windows line ends removed", "empty files"
COMMENTS = "comment lines"
"""What is counted while reading."""
_BOM, _BLOCK, _LONGEST_CELL = b"\xef\xbb\xbf", 1 << 18, 1 << 24
_HALF = re.compile("[\ud800-\udfff]")


class Row(NamedTuple):
    """One row of a source: where it begins, its cells by field (none: the row is empty), and what is wrong with it."""

    file: str
    line: int
    cells: Mapping[str, str]
    problem: str = ""

    @property
    def where(self) -> str:
        return f"{self.file}:{self.line}"


class Cursor:
    """A place in one or more UTF-8 files, read line by line. It can be marked, and another one can go on from the mark.

    Args:
        files: Read one after another.
        mark: Where to begin.
        counts: Where byte-order marks and Windows line ends that were taken off are counted, and files without content.

    Attributes:
        file: The one that is being read.
        line: The number of the line that was read last.
    """

    def __init__(self, files: Sequence[str], mark: CursorMark = (0, 0, 0), counts: Counter[str] | None = None):
        self.files = list(files)
        self.number, offset, self.line = mark
        self.counts: Counter[str] = Counter() if counts is None else counts
        sizes = [Path(file).stat().st_size for file in self.files]
        self.total = sum(sizes)
        """Bytes of all files."""
        self._before = sum(sizes[: self.number])
        self._enter(offset, offset, [])

    def _enter(self, start: int, end: int, lines: list[str]) -> None:
        """Bytes ``start`` to ``end`` of the file are these lines, the next ones to be read."""
        self._start, self._end, self._lines, self._first = start, end, lines, self.line

    @property
    def file(self) -> str:
        return self.files[self.number]

    def each_file(self) -> Iterator[str]:
        """The files that are left, from the one that is being read; each must be read to its end before the next."""
        while self.number < len(self.files):
            yield self.file
            self.counts[EMPTY_FILES] += not self._end
            self._before += self._end
            self.number, self.line = self.number + 1, 0
            self._enter(0, 0, [])

    def lines(self) -> Iterator[tuple[str, str]]:
        """The lines that are left of the current file, each with what is wrong with it ("" = nothing).

        A line ends at a line feed and nowhere else; the last one may have no end.
        """
        try:
            with Path(self.file).open("rb") as stream:
                stream.seek(self.mark()[1])
                while block := stream.read(_BLOCK):
                    yield from self._block(block + stream.readline())
        except OSError as error:
            raise ValueError(f"{self.file}: cannot be read: {error.strerror}") from None

    def _block(self, block: bytes) -> Iterator[tuple[str, str]]:
        """Whole lines: all at once where nothing is odd about them."""
        try:
            lines = [] if b"\r" in block or not self.line else block.removesuffix(b"\n").decode().split("\n")
        except UnicodeDecodeError:
            lines = []
        if lines:
            self._enter(self._end, self._end + len(block), lines)
            for line in lines:
                self.line += 1
                yield line, ""
            return
        end = self._end + len(block)
        for raw in block.removesuffix(b"\n").split(b"\n"):
            self._enter(self._end, min(self._end + len(raw) + 1, end), [""])
            self.line += 1
            yield self._odd(raw)

    def _odd(self, raw: bytes) -> tuple[str, str]:
        if self.line == 1 and raw.startswith(_BOM):
            self.counts[BOM] += 1
            raw = raw.removeprefix(_BOM)
        if raw.endswith(b"\r"):
            self.counts[WINDOWS] += 1
            raw = raw[:-1]
        try:
            return raw.decode(), ""
        except UnicodeDecodeError as error:
            wrong = f"byte 0x{raw[error.start]:02x} is not valid UTF-8; save the file as UTF-8, or repair the line"
            return raw.decode(errors="replace"), wrong

    def whole(self) -> tuple[str, str]:
        """All of the current file at once, and what is wrong with it ("" = nothing), for formats that are not read by lines.

        ``line`` then counts the rows that were made of it: who reads raises it by one before each row, skips so many when it
        begins, and calls ``leave`` after the last.
        """
        try:
            raw = Path(self.file).read_bytes()
        except OSError as error:
            raise ValueError(f"{self.file}: cannot be read: {error.strerror}") from None
        if raw.startswith(_BOM):
            self.counts[BOM] += not self.line
            raw = raw.removeprefix(_BOM)
        try:
            return raw.decode(), ""
        except UnicodeDecodeError as error:
            line = raw.count(b"\n", 0, error.start) + 1
            return (
                "",
                f"byte 0x{raw[error.start]:02x} in line {line} is not valid UTF-8; save the file as UTF-8, or repair the line",
            )

    def leave(self) -> None:
        """A file that was read at once is done."""
        size = Path(self.file).stat().st_size
        self._enter(size, size, [])

    def mark(self) -> CursorMark:
        done = self.line - self._first
        if done == len(self._lines):
            return self.number, self._end, self.line
        return self.number, self._start + sum(len(line.encode()) + 1 for line in self._lines[:done]), self.line

    def read(self) -> int:
        """Bytes read so far, of all files."""
        return self._before + self._end


# ------------------------------------------------------------------------------------------------------------------- tables


def is_json_lines(file: str) -> bool:
    """By its ending."""
    return Path(file).suffix.lower() in (".jsonl", ".ndjson")


class Wanted(NamedTuple):
    """A column of a table: its name (None = the first of its usual names that is there), its usual names."""

    name: str | None
    usual: Sequence[str] = ()
    option: bool = True
    """Whether the source has an option to name it."""

    def find(self, there: Sequence[str] | Mapping[str, str]) -> str | None:
        if self.name is not None:
            return self.name if self.name in there else None
        return next((name for name in self.usual if name in there), None)

    def missing(self, there: Sequence[str] | Mapping[str, str], option: str) -> str:
        name = repr(self.name) if self.name is not None else " or ".join(map(repr, self.usual))
        hint = f". Say which it is with the option {option}" if self.option else ""
        return f"no column {name}; there is: {', '.join(there)}{hint}"


class Record(NamedTuple):
    """One row of a table, whole: where it begins, its values by column (None: the row is empty), and what is wrong with it."""

    file: str
    line: int
    values: Mapping[str, Any] | None
    problem: str = ""


def records(cursor: Cursor, header: Sequence[str] | None = None) -> Iterator[Record]:
    """Whole rows of tables, read as ``tables`` does: cells are strings, and in JSON lines whatever JSON says."""
    for file in cursor.each_file():
        if is_json_lines(file):
            for line, problem in cursor.lines():
                value: dict[str, Any] | None = None
                if not problem and line and not line.isspace():
                    try:
                        value = _parsed(line)
                    except (ValueError, RecursionError) as error:
                        problem = str(error)
                yield Record(file, cursor.line, value, problem)
            continue
        names, found = _named_cells(cursor, file, header)
        for line, cells, problem in found:
            if not problem and cells and len(cells) != len(names):
                problem = _uneven(cells, names)
            yield Record(file, line, dict(zip(names, cells, strict=True)) if cells and not problem else None, problem)


def tables(cursor: Cursor, wanted: Mapping[str, Wanted], header: Sequence[str] | None = None) -> Iterator[Row]:
    """Rows of tables, by the ending of each file: .csv (quoted cells), .jsonl (an object a line), anything else tab-separated.

    Lines of tab-separated files are split at tabs and nowhere else: quotation marks are characters like any other. Columns are
    named by the first line, or by ``header`` where files have no such line.

    Args:
        cursor: Where to read.
        wanted: The columns that a row is to have, by field. They are options of the same name.
        header: Names of the columns.
    """
    for _ in cursor.each_file():
        yield from table(cursor, wanted, header)


def table(cursor: Cursor, wanted: Mapping[str, Wanted], header: Sequence[str] | None = None) -> Iterator[Row]:
    """The same of the current file alone."""
    if is_json_lines(cursor.file):
        yield from _objects(cursor, wanted)
        return
    names, found = _named_cells(cursor, cursor.file, header)
    yield from _cells(cursor.file, found, names, wanted)


def _named_cells(
    cursor: Cursor, file: str, header: Sequence[str] | None
) -> tuple[Sequence[str], Iterator[tuple[int, list[str], str]]]:
    """The columns of a tab- or comma-separated file, and its rows: line, cells, problem."""
    quoted = Path(file).suffix.lower() == ".csv"
    found = _quoted(cursor) if quoted else _tabbed(cursor)
    if header is not None:
        return header, found
    # after a resumed cursor's mark there is no header any more: it is read apart, and only at the beginning skipped
    names = _header(Cursor([file]), quoted)
    if not cursor.line:
        next(found, None)
    return names, found


def _uneven(cells: Sequence[str], names: Sequence[str]) -> str:
    return f"{len(cells)} columns, but the header has {len(names)} ({', '.join(names)})"


def column_names(file: str) -> list[str]:
    """The columns of a table: its first line's cells, or the keys of its first object."""
    if not is_json_lines(file):
        return _header(Cursor([file]), Path(file).suffix.lower() == ".csv")
    for line, problem in Cursor([file]).lines():
        if not problem and line.strip():
            with contextlib.suppress(json.JSONDecodeError):
                value = json.loads(line)
                return list(map(str, value)) if isinstance(value, dict) else []
    return []


def _header(cursor: Cursor, quoted: bool) -> list[str]:
    _, cells, problem = next(_quoted(cursor) if quoted else _tabbed(cursor), (1, [], ""))
    names = [cell.strip() for cell in cells]
    if twice := [name for name, number in Counter(names).items() if number > 1 and name]:
        problem = problem or f"{names.count(twice[0])} columns {twice[0]!r}; the header has: {', '.join(names)}"
    if problem:
        raise ValueError(f"{cursor.file}:1: {problem}")
    return names


def _cells(
    file: str, records: Iterator[tuple[int, list[str], str]], names: Sequence[str], wanted: Mapping[str, Wanted]
) -> Iterator[Row]:
    places: dict[str, int] = {}
    for line, cells, problem in records:
        if not places and cells:  # not before there is a row: a file without any may have no header either
            found = {field: column.find(names) for field, column in wanted.items()}
            if missing := [field for field, name in found.items() if name is None]:
                raise ValueError(f"{file}:1: {wanted[missing[0]].missing(names, missing[0])}")
            places = {field: names.index(name) for field, name in found.items() if name is not None}
        if not problem and cells and len(cells) != len(names):
            problem = _uneven(cells, names)
        usable = cells and not problem
        yield Row(file, line, {field: cells[place] for field, place in places.items()} if usable else {}, problem)


def _tabbed(cursor: Cursor) -> Iterator[tuple[int, list[str], str]]:
    for line, problem in cursor.lines():
        yield cursor.line, line.split("\t") if line and not line.isspace() else [], problem


def _quoted(cursor: Cursor) -> Iterator[tuple[int, list[str], str]]:
    """Records of a CSV file; a quoted cell may go over several lines, and a record is where its first line is."""
    problems: list[str] = []
    csv.field_size_limit(max(csv.field_size_limit(), _LONGEST_CELL))

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
            why = f"a quotation mark is opened and never closed{lines}" if unclosed else str(error)
            cells, problems = [], [*problems, f"not valid CSV: {why}"]
        yield first, cells, problems[0] if problems else ""


def _objects(cursor: Cursor, wanted: Mapping[str, Wanted]) -> Iterator[Row]:
    for line, problem in cursor.lines():
        cells: dict[str, str] = {}
        if not problem and line and not line.isspace():
            try:
                cells = _object(line, wanted)
            except (ValueError, RecursionError) as error:
                problem = str(error)
        yield Row(cursor.file, cursor.line, cells, problem)


def _parsed(line: str) -> dict[str, Any]:
    try:
        value = json.loads(line, parse_constant=_no_number)
    except json.JSONDecodeError as error:
        raise ValueError(f"not valid JSON: {error.msg} (column {error.colno})") from None
    if not isinstance(value, dict):
        raise ValueError(f"must be an object {{...}}, not {line[:40]}")
    return value


def _no_number(written: str) -> None:
    raise ValueError(f"not valid JSON: {written} is no value; where there is none write null")


def _object(line: str, wanted: Mapping[str, Wanted]) -> dict[str, str]:
    value = _parsed(line)
    cells: dict[str, str] = {}
    for field, column in wanted.items():
        name = column.find(value)
        if name is None:
            raise ValueError(column.missing(value, field))
        cells[field] = cell_of(value[name], name)
    return cells


def cell_of(value: object, name: str) -> str:
    """A value of JSON as a cell. Raises ValueError for what no UTF-8 text can hold."""
    cell = _cell(value)
    if half := half_character(cell):
        raise ValueError(f"the column {name!r} has {half}")
    return cell


def half_character(text: str) -> str:
    """Which half a character (a lone surrogate, which JSON can write and UTF-8 cannot) the text has, or nothing."""
    half = _HALF.search(text)
    return f"half a character, U+{ord(half[0]):04X} without its other half" if half else ""


def _cell(value: object) -> str:
    """A list is written as its parts with a tab between them: no part of a tab-separated file can hold one."""
    if isinstance(value, list):
        return "\t".join(map(_cell, value))
    return value if isinstance(value, str) else "" if value is None else json.dumps(value)
