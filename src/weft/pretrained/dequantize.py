"""Tensors of GGUF files in float32: de-quantization of blocks of elements that share a scale. Shape suffix: B blocks.

The formulas and the order of operations are those of the reference in the package ``gguf``; the results are equal bit by bit.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor

from weft.core.gguf import GGUFFile, TensorType
from weft.core.text_stream import open_regular

_CHUNK_ELEMENTS = 1 << 20
"""About as many elements are converted together: temporary arrays take a few megabytes, whatever the size of the tensor."""


def read_tensor(gguf: GGUFFile, name: str) -> Tensor:
    """A tensor of a GGUF file in float32, in new memory. Raises ValueError where the file changed since it was opened."""
    info = gguf.tensors[name]
    block, size = info.type.block, info.type.size
    out = np.empty((info.elements // block, block), np.float32)
    step = max(1, _CHUNK_ELEMENTS // block)
    with open_regular(gguf.path) as file:
        file.seek(info.start)
        for begin in range(0, len(out), step):
            part = out[begin : begin + step]
            data = file.read(len(part) * size)
            if len(data) != len(part) * size:
                raise ValueError(f"{gguf.path}: tensor {name!r}: the file became shorter while it was read")
            dequantize(data, info.type, part)
    return torch.from_numpy(out).view(info.shape)


def dequantize(data: bytes, type_: TensorType, out: np.ndarray) -> None:
    """Convert blocks of a tensor type into ``out``, B x elements of a block, in float32.

    Example:
        >>> from weft.core.gguf import TYPES
        >>> out = np.empty((1, 32), np.float32)
        >>> dequantize(np.float16(0.5).tobytes() + bytes(range(32)), TYPES[8], out)
        >>> out[0, :4].tolist()
        [0.0, 0.5, 1.0, 1.5]
    """
    with np.errstate(over="ignore", invalid="ignore"):  # damaged scales give NaN or infinity, which the loader reports
        _CONVERTERS[type_.name](np.frombuffer(data, np.uint8).reshape(-1, type_.size), out)


def _f32(block_B: np.ndarray, out: np.ndarray) -> None:
    out[:] = block_B.view("<f4")


def _f16(block_B: np.ndarray, out: np.ndarray) -> None:
    out[:] = block_B.view("<f2")


def _bf16(block_B: np.ndarray, out: np.ndarray) -> None:
    out.view(np.uint32)[:] = block_B.view("<u2").astype(np.uint32) << 16


def _half(block_B: np.ndarray, at: int) -> np.ndarray:
    """The float16 at a byte of every block, in float32: B x 1."""
    return np.ascontiguousarray(block_B[:, at : at + 2]).view("<f2").astype(np.float32)


def _nibbles(byte_B: np.ndarray) -> np.ndarray:
    """The low, then the high 4 bits of groups of bytes, along a new dimension before the last."""
    return np.stack([byte_B & 15, byte_B >> 4], -2)


def _bits(byte_B: np.ndarray, count: int, width: int = 1) -> np.ndarray:
    """``count`` numbers of ``width`` bits of every byte, lowest first, along a new dimension before the last."""
    shift = (np.arange(count, dtype=np.uint8) * width)[:, None]
    return (byte_B[..., None, :] >> shift) & np.uint8((1 << width) - 1)


def _fifth_bits(block_B: np.ndarray) -> np.ndarray:
    """Bit 4 of each of 32 elements, from 4 bytes: B x 32."""
    return np.unpackbits(block_B, axis=1, bitorder="little") << 4


def _q8_0(block_B: np.ndarray, out: np.ndarray) -> None:
    out[:] = np.ascontiguousarray(block_B[:, 2:]).view(np.int8)
    out *= _half(block_B, 0)


def _q4_0(block_B: np.ndarray, out: np.ndarray) -> None:
    out.reshape(-1, 2, 16)[:] = _nibbles(block_B[:, 2:])
    out -= 8
    out *= _half(block_B, 0)


def _q4_1(block_B: np.ndarray, out: np.ndarray) -> None:
    out.reshape(-1, 2, 16)[:] = _nibbles(block_B[:, 4:])
    out *= _half(block_B, 0)
    out += _half(block_B, 2)


def _q5_0(block_B: np.ndarray, out: np.ndarray) -> None:
    out[:] = _nibbles(block_B[:, 6:]).reshape(-1, 32) | _fifth_bits(block_B[:, 2:6])
    out -= 16
    out *= _half(block_B, 0)


def _q5_1(block_B: np.ndarray, out: np.ndarray) -> None:
    out[:] = _nibbles(block_B[:, 8:]).reshape(-1, 32) | _fifth_bits(block_B[:, 4:8])
    out *= _half(block_B, 0)
    out += _half(block_B, 2)


def _scales_and_minima(block_B: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Scale and minimum of the 8 groups of 32 elements of Q4_K and Q5_K, B x 8 x 1: two float16, each times 6-bit integers.

    Of 12 bytes, the first 4 have the low 6 bits of scales 0 to 3, the next 4 those of the minima; scales and minima 4 to 7 have
    their low 4 bits in the last 4 bytes, and their high 2 bits above those of numbers 0 to 3.
    """
    first, second, last = block_B[:, 4:8], block_B[:, 8:12], block_B[:, 12:16]
    scale = np.concatenate([first & 63, (last & 15) | (first >> 2 & 48)], 1)
    minimum = np.concatenate([second & 63, (last >> 4) | (second >> 2 & 48)], 1)
    return (_half(block_B, 0) * scale.astype(np.float32))[..., None], (_half(block_B, 2) * minimum.astype(np.float32))[..., None]


def _q4_k(block_B: np.ndarray, out: np.ndarray) -> None:
    scale, minimum = _scales_and_minima(block_B)
    groups = out.reshape(-1, 8, 32)
    groups[:] = _nibbles(block_B[:, 16:].reshape(-1, 4, 32)).reshape(-1, 8, 32)
    groups *= scale
    groups -= minimum


def _q5_k(block_B: np.ndarray, out: np.ndarray) -> None:
    scale, minimum = _scales_and_minima(block_B)
    groups = out.reshape(-1, 8, 32)
    groups[:] = _nibbles(block_B[:, 48:].reshape(-1, 4, 32)).reshape(-1, 8, 32) | _bits(block_B[:, 16:48], 8) << 4
    groups *= scale
    groups -= minimum


def _q6_k(block_B: np.ndarray, out: np.ndarray) -> None:
    scale = _half(block_B, 208) * np.ascontiguousarray(block_B[:, 192:208]).view(np.int8).astype(np.float32)
    low = _nibbles(block_B[:, :128].reshape(-1, 2, 64)).reshape(-1, 8, 32)
    high = _bits(block_B[:, 128:192].reshape(-1, 2, 32), 4, width=2).reshape(-1, 8, 32)
    groups = out.reshape(-1, 16, 16)
    groups[:] = (low | high << 4).reshape(-1, 16, 16)
    groups -= 32
    groups *= scale[..., None]


_CONVERTERS: dict[str, Callable[[np.ndarray, np.ndarray], None]] = {
    "F32": _f32,
    "F16": _f16,
    "BF16": _bf16,
    "Q4_0": _q4_0,
    "Q4_1": _q4_1,
    "Q5_0": _q5_0,
    "Q5_1": _q5_1,
    "Q8_0": _q8_0,
    "Q4_K": _q4_k,
    "Q5_K": _q5_k,
    "Q6_K": _q6_k,
}
"""By tensor type: (bytes of the blocks, B x size; their elements, B x block, to fill)."""
