"""GGUF files: metadata and tensor table of a model in one file, as llama.cpp reads it. They may come from anyone.

A file is a header, key-value metadata, a table of tensors, and their data. Every count and length is checked against the size of
the file before anything is read or allocated for it, so that reading takes memory in proportion to what the file really has.

Format: https://github.com/ggml-org/ggml/blob/master/docs/gguf.md
"""

from __future__ import annotations

import math
import os
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, NoReturn

import numpy as np

from weft.core.io import MAX_VOCABULARY_BYTES
from weft.core.printable import printable_line
from weft.core.text_stream import open_regular

SUFFIX = ".gguf"
MAGIC = b"GGUF"
VERSIONS = (2, 3)
MAX_METADATA_BYTES = MAX_VOCABULARY_BYTES
"""Largest metadata, which has the vocabulary, and table of tensors."""
MAX_ITEMS = 1 << 23
"""Most items of all arrays together."""
MAX_TENSORS = 1 << 16
MAX_ELEMENTS = 1 << 40
MAX_DIMENSIONS = 4
MAX_ALIGNMENT = 1 << 16
_MAX_NAME, _SHOWN = 65_535, 80
_SMALLEST_ENTRY, _SMALLEST_TENSOR = 13, 32
"""Bytes of the shortest possible key with its value, and row of the table of tensors."""
_SCALARS = dict(enumerate(("<u1", "<i1", "<u2", "<i2", "<u4", "<i4", "<f4", "?"))) | {10: "<u8", 11: "<i8", 12: "<f8"}
_STRING, _ARRAY = 8, 9


@dataclass(frozen=True)
class TensorType:
    """How elements are stored: ``size`` bytes for each block of ``block`` elements."""

    name: str
    block: int
    size: int


TYPES = {
    0: TensorType("F32", 1, 4),
    1: TensorType("F16", 1, 2),
    2: TensorType("Q4_0", 32, 18),
    3: TensorType("Q4_1", 32, 20),
    6: TensorType("Q5_0", 32, 22),
    7: TensorType("Q5_1", 32, 24),
    8: TensorType("Q8_0", 32, 34),
    12: TensorType("Q4_K", 256, 144),
    13: TensorType("Q5_K", 256, 176),
    14: TensorType("Q6_K", 256, 210),
    30: TensorType("BF16", 1, 2),
}
"""The supported tensor types by their number."""
_NAMES = "F32 F16 Q4_0 Q4_1 - - Q5_0 Q5_1 Q8_0 Q8_1 Q2_K Q3_K Q4_K Q5_K Q6_K Q8_K IQ2_XXS IQ2_XS IQ3_XXS IQ1_S IQ4_NL IQ3_S"
_NAMES += " IQ2_S IQ4_XS I8 I16 I32 I64 F64 IQ1_M BF16 - - - TQ1_0 TQ2_0 - - - MXFP4 NVFP4 Q1_0"
_OTHER_TYPES = {number: name for number, name in enumerate(_NAMES.split()) if name != "-" and number not in TYPES}
"""Names of the others, for messages."""


@dataclass(frozen=True)
class TensorInfo:
    """A tensor in a GGUF file.

    Args:
        name: Its name.
        type: How its elements are stored.
        shape: Its shape, rows first, as in torch; the file has the dimensions in reverse order.
        start: Position of its first byte in the file.
    """

    name: str
    type: TensorType
    shape: tuple[int, ...]
    start: int

    @property
    def elements(self) -> int:
        return math.prod(self.shape)

    @property
    def nbytes(self) -> int:
        """Number of bytes in the file."""
        return self.elements // self.type.block * self.type.size


@dataclass(frozen=True)
class GGUFFile:
    """The metadata and the tensor table of a GGUF file.

    Args:
        path: The file.
        metadata: Numbers, booleans, strings, arrays of numbers (NumPy) and lists of strings by key.
        tensors: Its tensors by name, in the order of the file.
    """

    path: Path
    metadata: Mapping[str, Any]
    tensors: Mapping[str, TensorInfo]


def read_gguf(path: str | Path) -> GGUFFile:
    """Read metadata and tensor table of a GGUF file; raise ValueError with file, entry and reason where it is not valid."""
    with open_regular(path) as file:
        return _HeadParser(Path(path), file).read()


def find_gguf(path: str | Path) -> Path | None:
    """The GGUF file at a path: the file itself, or the only one in a folder without config.json; None where there is none."""
    path = Path(path)
    if not path.is_dir():
        return path if path.suffix.lower() == SUFFIX and path.exists() else None
    found = [] if (path / "config.json").is_file() else sorted(path.glob(f"*{SUFFIX}"))
    if len(found) > 1:
        names = ", ".join(printable_line(file.name) for file in found[:5])
        raise ValueError(f"{path} has {len(found)} GGUF files ({names}); name one of them")
    return found[0] if found else None


class _HeadParser:
    """One pass over the head of a file. ``where`` names the entry that is being read, for messages."""

    def __init__(self, path: Path, file: BinaryIO):
        self.path, self.file, self.where = path, file, "header"
        self.size, self.at, self.items = os.fstat(file.fileno()).st_size, 0, 0

    def fail(self, problem: str) -> NoReturn:
        raise ValueError(f"{self.path}: {self.where}: {problem}")

    def bytes(self, count: int) -> bytes:
        """The next bytes, after checking that the file has them."""
        if count > self.size - self.at:
            self.fail(f"needs {count:,} bytes, but the file ends after {self.size - self.at:,}; it is truncated or damaged")
        if self.at + count > MAX_METADATA_BYTES:
            self.fail(f"metadata and tensor table have more than {MAX_METADATA_BYTES:,} bytes, which is the maximum")
        data = self.file.read(count)
        if len(data) != count:
            self.fail("the file became shorter while it was read")
        self.at += count
        return data

    def number(self, format_: str) -> int:
        return struct.unpack(format_, self.bytes(struct.calcsize(format_)))[0]

    def text(self, limit: int = MAX_METADATA_BYTES) -> str:
        length = self.number("<Q")
        if length > limit:
            self.fail(f"a string has {length:,} bytes; at most {limit:,} are allowed")
        try:
            return self.bytes(length).decode()
        except UnicodeDecodeError as error:
            self.fail(f"byte {error.start} of a string of {length:,} bytes is not UTF-8")

    def read(self) -> GGUFFile:
        if self.size < len(MAGIC) or self.bytes(len(MAGIC)) != MAGIC:
            self.fail(f"not a GGUF file: it does not start with {MAGIC.decode()}")
        version = self.number("<I")
        if version not in VERSIONS:
            swapped = int.from_bytes(version.to_bytes(4, "little"), "big") in VERSIONS
            hint = "; it is big-endian, convert it to little-endian" if swapped else ""
            self.fail(f"version is {version}; supported are {' and '.join(map(str, VERSIONS))}{hint}")
        tensors, entries = self.number("<Q"), self.number("<Q")
        self._check_count("tensors", tensors, _SMALLEST_TENSOR)
        self._check_count("metadata entries", entries, _SMALLEST_ENTRY)
        if tensors > MAX_TENSORS:
            self.fail(f"has {tensors:,} tensors; at most {MAX_TENSORS:,} are allowed")
        metadata = self._metadata(entries)
        alignment = self._alignment(metadata)
        rows = [self._row(number) for number in range(tensors)]
        return GGUFFile(self.path, metadata, self._placed(rows, alignment))

    def _check_count(self, what: str, count: int, smallest: int) -> None:
        if count * smallest > self.size - self.at:
            self.fail(f"{count:,} {what} do not fit into a file of {self.size:,} bytes; it is truncated or damaged")

    def _metadata(self, entries: int) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for number in range(entries):
            self.where = f"metadata entry {number + 1}"
            key = self.text(_MAX_NAME)
            self.where = f"metadata {_shown(key)}"
            if key in found:
                self.fail("the key occurs twice")
            found[key] = self._value(self.number("<I"))
        return found

    def _value(self, kind: int) -> Any:
        if kind == _STRING:
            return self.text()
        if kind == _ARRAY:
            return self._array()
        if kind not in _SCALARS:
            self.fail(f"the value type {kind} is not known; known are 0 to 12")
        return self._numbers(kind, 1)[0].item()

    def _array(self) -> Any:
        kind, count = self.number("<I"), self.number("<Q")
        self.items += count
        if self.items > MAX_ITEMS:
            self.fail(f"arrays have {self.items:,} items; at most {MAX_ITEMS:,} are allowed")
        if kind in _SCALARS:
            return self._numbers(kind, count)
        if kind != _STRING:
            self.fail("an array of arrays, which is not supported" if kind == _ARRAY else f"the value type {kind} is not known")
        self._check_count("items", count, 8)
        return [self.text() for _ in range(count)]

    def _numbers(self, kind: int, count: int) -> np.ndarray:
        dtype = np.dtype(_SCALARS[kind])
        data = self.bytes(count * dtype.itemsize)
        if dtype.kind == "b" and data.strip(b"\0\1"):
            self.fail("a boolean is neither 0 nor 1")
        return np.frombuffer(data, dtype)

    def _alignment(self, metadata: Mapping[str, Any]) -> int:
        self.where = "metadata 'general.alignment'"
        found = metadata.get("general.alignment", 32)
        if type(found) is not int or not 1 <= found <= MAX_ALIGNMENT or found & (found - 1):
            self.fail(f"is {str(found)[:_SHOWN]}, but must be a power of two up to {MAX_ALIGNMENT:,}")
        return found

    def _row(self, number: int) -> tuple[str, TensorType, tuple[int, ...], int]:
        """Name, type, shape and offset of the next row of the tensor table."""
        self.where = f"tensor {number + 1}"
        name = self.text(_MAX_NAME)
        self.where = f"tensor {_shown(name)}"
        count = self.number("<I")
        if not 1 <= count <= MAX_DIMENSIONS:
            self.fail(f"has {count:,} dimensions, but must have 1 to {MAX_DIMENSIONS}")
        shape = tuple(self.number("<Q") for _ in range(count))
        kind, offset = self.number("<I"), self.number("<Q")
        if not all(shape) or math.prod(shape) > MAX_ELEMENTS:
            self.fail(f"has the shape {shape}; every dimension must be at least 1, and their product at most {MAX_ELEMENTS:,}")
        if kind not in TYPES:
            known = ", ".join(type_.name for type_ in TYPES.values())
            self.fail(f"has the type {_OTHER_TYPES.get(kind, kind)}, which is not supported; supported are {known}")
        type_ = TYPES[kind]
        if shape[0] % type_.block:
            self.fail(f"has rows of {shape[0]:,} elements, but {type_.name} stores blocks of {type_.block}")
        return name, type_, shape[::-1], offset

    def _placed(self, rows: list[tuple[str, TensorType, tuple[int, ...], int]], alignment: int) -> dict[str, TensorInfo]:
        """The tensors with their positions, which must follow each other in the order of the table."""
        start = end = _aligned(self.at, alignment)
        found: dict[str, TensorInfo] = {}
        for name, type_, shape, offset in rows:
            self.where = f"tensor {_shown(name)}"
            if name in found:
                self.fail("the name occurs twice")
            expected = _aligned(end, alignment)
            if start + offset != expected:
                problem = "overlaps the tensor before it" if start + offset < end else "does not follow the tensor before it"
                self.fail(f"its data {problem}: offset {offset:,}, expected {expected - start:,}")
            found[name] = info = TensorInfo(name, type_, shape, expected)
            end = expected + info.nbytes
            if end > self.size:
                self.fail(f"its data ends at byte {end:,}, but the file has {self.size:,}; it is truncated or damaged")
        if self.size > _aligned(end, alignment):
            self.where = "tensor data"
            self.fail(f"the file has {self.size:,} bytes, but its last tensor ends at byte {end:,}; it is damaged")
        return found


def _aligned(position: int, alignment: int) -> int:
    return -(-position // alignment) * alignment


def _shown(name: str) -> str:
    return repr(printable_line(name[:_SHOWN]))
