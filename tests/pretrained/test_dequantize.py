"""De-quantization is bit by bit that of the reference in the package gguf, for random blocks of every type."""

from __future__ import annotations

from pathlib import Path

import gguf
import numpy as np
import pytest

from weft.core.gguf import TYPES, read_gguf
from weft.pretrained import dequantize as module
from weft.pretrained.dequantize import dequantize, read_tensor


def bits(array: np.ndarray) -> np.ndarray:
    """The bits of float32 numbers; all NaN are the same."""
    return np.where(np.isnan(array), np.uint32(0x7FC00000), array.view(np.uint32))


@pytest.mark.filterwarnings("ignore::RuntimeWarning:gguf")
@pytest.mark.parametrize("number", TYPES, ids=[type_.name for type_ in TYPES.values()])
def test_random_blocks_are_those_of_the_reference(number: int) -> None:
    type_, rng = TYPES[number], np.random.default_rng(number)
    data = rng.integers(0, 256, (700, type_.size), np.uint8)
    expected = gguf.dequantize(data, gguf.GGMLQuantizationType(number))
    found = np.full((700, type_.block), 3.0, np.float32)
    dequantize(data.tobytes(), type_, found)
    assert np.array_equal(bits(found), bits(expected.reshape(700, type_.block)))
    assert len(np.unique(found[np.isfinite(found)])) > 500


@pytest.mark.parametrize("name", ["F32", "F16", "BF16", "Q8_0", "Q4_0", "Q4_1", "Q5_0", "Q5_1"])
def test_a_quantized_tensor_is_read_in_chunks(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kind = gguf.GGMLQuantizationType[name]
    weights = np.random.default_rng(0).normal(size=(5, 96)).astype(np.float32)
    stored = gguf.quantize(weights, kind)
    writer = gguf.GGUFWriter(tmp_path / "model.gguf", "llama")
    for tensor in ("first", "second"):
        writer.add_tensor(tensor, stored, raw_dtype=kind)
    for step in (writer.write_header_to_file, writer.write_kv_data_to_file, writer.write_tensors_to_file, writer.close):
        step()
    monkeypatch.setattr(module, "_CHUNK_ELEMENTS", 64)
    found = read_tensor(read_gguf(tmp_path / "model.gguf"), "second")
    assert found.shape == (5, 96) and np.array_equal(found.numpy(), gguf.dequantize(stored, kind).reshape(5, 96))
    assert float(np.abs(found.numpy() - weights).max()) < 0.3


def test_a_file_that_became_shorter_is_reported(tmp_path: Path) -> None:
    writer = gguf.GGUFWriter(tmp_path / "model.gguf", "llama")
    writer.add_tensor("x", np.ones((4, 4), np.float32))
    for step in (writer.write_header_to_file, writer.write_kv_data_to_file, writer.write_tensors_to_file, writer.close):
        step()
    found = read_gguf(tmp_path / "model.gguf")
    found.path.write_bytes(found.path.read_bytes()[:-8])
    with pytest.raises(ValueError, match=r"model.gguf: tensor 'x': the file became shorter"):
        read_tensor(found, "x")
