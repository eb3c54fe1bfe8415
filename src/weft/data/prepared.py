"""Datasets on disk: columns of numbers that are read by offset, and the raw cells of the rows.

Written in one pass with constant memory. A ragged column is two files: the numbers of all rows, and the end of each row.
Progress is committed every few megabytes, so that an interrupted pass resumes from there.
"""

from __future__ import annotations

import os
import zlib
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any, overload

import numpy as np

from weft.core.fields import Info
from weft.core.io import read_json, write_json
from weft.data.encoding import Columns, assemble, columns_of, counted_columns
from weft.data.ragged_array import RaggedArray

FORMAT = 5
"""Version of the files."""
IN_MEMORY = 2**26
"""Files up to this many bytes are loaded into memory; larger ones are read row by row."""
_DONE, _STATE = "done.json", "state.json"
_FLOAT, _ENDS, _BYTES = np.dtype("<f8"), np.dtype("<i8"), np.dtype("u1")
_MAX_OFFSETS, _ROWS_PER_READ = 1 << 32, 4096


def _layout(info: Info) -> dict[str, tuple[str, str, np.dtype[Any]]]:
    """File, type and dtype of every column."""
    found: dict[str, tuple[str, str, np.dtype[Any]]] = {}
    for field in info.fields.values():
        for name, kind in columns_of(field).items():
            is_offset = name.endswith(("/words", "/sizes")) or field.kind == "span"
            values = _MAX_OFFSETS if is_offset else max(field.vocab, field.characters)
            integer = np.dtype("<u2") if values <= 1 << 16 else np.dtype("<u4")
            found[name] = (name.replace("/", "."), kind, _FLOAT if kind == "float" else integer)
    return found


def _raw(cell: str) -> str:
    """The file of a raw column."""
    return f"raw.{cell}"


def _size(path: Path) -> int:
    return path.stat().st_size if path.is_file() else -1


class _AppendFile:
    """A file opened for appending, with its checksum. Unbuffered: closing must not retry a write that failed on a full disk."""

    def __init__(self, path: Path, size: int, before: int):
        self.stream = path.open("ab", buffering=0)
        self.stream.truncate(size)
        self.size, self.sum = size, before

    def write(self, data: bytes) -> None:
        rest = memoryview(data)
        while rest:
            rest = rest[self.stream.write(rest) :]
        self.size, self.sum = self.size + len(data), zlib.crc32(data, self.sum)


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
        committed = read_json(folder / _STATE) if (folder / _STATE).is_file() else {}
        sizes, sums, self.state = committed.get("sizes", {}), committed.get("sums", {}), committed.get("state")
        if any(_size(folder / name) < size for name, size in sizes.items()):
            sizes, sums, self.state = {}, {}, None  # committed data was truncated or removed: start again
        ragged = [stem for stem, kind, _ in self.layout.values() if kind == "ragged"] + [_raw(name) for name in self.cells]
        names = {*(stem for stem, _, _ in self.layout.values()), *ragged, *(f"{stem}.ends" for stem in ragged)}
        self.files = {name: _AppendFile(folder / name, sizes.get(name, 0), sums.get(name, 0)) for name in sorted(names)}

    def add(self, columns: Columns, raws: Sequence[Mapping[str, str]]) -> None:
        """Append rows: their columns and their raw cells."""
        for name, (stem, _, dtype) in self.layout.items():
            column = columns[name]
            if isinstance(column, RaggedArray):
                self._add_ragged(stem, column.flat.astype(dtype).tobytes(), column.sizes * dtype.itemsize)
            else:
                self.files[stem].write(column.astype(dtype).tobytes())
        for name in self.cells:
            texts = [raw[name].encode() for raw in raws]
            self._add_ragged(_raw(name), b"".join(texts), np.fromiter(map(len, texts), np.int64, len(texts)))

    def _add_ragged(self, stem: str, flat: bytes, sizes: np.ndarray) -> None:
        file = self.files[stem]
        self.files[f"{stem}.ends"].write((file.size + np.cumsum(sizes)).astype(_ENDS).tobytes())
        file.write(flat)

    def commit(self, state: Any) -> None:
        """Make all rows so far durable, with the caller's state to resume from."""
        self._sync()
        self.state = state
        write_json(self.folder / _STATE, {**self._written(), "state": state})

    def done(self, ledger: dict[str, Any]) -> None:
        """Complete the dataset."""
        self._sync()
        self.close()
        write_json(self.folder / _DONE, {"format": FORMAT, **self._written(), "cells": self.cells, "ledger": ledger})
        (self.folder / _STATE).unlink(missing_ok=True)

    def _written(self) -> dict[str, dict[str, int]]:
        """Size and checksum of each file."""
        files = self.files.items()
        return {"sizes": {name: file.size for name, file in files}, "sums": {name: file.sum for name, file in files}}

    def _sync(self) -> None:
        for file in self.files.values():
            os.fsync(file.stream.fileno())

    def close(self) -> None:
        for file in self.files.values():
            file.stream.close()


def is_done(folder: Path) -> bool:
    """Return whether the dataset is complete: all sizes match, and the checksums of files that are loaded into memory."""
    try:
        done = read_json(folder / _DONE)
        if done["format"] != FORMAT or any((folder / n).stat().st_size != size for n, size in done["sizes"].items()):
            return False
        small = [name for name, size in done["sizes"].items() if size <= IN_MEMORY]
        return all(zlib.crc32((folder / name).read_bytes()) == done["sums"][name] for name in small)
    except (OSError, ValueError, KeyError, TypeError):
        return False


class _NumberColumn:
    """Numbers of one dtype in a file."""

    def __init__(self, path: Path, dtype: np.dtype[Any]):
        self.dtype, self.size = dtype, path.stat().st_size // dtype.itemsize
        small = path.stat().st_size <= IN_MEMORY
        self.all = np.fromfile(path, dtype) if small else None
        # pread, not mmap: mapped pages would count as memory of this process
        self.stream = None if small else path.open("rb", buffering=0)

    def __getitem__(self, row: int) -> np.generic:
        return self.read(row, row + 1)[0]

    def read(self, start: int, stop: int) -> np.ndarray:
        if self.stream is None:
            assert self.all is not None
            return self.all[start:stop]
        size = self.dtype.itemsize
        return np.frombuffer(os.pread(self.stream.fileno(), (stop - start) * size, start * size), self.dtype)


class _RaggedColumn:
    """A ragged column: one file with all numbers, one with the end of each row in bytes."""

    def __init__(self, folder: Path, stem: str, dtype: np.dtype[Any]):
        self.numbers, self.ends = _NumberColumn(folder / stem, dtype), np.fromfile(folder / f"{stem}.ends", _ENDS)
        self.itemsize = dtype.itemsize

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
        self.info, self.ledger = info, done["ledger"]
        self.columns: dict[str, _RaggedColumn | _NumberColumn] = {
            name: _RaggedColumn(folder, stem, dtype) if kind == "ragged" else _NumberColumn(folder / stem, dtype)
            for name, (stem, kind, dtype) in _layout(info).items()
        }
        self.cells = {name: _TextColumn(folder, _raw(name)) for name in done["cells"]}
        counted = [name for field in info.tokenized() for name in counted_columns(field)]
        self.lengths: Mapping[str, np.ndarray] = {name: self._sizes(name) for name in counted}
        self._rows = len(next(iter(self.cells.values())))

    def _sizes(self, name: str) -> np.ndarray:
        column = self.columns[name]
        assert isinstance(column, _RaggedColumn)
        return (np.diff(column.ends, prepend=0) // column.itemsize).astype(np.uint32)

    def __len__(self) -> int:
        return self._rows

    def __getitem__(self, row: int) -> dict[str, Any]:
        row = self._check(row)
        return assemble(self.info, {name: column[row] for name, column in self.columns.items()})

    def numbers(self, name: str) -> np.ndarray:
        """Return a column with one number per row."""
        column = self.columns[name]
        assert isinstance(column, _NumberColumn)
        return column.read(0, column.size)

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

    def __init__(self, folder: Path, stem: str):
        self.bytes, self.ends = _NumberColumn(folder / stem, _BYTES), _NumberColumn(folder / f"{stem}.ends", _ENDS)

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
