"""Prepared rows in files: columns of numbers read by position, and the rows as they were written.

Made in one pass with flat memory. A list column is two files: the numbers of all rows, and where each row ends. What was
written so far is noted every few megabytes, so that a pass that was killed goes on from there.
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
from weft.data.ragged_array import Lists

FORMAT = 3
"""Version of the files."""
IN_MEMORY = 2**26
"""A file of up to so many bytes is read at once; of larger ones, each row when it is asked for."""
_DONE, _STATE = "done.json", "state.json"
_REAL, _ENDS, _BYTES = np.dtype("<f8"), np.dtype("<i8"), np.dtype("u1")
_MOST_PLACES, _AT_ONCE = 1 << 32, 4096


def _layout(info: Info) -> dict[str, tuple[str, str, np.dtype[Any]]]:
    """For every column: its file, what it holds, and its numbers' type."""
    found: dict[str, tuple[str, str, np.dtype[Any]]] = {}
    for field in info.fields.values():
        for name, holds in columns_of(field).items():
            places = name.endswith(("/words", "/sizes")) or field.kind == "span"
            different = _MOST_PLACES if places else max(field.vocab, field.letters)
            whole = np.dtype("<u2") if different <= 1 << 16 else np.dtype("<u4")
            found[name] = (name.replace("/", "."), holds, _REAL if holds == "real" else whole)
    return found


def _raw(cell: str) -> str:
    """The file of the cells of this name."""
    return f"raw.{cell}"


def _size(path: Path) -> int:
    return path.stat().st_size if path.is_file() else -1


class _Growing:
    """A file that is written at its end. Not buffered: a buffer that did not fit on the disk would be tried again when closed."""

    def __init__(self, path: Path, size: int, before: int):
        self.stream = path.open("ab", buffering=0)
        self.stream.truncate(size)
        self.size, self.sum = size, before

    def write(self, data: bytes) -> None:
        rest = memoryview(data)
        while rest:
            rest = rest[self.stream.write(rest) :]
        self.size, self.sum = self.size + len(data), zlib.crc32(data, self.sum)


class Writer:
    """Writes rows into a folder. ``note`` makes them last; after a kill, a new writer goes on from what was noted last.

    Args:
        folder: What else is in it is replaced.
        info: The fields of the rows.
        cells: The names of the cells of a row as it was written.

    Attributes:
        state: What was noted last: the caller's own, None at the beginning.
    """

    def __init__(self, folder: Path, info: Info, cells: Sequence[str]):
        self.folder, self.layout, self.cells = folder, _layout(info), list(cells)
        (folder / _DONE).unlink(missing_ok=True)
        noted = read_json(folder / _STATE) if (folder / _STATE).is_file() else {}
        sizes, sums, self.state = noted.get("sizes", {}), noted.get("sums", {}), noted.get("state")
        if any(_size(folder / name) < size for name, size in sizes.items()):
            sizes, sums, self.state = {}, {}, None  # somebody cut or removed what had been noted: begin anew
        lists = [stem for stem, holds, _ in self.layout.values() if holds == "lists"] + [_raw(name) for name in self.cells]
        names = {*(stem for stem, _, _ in self.layout.values()), *lists, *(f"{stem}.ends" for stem in lists)}
        self.files = {name: _Growing(folder / name, sizes.get(name, 0), sums.get(name, 0)) for name in sorted(names)}

    def add(self, columns: Columns, raws: Sequence[Mapping[str, str]]) -> None:
        """Rows as columns, and as they were written."""
        for name, (stem, _, dtype) in self.layout.items():
            column = columns[name]
            if isinstance(column, Lists):
                self._add_list(stem, column.flat.astype(dtype).tobytes(), column.sizes * dtype.itemsize)
            else:
                self.files[stem].write(column.astype(dtype).tobytes())
        for name in self.cells:
            texts = [raw[name].encode() for raw in raws]
            self._add_list(_raw(name), b"".join(texts), np.fromiter(map(len, texts), np.int64, len(texts)))

    def _add_list(self, stem: str, flat: bytes, sizes: np.ndarray) -> None:
        file = self.files[stem]
        self.files[f"{stem}.ends"].write((file.size + np.cumsum(sizes)).astype(_ENDS).tobytes())
        file.write(flat)

    def note(self, state: Any) -> None:
        """From here a writer can go on, with this state."""
        self._sync()
        self.state = state
        write_json(self.folder / _STATE, {**self._written(), "state": state})

    def done(self, ledger: dict[str, Any]) -> None:
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
    """Whether all its files are there and whole: of the right size, and those that are read at once of the right content."""
    try:
        done = read_json(folder / _DONE)
        if done["format"] != FORMAT or any((folder / n).stat().st_size != size for n, size in done["sizes"].items()):
            return False
        small = [name for name, size in done["sizes"].items() if size <= IN_MEMORY]
        return all(zlib.crc32((folder / name).read_bytes()) == done["sums"][name] for name in small)
    except (OSError, ValueError, KeyError, TypeError):
        return False


class _Numbers:
    """Numbers of one type in a file."""

    def __init__(self, path: Path, dtype: np.dtype[Any]):
        self.dtype, self.size = dtype, path.stat().st_size // dtype.itemsize
        small = path.stat().st_size <= IN_MEMORY
        self.all = np.fromfile(path, dtype) if small else None
        # read by position: pages of a mapped file would count as this process's memory
        self.stream = None if small else path.open("rb", buffering=0)

    def __getitem__(self, row: int) -> np.generic:
        return self.read(row, row + 1)[0]

    def read(self, start: int, stop: int) -> np.ndarray:
        if self.stream is None:
            assert self.all is not None
            return self.all[start:stop]
        width = self.dtype.itemsize
        return np.frombuffer(os.pread(self.stream.fileno(), (stop - start) * width, start * width), self.dtype)


class _ListColumn:
    """A list of numbers for each row: one file of all numbers, one of where rows end, in bytes."""

    def __init__(self, folder: Path, stem: str, dtype: np.dtype[Any]):
        self.numbers, self.ends = _Numbers(folder / stem, dtype), np.fromfile(folder / f"{stem}.ends", _ENDS)
        self.width = dtype.itemsize

    def __getitem__(self, row: int) -> np.ndarray:
        start = self.ends[row - 1] if row else 0
        return self.numbers.read(int(start) // self.width, int(self.ends[row]) // self.width)


class Prepared:
    """The rows of a folder as a dataset.

    Args:
        folder: Where a ``Writer`` put them.
        info: The fields they were written with.
    """

    def __init__(self, folder: Path, info: Info):
        done = read_json(folder / _DONE)
        self.info, self.ledger = info, done["ledger"]
        self.columns: dict[str, _ListColumn | _Numbers] = {
            name: _ListColumn(folder, stem, dtype) if holds == "lists" else _Numbers(folder / stem, dtype)
            for name, (stem, holds, dtype) in _layout(info).items()
        }
        self.cells = {name: _Texts(folder, _raw(name)) for name in done["cells"]}
        counted = [name for field in info.tokenized() for name in counted_columns(field)]
        self.lengths: Mapping[str, np.ndarray] = {name: self._sizes(name) for name in counted}
        self._rows = len(next(iter(self.cells.values())))

    def _sizes(self, name: str) -> np.ndarray:
        column = self.columns[name]
        assert isinstance(column, _ListColumn)
        return (np.diff(column.ends, prepend=0) // column.width).astype(np.uint32)

    def __len__(self) -> int:
        return self._rows

    def __getitem__(self, row: int) -> dict[str, Any]:
        row = self._check(row)
        return assemble(self.info, {name: column[row] for name, column in self.columns.items()})

    def numbers(self, name: str) -> np.ndarray:
        """A column with one number for each row, all of them."""
        column = self.columns[name]
        assert isinstance(column, _Numbers)
        return column.read(0, column.size)

    def raw(self, row: int) -> dict[str, str]:
        row = self._check(row)
        return {name: texts[row] for name, texts in self.cells.items()}

    def _check(self, row: int) -> int:
        if not 0 <= row < self._rows:
            raise IndexError(f"row {row} does not exist: the dataset has {self._rows} rows, counted from 0")
        return int(row)


class _Texts(Sequence[str]):
    """The cells of one name, read when they are asked for."""

    def __init__(self, folder: Path, stem: str):
        self.bytes, self.ends = _Numbers(folder / stem, _BYTES), _Numbers(folder / f"{stem}.ends", _ENDS)

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
        places = [0, *(end - start for end in ends)]
        if data.isascii():
            text = data.decode()
            return [text[a:b] for a, b in pairwise(places)]
        return [data[a:b].decode() for a, b in pairwise(places)]

    def __iter__(self) -> Iterator[str]:
        for first in range(0, len(self), _AT_ONCE):
            yield from self._between(first, min(first + _AT_ONCE, len(self)))
