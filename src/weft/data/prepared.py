"""Datasets on disk: columns of numbers that are read by offset, and the raw cells of the rows.

Written in one pass with constant memory. A ragged column is two files: the numbers of all rows, and the end of each row.
Progress is committed every few megabytes, so that an interrupted pass resumes from there. Every block of a file has a checksum,
which is verified when the block is first read: damage is an error, never other training data.
"""

from __future__ import annotations

import contextlib
import json
import os
import zlib
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any, overload

import numpy as np

from weft.core.fields import Columns, Info, StoredColumn
from weft.core.io import read_json, write_json
from weft.core.ragged_array import RaggedArray
from weft.data.encoding import assemble, columns_of

FORMAT = 5
"""Version of the files."""
IN_MEMORY = 2**26
"""Files up to this many bytes are loaded into memory; larger ones are read row by row."""
BLOCK = 2**18
"""Bytes with one checksum (CRC-32). A row is read from a file on disk only after its block was verified."""
_DONE, _STATE = "done.json", "state.json"
_ENDS, _BYTES = np.dtype("<i8"), np.dtype("u1")
_ROWS_PER_READ = 4096


def _layout(info: Info) -> dict[str, tuple[str, StoredColumn]]:
    """The file of every column, and how it is stored."""
    return {name: (name.replace("/", "."), column) for name, column in columns_of(info).items()}


def _raw(cell: str) -> str:
    """The file of a raw column."""
    return f"raw.{cell}"


def _size(path: Path) -> int:
    return path.stat().st_size if path.is_file() else -1


class DamagedDataError(ValueError):
    """Prepared data has changed on disk."""


class _Checksums:
    """CRC-32 of a file and of each of its blocks."""

    def __init__(self):
        self.size = self.sum = self.last = 0
        self.blocks: list[int] = []

    def add(self, data: bytes) -> None:
        self.sum = zlib.crc32(data, self.sum)
        rest = memoryview(data)
        while rest:
            part = rest[: BLOCK - self.size % BLOCK]
            self.last = zlib.crc32(part, self.last)
            self.size += len(part)
            if self.size % BLOCK == 0:
                self.blocks.append(self.last)
                self.last = 0
            rest = rest[len(part) :]

    def text(self) -> str:
        """Return the checksums of all blocks as hexadecimal digits, eight each."""
        return "".join(f"{one:08x}" for one in [*self.blocks, *([self.last] if self.size % BLOCK else [])])

    @classmethod
    def of(cls, path: Path, size: int) -> _Checksums:
        """Return the checksums of the first bytes of a file, read in blocks."""
        found = cls()
        if size:
            with path.open("rb", buffering=0) as stream:
                while found.size < size and (data := stream.read(min(BLOCK, size - found.size))):
                    found.add(data)
        return found


class _AppendFile:
    """A file opened for appending, with its checksums. Unbuffered: closing must not retry a write that failed on a full disk."""

    def __init__(self, path: Path, checksums: _Checksums):
        self.stream = path.open("ab", buffering=0)
        self.stream.truncate(checksums.size)
        self.checksums = checksums

    def write(self, data: bytes) -> None:
        rest = memoryview(data)
        while rest:
            rest = rest[self.stream.write(rest) :]
        self.checksums.add(data)


class DatasetWriter:
    """Writes rows into a folder. ``commit`` makes them durable; after a crash, a new writer resumes from the last commit.

    Args:
        folder: Where to write; other content is replaced.
        info: The fields of the rows.
        cells: The names of the raw cells of a row.

    Attributes:
        state: The caller's state at the last commit; None at the start.
    """

    def __init__(self, folder: Path, info: Info, cells: Sequence[str]):
        self.folder, self.layout, self.cells = folder, _layout(info), list(cells)
        (folder / _DONE).unlink(missing_ok=True)
        committed = _read_signed(folder / _STATE) or {}
        sizes, self.state = committed.get("sizes", {}), committed.get("state")
        known = {name: _Checksums.of(folder / name, size) for name, size in sizes.items() if _size(folder / name) >= size}
        if {name: one.sum for name, one in known.items()} != committed.get("sums", {}):
            known, self.state = {}, None  # committed data was damaged, truncated or removed: start again
        ragged = [stem for stem, column in self.layout.values() if column.ragged] + [_raw(name) for name in self.cells]
        names = {*(stem for stem, _ in self.layout.values()), *ragged, *(f"{stem}.ends" for stem in ragged)}
        self.files = {name: _AppendFile(folder / name, known.get(name) or _Checksums()) for name in sorted(names)}

    def add(self, columns: Columns, raws: Sequence[Mapping[str, str]]) -> None:
        """Append rows: their columns and their raw cells."""
        for name, (stem, stored) in self.layout.items():
            column, dtype = columns[name], stored.dtype
            if isinstance(column, RaggedArray):
                self._add_ragged(stem, column.flat.astype(dtype).tobytes(), column.sizes * dtype.itemsize)
            else:
                self.files[stem].write(column.astype(dtype).tobytes())
        for name in self.cells:
            texts = [raw[name].encode() for raw in raws]
            self._add_ragged(_raw(name), b"".join(texts), np.fromiter(map(len, texts), np.int64, len(texts)))

    def _add_ragged(self, stem: str, flat: bytes, sizes: np.ndarray) -> None:
        file = self.files[stem]
        self.files[f"{stem}.ends"].write((file.checksums.size + np.cumsum(sizes)).astype(_ENDS).tobytes())
        file.write(flat)

    def commit(self, state: Any) -> None:
        """Make all rows so far durable, with the caller's state to resume from."""
        self._sync()
        self.state = state
        _write_signed(self.folder / _STATE, {**self._written(), "state": state})

    def done(self, ledger: dict[str, Any]) -> None:
        """Complete the dataset."""
        self._sync()
        self.close()
        blocks = {name: file.checksums.text() for name, file in self.files.items()}
        content = {"format": FORMAT, **self._written(), "blocks": blocks, "cells": self.cells, "ledger": ledger}
        _write_signed(self.folder / _DONE, content)
        (self.folder / _STATE).unlink(missing_ok=True)

    def _written(self) -> dict[str, dict[str, int]]:
        """Size and checksum of each file."""
        sums = {name: file.checksums for name, file in self.files.items()}
        return {"sizes": {name: one.size for name, one in sums.items()}, "sums": {name: one.sum for name, one in sums.items()}}

    def _sync(self) -> None:
        for file in self.files.values():
            os.fsync(file.stream.fileno())

    def close(self) -> None:
        for file in self.files.values():
            file.stream.close()


def _write_signed(path: Path, content: dict[str, Any]) -> None:
    """Write a JSON document with its own checksum."""
    write_json(path, {**content, "sum": _sum_of(content)})


def _read_signed(path: Path) -> dict[str, Any] | None:
    """Read a document of ``_write_signed``; None where it is missing or damaged."""
    try:
        content = read_json(path)
        return content if content.pop("sum") == _sum_of(content) else None
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None


def _sum_of(content: dict[str, Any]) -> int:
    return zlib.crc32(json.dumps(content, sort_keys=True).encode())


def is_done(folder: Path) -> bool:
    """Return whether the dataset is complete: all sizes match, and the checksums of files that are loaded into memory. Larger
    files are verified block by block when they are read."""
    done = _read_signed(folder / _DONE)
    if done is None or done["format"] != FORMAT or any(_size(folder / n) != size for n, size in done["sizes"].items()):
        return False
    small = [name for name, size in done["sizes"].items() if size <= IN_MEMORY]
    try:
        return all(zlib.crc32((folder / name).read_bytes()) == done["sums"][name] for name in small)
    except OSError:
        return False


class _VerifiedFile:
    """A file that is read by offset, on disk. A block is verified with its checksum before anything in it is used.

    Args:
        path: The file.
        blocks: Checksums of its blocks.
    """

    def __init__(self, path: Path, blocks: str):
        # pread, not mmap: mapped pages would count as memory of this process
        self.path, self.stream = path, path.open("rb", buffering=0)
        self.sums = np.frombuffer(bytes.fromhex(blocks), ">u4")
        self.verified = np.zeros(len(self.sums), bool)

    def read(self, start: int, stop: int) -> bytes:
        """Return the bytes from ``start`` to ``stop``. Raises DamagedDataError."""
        if start >= stop:
            return b""
        first, last = start // BLOCK, (stop - 1) // BLOCK
        if not self.verified[first : last + 1].all():
            for block in range(first, last + 1):
                if not self.verified[block]:
                    self._verify(block)
        data = os.pread(self.stream.fileno(), stop - start, start)
        if len(data) != stop - start:
            raise self._damaged(last)
        return data

    def _verify(self, block: int) -> None:
        if zlib.crc32(os.pread(self.stream.fileno(), BLOCK, block * BLOCK)) != self.sums[block]:
            raise self._damaged(block)
        self.verified[block] = True

    def _damaged(self, block: int) -> DamagedDataError:
        """Return the error, and make sure that the data is prepared again."""
        with contextlib.suppress(OSError):
            (self.path.parent / _DONE).unlink(missing_ok=True)
        return DamagedDataError(
            f"{self.path}: the prepared data has changed on disk: bytes {block * BLOCK:,} to {(block + 1) * BLOCK - 1:,} do not "
            "match their checksum; check the disk. The data is prepared again by the next command: to continue training, use "
            "--resume"
        )


class _NumberColumn:
    """Numbers of one dtype in a file, one in a row or as many in each."""

    def __init__(self, path: Path, dtype: np.dtype[Any], blocks: str, width: int = 1):
        self.dtype, self.size, self.width = dtype, path.stat().st_size // dtype.itemsize, width
        small = path.stat().st_size <= IN_MEMORY
        self.all = np.fromfile(path, dtype) if small else None  # verified by is_done
        self.file = None if small else _VerifiedFile(path, blocks)

    def __getitem__(self, row: int) -> np.generic | np.ndarray:
        return self.read(row, row + 1)[0] if self.width == 1 else self.read(row * self.width, (row + 1) * self.width)

    def read(self, start: int, stop: int) -> np.ndarray:
        if self.file is None:
            assert self.all is not None
            return self.all[start:stop]
        size = self.dtype.itemsize
        return np.frombuffer(self.file.read(start * size, stop * size), self.dtype)


class _RaggedColumn:
    """A ragged column: one file with all numbers, one with the end of each row in bytes."""

    def __init__(self, folder: Path, stem: str, dtype: np.dtype[Any], blocks: Mapping[str, str]):
        self.numbers = _NumberColumn(folder / stem, dtype, blocks[stem])
        ends = _NumberColumn(folder / f"{stem}.ends", _ENDS, blocks[f"{stem}.ends"])
        self.ends, self.itemsize = ends.read(0, ends.size), dtype.itemsize

    def __getitem__(self, row: int) -> np.ndarray:
        start = self.ends[row - 1] if row else 0
        return self.numbers.read(int(start) // self.itemsize, int(self.ends[row]) // self.itemsize)


class PreparedDataset:
    """A dataset on disk.

    Args:
        folder: Folder of a ``DatasetWriter``.
        info: The fields it was written with.
    """

    def __init__(self, folder: Path, info: Info):
        done = read_json(folder / _DONE)
        self.info, self.ledger, blocks = info, done["ledger"], done["blocks"]
        self.columns: dict[str, _RaggedColumn | _NumberColumn] = {
            name: _RaggedColumn(folder, stem, stored.dtype, blocks)
            if stored.ragged
            else _NumberColumn(folder / stem, stored.dtype, blocks[stem], stored.size)
            for name, (stem, stored) in _layout(info).items()
        }
        self.cells = {name: _TextColumn(folder, _raw(name), blocks) for name in done["cells"]}
        self._rows = len(next(iter(self.cells.values())))
        counted = {name: stored for name, stored in columns_of(info).items() if stored.counted}
        self.lengths: Mapping[str, np.ndarray] = {name: self._sizes(name, stored.length) for name, stored in counted.items()}

    def _sizes(self, name: str, length: int) -> np.ndarray:
        column = self.columns[name]
        if isinstance(column, _NumberColumn):
            return np.full(self._rows, length, np.uint32)
        return (np.diff(column.ends, prepend=0) // column.itemsize).astype(np.uint32)

    def __len__(self) -> int:
        return self._rows

    def __getitem__(self, row: int) -> dict[str, Any]:
        return assemble(self.info, self.values(row))

    def values(self, row: int) -> dict[str, Any]:
        """Return the numbers of a row, by column."""
        row = self._check(row)
        return {name: column[row] for name, column in self.columns.items()}

    def numbers(self, name: str) -> np.ndarray:
        """Return a column with one number per row."""
        column = self.columns[name]
        assert isinstance(column, _NumberColumn) and column.width == 1
        return column.read(0, column.size)

    def flat(self, name: str) -> np.ndarray:
        """Return the numbers of all rows of a ragged column."""
        column = self.columns[name]
        assert isinstance(column, _RaggedColumn)
        return column.numbers.read(0, column.numbers.size)

    def raw(self, row: int) -> dict[str, str]:
        """Return the raw cells of a row."""
        row = self._check(row)
        return {name: texts[row] for name, texts in self.cells.items()}

    def _check(self, row: int) -> int:
        if not 0 <= row < self._rows:
            raise IndexError(f"row {row} is out of range: the dataset has {self._rows} rows, from 0")
        return int(row)


class _TextColumn(Sequence[str]):
    """A raw column, read on demand."""

    def __init__(self, folder: Path, stem: str, blocks: Mapping[str, str]):
        self.bytes = _NumberColumn(folder / stem, _BYTES, blocks[stem])
        self.ends = _NumberColumn(folder / f"{stem}.ends", _ENDS, blocks[f"{stem}.ends"])

    def __len__(self) -> int:
        return self.ends.size

    @overload
    def __getitem__(self, index: int) -> str: ...
    @overload
    def __getitem__(self, index: slice) -> list[str]: ...
    def __getitem__(self, index: int | slice) -> str | list[str]:
        if isinstance(index, slice):
            first, last, step = index.indices(len(self))
            return (
                self._between(first, last)[::step]
                if first < last and step > 0
                else [self[row] for row in range(first, last, step)]
            )
        return self._between(index, index + 1)[0]

    def _between(self, first: int, last: int) -> list[str]:
        ends = self.ends.read(first, last).tolist()
        start = int(self.ends.read(first - 1, first)[0]) if first else 0
        data = self.bytes.read(start, ends[-1]).tobytes()
        offsets = [0, *(end - start for end in ends)]
        if data.isascii():
            text = data.decode()
            return [text[a:b] for a, b in pairwise(offsets)]
        return [data[a:b].decode() for a, b in pairwise(offsets)]

    def __iter__(self) -> Iterator[str]:
        for first in range(0, len(self), _ROWS_PER_READ):
            yield from self._between(first, min(first + _ROWS_PER_READ, len(self)))
