"""The head of a GGUF file: read as the package gguf reads it; no damage does more than raise a ValueError."""

from __future__ import annotations

import random
import struct
import tracemalloc
from pathlib import Path
from typing import Any

import gguf
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from weft.core.gguf import MAX_ITEMS, TYPES, GGUFFile, read_gguf

U4, F4, BOOL, STRING, ARRAY = 4, 6, 7, 8, 9


def string(text: str | bytes) -> bytes:
    data = text.encode() if isinstance(text, str) else text
    return struct.pack("<Q", len(data)) + data


def array(kind: int, *items: bytes, count: int | None = None) -> bytes:
    return struct.pack("<IQ", kind, len(items) if count is None else count) + b"".join(items)


def u4(number: int) -> bytes:
    return struct.pack("<I", number)


def row(name: str | bytes, dims: list[int], kind: int, offset: int, count: int | None = None) -> bytes:
    head = string(name) + u4(len(dims) if count is None else count)
    return head + b"".join(struct.pack("<Q", d) for d in dims) + u4(kind) + struct.pack("<Q", offset)


ENTRIES: list[tuple[str | bytes, int, bytes]] = [
    ("general.architecture", STRING, string("llama")),
    ("tokens", ARRAY, array(STRING, string("a"), string("漢字"), string(""))),
    ("types", ARRAY, array(U4, u4(1), u4(7))),
    ("eps", F4, struct.pack("<f", 0.5)),
    ("yes", BOOL, b"\1"),
]
ROWS = [row("one", [32, 3], 3, 0), row("two", [5], 0, 64)]
"""Q4_1, 3 x 32: 60 bytes and 4 of padding; F32, 5: 20 bytes."""
DATA = bytes(range(60)) + bytes(4) + struct.pack("<5f", 1, 2, 3, 4, 5)


def file_of(
    folder: Path,
    entries: list[tuple[str | bytes, int, bytes]] = ENTRIES,
    rows: list[bytes] = ROWS,
    data: bytes = DATA,
    *,
    version: bytes = u4(3),
    counts: tuple[int, int] | None = None,
    magic: bytes = b"GGUF",
) -> Path:
    head = magic + version + struct.pack("<QQ", *(counts or (len(rows), len(entries))))
    head += b"".join(string(key) + u4(kind) + value for key, kind, value in entries) + b"".join(rows)
    path = folder / "model.gguf"
    path.write_bytes(head + bytes(-len(head) % 32) + data)
    return path


def test_metadata_and_tensors_are_those_that_the_reference_reads(tmp_path: Path) -> None:
    path = file_of(tmp_path)
    ours, theirs = read_gguf(path), gguf.GGUFReader(path)
    expected = {key: field.contents() for key, field in theirs.fields.items() if not key.startswith("GGUF.")}
    found = {key: value.tolist() if isinstance(value, np.ndarray) else value for key, value in ours.metadata.items()}
    assert found == expected and found["tokens"] == ["a", "漢字", ""] and found["yes"] is True
    assert [(t.name, t.type.name, t.start, t.nbytes) for t in ours.tensors.values()] == [
        (t.name, t.tensor_type.name, t.data_offset, t.n_bytes) for t in theirs.tensors
    ]
    assert ours.tensors["one"].shape == (3, 32) and ours.tensors["two"].shape == (5,)


def test_the_supported_types_have_the_sizes_of_the_reference() -> None:
    for number, type_ in TYPES.items():
        theirs = gguf.GGMLQuantizationType(number)
        assert (type_.name, type_.block, type_.size) == (theirs.name, *gguf.GGML_QUANT_SIZES[theirs])


def test_a_file_of_the_reference_writer_is_read(tmp_path: Path) -> None:
    writer = gguf.GGUFWriter(tmp_path / "model.gguf", "llama")
    writer.add_custom_alignment(64)
    writer.add_array("many", [1.5, -2.0])
    writer.add_tensor("m", np.arange(6, dtype=np.float32).reshape(2, 3))
    writer.add_tensor("n", np.arange(4, dtype=np.float16))
    for step in (writer.write_header_to_file, writer.write_kv_data_to_file, writer.write_tensors_to_file, writer.close):
        step()
    found = read_gguf(tmp_path / "model.gguf")
    assert found.metadata["many"].tolist() == [1.5, -2.0]
    assert found.tensors["m"].shape == (2, 3) and found.tensors["n"].start % 64 == 0


HUGE = 2**63
BAD: dict[str, tuple[dict[str, Any], str]] = {
    "empty of magic": ({"magic": b"GGML"}, "header: not a GGUF file"),
    "version 1": ({"version": u4(1)}, "header: version is 1; supported are 2 and 3"),
    "big-endian": ({"version": b"\0\0\0\3"}, "big-endian"),
    "huge tensor count": ({"counts": (HUGE, 5)}, f"header: {HUGE:,} tensors do not fit"),
    "huge entry count": ({"counts": (2, HUGE)}, f"header: {HUGE:,} metadata entries do not fit"),
    "huge string": ({"entries": [("k", STRING, struct.pack("<Q", HUGE))]}, "metadata 'k': a string has"),
    "long string": ({"entries": [("k", STRING, struct.pack("<Q", 10**6))]}, "metadata 'k': needs 1,000,000 bytes"),
    "huge array": ({"entries": [("k", ARRAY, array(U4, count=HUGE))]}, "metadata 'k': arrays have"),
    "long array": ({"entries": [("k", ARRAY, array(U4, count=MAX_ITEMS))]}, "metadata 'k': needs"),
    "long list": ({"entries": [("k", ARRAY, array(STRING, count=MAX_ITEMS))]}, "metadata 'k': 8,388,608 items do not fit"),
    "nested array": ({"entries": [("k", ARRAY, array(ARRAY, array(U4)))]}, "metadata 'k': an array of arrays"),
    "unknown value type": ({"entries": [("k", 13, u4(1))]}, "metadata 'k': the value type 13 is not known"),
    "unknown item type": ({"entries": [("k", ARRAY, array(99, u4(1)))]}, "metadata 'k': the value type 99 is not known"),
    "not a boolean": ({"entries": [("k", BOOL, b"\2")]}, "metadata 'k': a boolean is neither 0 nor 1"),
    "not UTF-8": ({"entries": [("k", STRING, string(b"a\xff"))]}, "metadata 'k': byte 1 of a string"),
    "key not UTF-8": ({"entries": [(b"\xff", U4, u4(1))]}, "metadata entry 1: byte 0 of a string"),
    "key twice": ({"entries": [("k", U4, u4(1))] * 2}, "metadata 'k': the key occurs twice"),
    "control characters": ({"entries": [("\x1b[2J", 13, u4(1))]}, r"metadata '\\x1b[2J': the value type"),
    "alignment 0": ({"entries": [("general.alignment", U4, u4(0))]}, "must be a power of two"),
    "alignment 48": ({"entries": [("general.alignment", U4, u4(48))]}, "metadata 'general.alignment': is 48, but"),
    "alignment as text": ({"entries": [("general.alignment", STRING, string("x" * 999))]}, "must be a power of two"),
    "no dimensions": ({"rows": [row("x", [], 0, 0)]}, "tensor 'x': has 0 dimensions"),
    "many dimensions": ({"rows": [row("x", [1], 0, 0, 2**32 - 1)]}, "tensor 'x': has 4,294,967,295 dimensions"),
    "empty dimension": ({"rows": [row("x", [4, 0], 0, 0)]}, "tensor 'x': has the shape (4, 0)"),
    "huge dimension": ({"rows": [row("x", [HUGE, 2], 0, 0)]}, "tensor 'x': has the shape"),
    "large dimension": ({"rows": [row("x", [2**30], 0, 0)]}, "tensor 'x': its data ends at byte"),
    "unsupported type": ({"rows": [row("x", [256], 10, 0)]}, "tensor 'x': has the type Q2_K, which is not supported"),
    "removed type": ({"rows": [row("x", [256], 4, 0)]}, "tensor 'x': has the type 4, which is not supported"),
    "broken rows": ({"rows": [row("x", [33], 8, 0)]}, "tensor 'x': has rows of 33 elements, but Q8_0 stores blocks of 32"),
    "overlap": ({"rows": [ROWS[0], row("two", [5], 0, 32)]}, "tensor 'two': its data overlaps the tensor before it"),
    "gap": ({"rows": [ROWS[0], row("two", [5], 0, 96)]}, "tensor 'two': its data does not follow"),
    "huge offset": ({"rows": [row("x", [5], 0, 2**64 - 32)]}, "tensor 'x': its data does not follow"),
    "unaligned": (
        {"rows": [row("x", [5], 0, 1)]},
        "tensor 'x': its data does not follow the tensor before it: offset 1, expected 0",
    ),
    "name twice": ({"rows": [ROWS[0], row("one", [5], 0, 64)]}, "tensor 'one': the name occurs twice"),
    "truncated data": ({"data": DATA[:-1]}, "tensor 'two': its data ends at byte"),
    "no data": ({"data": b""}, "tensor 'one': its data ends at byte"),
    "oversized": ({"data": DATA + bytes(32)}, "tensor data: the file has"),
}


@pytest.mark.parametrize("name", BAD)
def test_problems_are_located(name: str, tmp_path: Path) -> None:
    changes, message = BAD[name]
    path = file_of(tmp_path, **changes)
    tracemalloc.start()
    with pytest.raises(ValueError) as caught:
        read_gguf(path)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert str(caught.value).startswith(f"{path}: ") and message in str(caught.value)
    assert str(caught.value).isprintable() and peak < 1_000_000


def test_every_truncation_is_reported(tmp_path: Path) -> None:
    path = file_of(tmp_path)
    whole = path.read_bytes()
    for size in range(len(whole)):
        path.write_bytes(whole[:size])
        with pytest.raises(ValueError, match=r"model\.gguf: "):
            read_gguf(path)


def intact(found: GGUFFile, size: int) -> bool:
    ends = [info.start + info.nbytes for info in found.tensors.values()]
    return all(end <= size for end in ends) and len(found.metadata) <= 5


@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(seed=st.integers(0, 2**32), flips=st.integers(1, 12))
def test_bit_flips_give_another_valid_file_or_a_located_error(seed: int, flips: int, tmp_path: Path) -> None:
    path, rng = file_of(tmp_path), random.Random(seed)
    data = bytearray(path.read_bytes())
    head = len(data) - len(DATA)
    for _ in range(flips):
        data[rng.randrange(head)] ^= 1 << rng.randrange(8)
    path.write_bytes(data)
    tracemalloc.start()
    try:
        assert intact(read_gguf(path), len(data))
    except ValueError as error:
        assert str(error).startswith(f"{path}: ") and str(error).isprintable() and len(str(error)) < 600
    finally:
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
    assert peak < 1_000_000


def test_a_device_is_refused() -> None:
    with pytest.raises(ValueError, match="must be a regular file"):
        read_gguf("/dev/zero")
