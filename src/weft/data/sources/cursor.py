"""Strict, resumable reading of text files line by line."""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TypeVar

from weft.core.archive import list_members
from weft.core.io import MAX_DATA_BYTES
from weft.core.text_stream import TextStream, read_whole

T = TypeVar("T")
CursorMark = tuple[int, int, int]
"""Position of a cursor: index of the file, bytes (of its text in UTF-8) and lines read of it."""
BOM, WINDOWS, EMPTY_FILES = "byte-order marks removed", "Windows line ends removed", "empty files"
"""Ledger entries of reading."""
_BOM, _BLOCK_BYTES = b"\xef\xbb\xbf", 1 << 18


class Cursor:
    """A position in one or more text files that are read line by line, and that can be saved and restored.

    Files may be compressed by gzip, which is recognized by their first bytes.

    Args:
        files: Read one after another.
        mark: Where to start.
        counts: Counts removed byte-order marks and Windows line ends, and empty files.
        encoding: Encoding of the files.

    Attributes:
        file: The current file.
        line: Number of the line that was read last.
        total: Bytes of all files.
    """

    def __init__(
        self,
        files: Sequence[str],
        mark: CursorMark = (0, 0, 0),
        counts: Counter[str] | None = None,
        encoding: str = "utf-8",
    ):
        self.files, self.encoding = list(files), encoding
        self.number, offset, self.line = mark
        self.counts: Counter[str] = Counter() if counts is None else counts
        self._sizes = [_size(file) for file in self.files]
        self.total = sum(self._sizes)
        self._before = sum(self._sizes[: self.number])
        self._position: int | None = None  # bytes read of a compressed or converted file
        self._pin: CursorMark | None = None
        self._enter(offset, offset, [])

    def _enter(self, start: int, end: int, lines: list[str]) -> None:
        """Bytes ``start`` to ``end`` of the file are these lines, the next ones to be returned."""
        self._start, self._end, self._lines, self._first = start, end, lines, self.line

    @property
    def file(self) -> str:
        return self.files[self.number]

    def each_file(self) -> Iterator[str]:
        """Yield the remaining files, from the current one; each must be read to its end before the next."""
        while self.number < len(self.files):
            yield self.file
            self.counts[EMPTY_FILES] += not self._end
            self._before += self._sizes[self.number]
            self.number, self.line, self._position = self.number + 1, 0, None
            self._enter(0, 0, [])

    def lines(self) -> Iterator[tuple[str, str]]:
        """Yield the remaining lines of the current file, each with its problem ("" = none).

        Lines end at a line feed and nowhere else; the last one may lack it.
        """
        try:
            with TextStream(self.file, self.encoding, self.mark()[1]) as stream:
                while block := stream.read(_BLOCK_BYTES):
                    block += stream.readline(MAX_DATA_BYTES)
                    if len(block) >= MAX_DATA_BYTES:
                        line = self.line + block.count(b"\n", 0, -1) + 1
                        raise ValueError(f"{self.file}:{line}: the line has more than {MAX_DATA_BYTES:,} bytes; split it")
                    self._position = stream.position() if stream.converted else None
                    yield from self._block(block)
        except OSError as error:
            raise ValueError(f"{self.file}: cannot be read: {error.strerror}") from None

    def _block(self, block: bytes) -> Iterator[tuple[str, str]]:
        """Complete lines, decoded together unless one needs special treatment."""
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
            yield self._decode_line(raw)

    def _decode_line(self, raw: bytes) -> tuple[str, str]:
        if self.line == 1 and raw.startswith(_BOM):
            self.counts[BOM] += 1
            raw = raw.removeprefix(_BOM)
        if raw.endswith(b"\r"):
            self.counts[WINDOWS] += 1
            raw = raw[:-1]
        try:
            return raw.decode(), ""
        except UnicodeDecodeError as error:
            return raw.decode(errors="replace"), self._invalid_byte(raw[error.start])

    def _invalid_byte(self, byte: int, where: str = "") -> str:
        name = "UTF-8" if self.encoding == "utf-8" else self.encoding
        return f"byte 0x{byte:02x}{where} is not valid {name}; save the file as UTF-8, set the option encoding, or fix the line"

    def read_file(self) -> tuple[str, str]:
        """Return the content of the current file and its problem ("" = none), for formats that are not line based.

        ``line`` then counts the rows parsed from it: the caller increments it before each row, skips that many rows when it
        resumes, and calls ``leave`` after the last.
        """
        try:
            raw = read_whole(self.file, MAX_DATA_BYTES, self.encoding)
        except OSError as error:
            raise ValueError(f"{self.file}: cannot be read: {error.strerror}") from None
        if raw.startswith(_BOM):
            self.counts[BOM] += not self.line
            raw = raw.removeprefix(_BOM)
        try:
            return raw.decode(), ""
        except UnicodeDecodeError as error:
            line = raw.count(b"\n", 0, error.start) + 1
            return "", self._invalid_byte(raw[error.start], f" in line {line}")

    def advance(self, position: int) -> None:
        """Record that a folder or a file that is not line based has been read up to a number of bytes."""
        self._position = position

    def leave(self) -> None:
        """Mark a file that is not line based as done."""
        size = self._sizes[self.number]
        self._enter(size, size, [])

    def mark(self) -> CursorMark:
        """Return the current position."""
        if self._pin is not None:
            return self._pin
        done = self.line - self._first
        if done == len(self._lines):
            return self.number, self._end, self.line
        return self.number, self._start + sum(len(line.encode()) + 1 for line in self._lines[:done]), self.line

    def with_marks(self, rows: Iterable[T]) -> Iterator[tuple[T, CursorMark]]:
        """Yield rows that are read with this cursor, each with the position before it."""
        before = self.mark()
        for row in rows:
            yield row, before
            before = self.mark()

    @contextlib.contextmanager
    def pinned(self, mark: CursorMark) -> Iterator[None]:
        """Report another position inside of the block: that of a row that was read ahead."""
        self._pin = mark
        try:
            yield
        finally:
            self._pin = None

    def read(self) -> int:
        """Return the number of bytes read so far, of all files."""
        return self._before + (self._end if self._position is None else self._position)


def _size(path: str) -> int:
    """Bytes of a file, or of all files of a folder."""
    return sum(list_members(path).sizes.values()) if Path(path).is_dir() else Path(path).stat().st_size
