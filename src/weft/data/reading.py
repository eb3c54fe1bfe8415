"""Reading text files strictly and in one pass: where a row came from is known, what is wrong with it is said, never hidden."""

from __future__ import annotations

import csv
import json
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

Mark = tuple[int, int, int]
"""Where a cursor stands: number of the file, bytes and lines read of it."""


class Row(NamedTuple):
    """One row of a source: its cells by field, or what is wrong with it."""

    where: str
    cells: dict[str, str]
    problem: str = ""


class Cursor:
    """A place in one or more UTF-8 files, read line by line. It can be marked, and another one can go on from the mark.

    Args:
        files: Read one after another.
        mark: Where to begin.

    Attributes:
        counts: Byte-order marks and Windows line ends that were taken off.
    """

    def __init__(self, files: Sequence[str], mark: Mark = (0, 0, 0)):
        self.files = list(files)
        self.number, self.offset, self.line = mark
        self.counts: Counter[str] = Counter()
        self._before = sum(Path(file).stat().st_size for file in self.files[: self.number])

    def each_file(self) -> Iterator[str]:
        """The files that are left, from the one that is being read; each must be read to its end before the next."""
        while self.number < len(self.files):
            yield self.files[self.number]
            self._before += self.offset
            self.number, self.offset, self.line = self.number + 1, 0, 0

    def lines(self) -> Iterator[tuple[str, str]]:
        """The lines that are left of the current file, each with what is wrong with it ("" = nothing)."""
        file = self.files[self.number]
        try:
            with Path(file).open("rb") as stream:
                stream.seek(self.offset)
                for raw in stream:
                    self.offset += len(raw)
                    self.line += 1
                    if self.line == 1 and raw.startswith(b"\xef\xbb\xbf"):
                        self.counts["byte-order marks removed"] += 1
                        raw = raw[3:]
                    raw = raw.removesuffix(b"\n")
                    if raw.endswith(b"\r"):
                        self.counts["Windows line ends removed"] += 1
                        raw = raw[:-1]
                    try:
                        yield raw.decode("utf-8"), ""
                    except UnicodeDecodeError as error:
                        wrong = f"byte 0x{raw[error.start]:02x} is not valid UTF-8; save the file as UTF-8, or repair the line"
                        yield raw.decode("utf-8", "replace"), wrong
        except OSError as error:
            raise ValueError(f"{file}: cannot be read: {error.strerror}") from None

    def where(self) -> str:
        return f"{self.files[self.number]}:{self.line}"

    def mark(self) -> Mark:
        return self.number, self.offset, self.line

    def read(self) -> int:
        """Bytes read so far."""
        return self._before + self.offset

    def total(self) -> int:
        return sum(Path(file).stat().st_size for file in self.files)


# ---------------------------------------------------------------------------------------------------------------- formats


def tables(cursor: Cursor, header: list[str] | None = None) -> Iterator[Row]:
    """Rows of tables, by the ending of each file: .csv (quoted cells), .jsonl (an object a line), anything else tab-separated.

    Lines of tab-separated files are split at tabs and nowhere else: quotation marks are characters like any other. Columns are
    named by the first line, or by ``header`` where a file has none.
    """
    for file in cursor.each_file():
        ending = Path(file).suffix.lower()
        if ending in (".jsonl", ".ndjson"):
            yield from _objects(cursor)
        elif ending == ".csv":
            yield from _quoted(cursor, header or _header(file, quoted=True), skip=header is None)
        else:
            yield from _tabbed(cursor, header or _header(file, quoted=False), skip=header is None)


def _header(file: str, *, quoted: bool) -> list[str]:
    first, problem = next(Cursor([file]).lines(), ("", ""))
    if problem:
        raise ValueError(f"{file}:1: {problem}")
    names = next(csv.reader([first]), []) if quoted else first.split("\t")
    names = [name.strip() for name in names]
    if twice := [name for name, count in Counter(names).items() if count > 1 and name]:
        raise ValueError(f"{file}:1: {names.count(twice[0])} columns {twice[0]!r}; the header has: {', '.join(names)}")
    return names


def _tabbed(cursor: Cursor, header: list[str], skip: bool) -> Iterator[Row]:
    for line, problem in cursor.lines():
        if cursor.line == 1 and skip:
            continue
        yield _row(cursor.where(), header, line.split("\t") if line.strip() else [], problem)


def _quoted(cursor: Cursor, header: list[str], skip: bool) -> Iterator[Row]:
    problems: list[str] = []

    def watched() -> Iterator[str]:
        for line, problem in cursor.lines():
            if problem:
                problems.append(problem)
            yield line + "\n"

    for cells in csv.reader(watched(), strict=False):
        first = cursor.line == 1
        problem, problems[:] = problems[0] if problems else "", []
        if not (first and skip):
            yield _row(cursor.where(), header, cells, problem)


def _objects(cursor: Cursor) -> Iterator[Row]:
    for line, problem in cursor.lines():
        where = cursor.where()
        if problem or not line.strip():
            yield Row(where, {}, problem)
            continue
        try:
            value = json.loads(line)
        except json.JSONDecodeError as error:
            yield Row(where, {}, f"not valid JSON: {error.msg} (column {error.colno})")
            continue
        if not isinstance(value, dict):
            yield Row(where, {}, f"must be an object {{...}}, not {line[:40]}")
            continue
        yield Row(where, {str(name): _cell(inner) for name, inner in value.items()})


def _cell(value: object) -> str:
    """A list is written as its parts with a tab between them: no part of a tab-separated file can hold one."""
    if isinstance(value, list):
        return "\t".join(map(_cell, value))
    return value if isinstance(value, str) else "" if value is None else json.dumps(value)


def _row(where: str, header: list[str], cells: list[str], problem: str) -> Row:
    if not problem and cells and len(cells) != len(header):
        problem = f"{len(cells)} columns, but the header has {len(header)} ({', '.join(header)})"
    return Row(where, {} if problem or not cells else dict(zip(header, cells, strict=True)), problem)


def find_column(row: Row, wanted: str | None, usual: Sequence[str], option: str) -> str:
    """The name of a column: the one that was asked for, or the first of its usual names that is there."""
    name = wanted if wanted is not None else next((name for name in usual if name in row.cells), None)
    if name is None or name not in row.cells:
        missing = f"no column {name!r}" if name is not None else f"no column {' or '.join(map(repr, usual))}"
        raise ValueError(f"{row.where}: {missing}; there is: {', '.join(row.cells)}. Say which it is with the option {option}")
    return name
