"""Prepared rows in files: columns of numbers read by position, and the rows as they were written.

Made in one pass with flat memory. A list column is two files: the numbers of all rows, and where each row ends. What was
written so far is noted every few megabytes, so that a pass that was killed goes on from there.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from weft.batch import Info
from weft.data.encoding import assemble, columns_of
from weft.files import read_json, write_json

FORMAT = 1
IN_MEMORY = 2**26
"""A column of up to so many bytes is read at once; of larger ones, each row when it is asked for."""
_DONE, _STATE, _RAW = "done.json", "state.json", "raw.jsonl"
_REAL, _ENDS = np.dtype("<f8"), np.dtype("<i8")


def _whole(largest: int) -> np.dtype[Any]:
    return np.dtype("<u2") if largest <= 1 << 16 else np.dtype("<u4")


def _layout(info: Info) -> dict[str, tuple[str, str, np.dtype[Any]]]:
    """For every column: its file, what it holds, and its numbers' type."""
    found: dict[str, tuple[str, str, np.dtype[Any]]] = {}
    for field in info.fields.values():
        for name, holds in columns_of(field).items():
            most = max(field.vocab, 1 << 17 if name.endswith("/words") else 0)
            found[name] = (name.replace("/", "."), holds, _REAL if holds == "real" else _whole(most))
    return found


class Writer:
    """Writes rows into a folder. ``note`` makes them last; after a kill, a new writer goes on from what was noted last.

    Attributes:
        state: What was noted last: the caller's own, None at the beginning.
    """

    def __init__(self, folder: Path, info: Info):
        self.folder, self.layout = folder, _layout(info)
        noted = read_json(folder / _STATE) if (folder / _STATE).is_file() else {"sizes": {}, "state": None}
        self.state, sizes = noted["state"], noted["sizes"]
        self.files: dict[str, BinaryIO] = {}
        for name in self._names():
            file = self.files[name] = (folder / name).open("ab")
            file.truncate(sizes.get(name, 0))
            file.seek(0, os.SEEK_END)
        self.ends = {
            name: file.tell() // dtype.itemsize
            for name, (stem, holds, dtype) in self.layout.items()
            if holds == "lists"
            for file in [self.files[stem]]
        }
        self.raw_end = self.files[_RAW].tell()

    def _names(self) -> list[str]:
        ends = [f"{stem}.ends" for stem, holds, _ in self.layout.values() if holds == "lists"]
        return [stem for stem, _, _ in self.layout.values()] + ends + [_RAW, f"{_RAW}.ends"]

    def add(self, rows: list[dict[str, Any]], raws: list[dict[str, str]]) -> None:
        for name, (stem, holds, dtype) in self.layout.items():
            values = [row[name] for row in rows]
            if holds == "lists":
                sizes = np.fromiter(map(len, values), np.int64, len(values))
                ends = self.ends[name] + np.cumsum(sizes)
                self.files[f"{stem}.ends"].write(ends.astype(_ENDS).tobytes())
                self.ends[name] = int(ends[-1]) if len(ends) else self.ends[name]
                values = [number for value in values for number in value]
            self.files[stem].write(np.array(values, dtype).tobytes())
        lines = [(json.dumps(raw, ensure_ascii=False) + "\n").encode("utf-8", "surrogatepass") for raw in raws]
        ends = self.raw_end + np.cumsum([len(line) for line in lines])
        self.raw_end = int(ends[-1]) if len(lines) else self.raw_end
        self.files[_RAW].write(b"".join(lines))
        self.files[f"{_RAW}.ends"].write(np.asarray(ends, _ENDS).tobytes())

    def note(self, state: Any) -> None:
        for file in self.files.values():
            file.flush()
        self.state = state
        write_json(self.folder / _STATE, {"sizes": {name: file.tell() for name, file in self.files.items()}, "state": state})

    def done(self, ledger: dict[str, Any]) -> None:
        sizes = {name: file.tell() for name, file in self.files.items()}
        for file in self.files.values():
            file.flush()
            os.fsync(file.fileno())
            file.close()
        write_json(self.folder / _DONE, {"format": FORMAT, "sizes": sizes, "ledger": ledger})
        (self.folder / _STATE).unlink(missing_ok=True)


def is_done(folder: Path) -> bool:
    """Whether all its files are there and whole."""
    try:
        done = read_json(folder / _DONE)
        return done["format"] == FORMAT and all((folder / n).stat().st_size == size for n, size in done["sizes"].items())
    except (OSError, ValueError, KeyError, TypeError):
        return False


class _File:
    """Numbers of one type in a file."""

    def __init__(self, path: Path, dtype: np.dtype[Any]):
        self.path, self.dtype = path, dtype
        self.size = path.stat().st_size // dtype.itemsize
        small = path.stat().st_size <= IN_MEMORY
        self.numbers = np.fromfile(path, dtype) if small else None
        # read by position: pages of a mapped file would count as this process's memory
        self.descriptor = None if small else os.open(path, os.O_RDONLY)

    def read(self, start: int, stop: int) -> np.ndarray:
        if self.numbers is not None:
            return self.numbers[start:stop]
        assert self.descriptor is not None
        width = self.dtype.itemsize
        return np.frombuffer(os.pread(self.descriptor, (stop - start) * width, start * width), self.dtype)

    def __del__(self) -> None:
        if getattr(self, "descriptor", None) is not None:
            os.close(self.descriptor)  # pyright: ignore[reportArgumentType]


class Prepared:
    """The rows of a folder as a dataset.

    Args:
        folder: Where a ``Writer`` put them.
        info: The fields they were written with.
    """

    def __init__(self, folder: Path, info: Info):
        self.info, self.ledger = info, read_json(folder / _DONE)["ledger"]
        self.columns: dict[str, tuple[_File, np.ndarray | None]] = {}
        for name, (stem, holds, dtype) in _layout(info).items():
            ends = np.fromfile(folder / f"{stem}.ends", _ENDS) if holds == "lists" else None
            self.columns[name] = (_File(folder / stem, dtype), ends)
        self._raw, self._raw_ends = _File(folder / _RAW, np.dtype("u1")), _File(folder / f"{_RAW}.ends", _ENDS)
        self._rows = self._raw_ends.size
        self.lengths: Mapping[str, np.ndarray] = {f.name: np.diff(self._ends(f.name), prepend=0) for f in info.texts()}

    def _ends(self, name: str) -> np.ndarray:
        ends = self.columns[name][1]
        assert ends is not None
        return ends

    def __len__(self) -> int:
        return self._rows

    def __getitem__(self, row: int) -> dict[str, Any]:
        row = self._check(row)
        values: dict[str, Any] = {}
        for name, (file, ends) in self.columns.items():
            if ends is None:
                values[name] = file.read(row, row + 1)[0]
            else:
                values[name] = file.read(int(ends[row - 1]) if row else 0, int(ends[row]))
        return assemble(self.info, values)

    def raw(self, row: int) -> dict[str, str]:
        row = self._check(row)
        start, stop = int(self._raw_ends.read(row - 1, row)[0]) if row else 0, int(self._raw_ends.read(row, row + 1)[0])
        return json.loads(self._raw.read(start, stop).tobytes())

    def _check(self, row: int) -> int:
        if not 0 <= row < self._rows:
            raise IndexError(f"row {row} does not exist: the dataset has {self._rows} rows, counted from 0")
        return int(row)
