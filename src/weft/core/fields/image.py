"""An image per example. C channels, H height, W width."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from weft.core.archive import position, read_file
from weft.core.fields.base import Columns, Encoding, Field, InvalidCell, StoredColumn, field_kind, require_positive
from weft.core.image_file import RESIZES, read_pixels

if TYPE_CHECKING:
    from weft.core.fields.info import Info, SyntheticSizes

_DECODERS, _WINDOW = 4, 32
"""Threads, and files that are in memory at once."""


@field_kind("image")
@dataclass(frozen=True)
class ImageField(Field):
    """An image: C x H x W floats, (x / 255 - mean) / std for bytes x. A cell is the path of a file, which may be in an archive
    (``photos.tar/1.jpg``).

    Stored as C H W bytes, resized: normalization is applied when an example is read, so that it can be measured on these bytes.

    Args:
        name: ``image``.
        channels: 3 = RGB; 1 = grayscale.
        height: Height in pixels, after resizing.
        width: Width in pixels, after resizing.
        resize: How an image gets this height and width: ``stretch``, ``crop`` or ``pad`` (see ``weft.core.image_file.resize``).
        mean: Mean of the pixels, of each channel or of all; 0 to 1.
        std: Standard deviation of the pixels, of each channel or of all. By default the result is in [-1, 1].

    Example:
        >>> ImageField("image", channels=3, height=24, width=32).describe()
        'image, 3 x 24 x 32'
    """

    is_input: ClassVar[bool] = True

    channels: int
    height: int
    width: int
    resize: str = "stretch"
    mean: tuple[float, ...] = (0.5,)
    std: tuple[float, ...] = (0.5,)

    def __post_init__(self):
        require_positive(self, "channels", "height", "width")
        if self.resize not in RESIZES:
            raise ValueError(f"the field {self.name!r} has resize {self.resize!r}; must be one of {', '.join(RESIZES)}")
        for values in (self.mean, self.std):
            if len(values) not in (1, self.channels):
                raise ValueError(f"the field {self.name!r} has {len(values)} means or deviations for {self.channels} channels")
        if not min(self.std) > 0:
            raise ValueError(f"the field {self.name!r} has std {min(self.std)}; it must be positive")

    @property
    def shape(self) -> tuple[int, int, int]:
        """C, H, W."""
        return self.channels, self.height, self.width

    @property
    def cost(self) -> int:
        """What an image counts as in a token budget: the longer side."""
        return max(self.height, self.width)

    def describe(self) -> str:
        return f"image, {' x '.join(map(str, self.shape))}"

    def synthetic(self, rng: np.random.Generator, sizes: SyntheticSizes) -> np.ndarray:
        return rng.normal(size=self.shape).astype(np.float32)

    def lengths(self, value: np.ndarray) -> dict[str, int]:
        return {self.name: self.cost}

    def stored(self) -> ImageField:
        return replace(self, mean=(0.5,), std=(0.5,))

    def columns(self) -> dict[str, StoredColumn]:
        pixels = self.channels * self.height * self.width
        return {self.name: StoredColumn(np.dtype("u1"), ragged=False, counted=True, size=pixels, length=self.cost)}

    def encode(self, rows: Sequence[Mapping[str, str]], encoding: Encoding) -> Columns:
        paths = [row.get(self.name) or "" for row in rows]
        if "" in paths:
            raise InvalidCell(f"{self.name} is empty")
        found = np.zeros((len(rows), self.channels * self.height * self.width), np.uint8)
        # a compressed archive is fast only in its own order
        order = sorted(range(len(paths)), key=lambda row: position(paths[row])) if len(paths) > 1 else [0] * len(paths)
        with ThreadPoolExecutor(_DECODERS) as pool:
            for start in range(0, len(order), _WINDOW):
                window = order[start : start + _WINDOW]
                # read here, decoded there: threads would read out of order
                contents = [_content(paths[row]) for row in window]
                decoded = pool.map(lambda row, data: self._decoded(paths[row], data), window, contents)
                for row, pixels in zip(window, decoded, strict=True):
                    found[row] = pixels.reshape(-1)
        return {self.name: found}

    def pixels(self, path: str | Path) -> np.ndarray:
        """C x H x W bytes of a file, resized."""
        return self._decoded(path, _content(path))

    def _decoded(self, path: str | Path, data: bytes | ValueError) -> np.ndarray:
        try:
            return read_pixels(path, data, *self.shape, self.resize)
        except ImportError as error:
            raise ValueError(str(error)) from None

    def normalize(self, pixels: np.ndarray) -> np.ndarray:
        """The value in an example: C x H x W floats, from as many values between 0 and 255."""
        mean_C11 = np.array(self.mean, np.float32).reshape(-1, 1, 1) * 255
        std_C11 = np.array(self.std, np.float32).reshape(-1, 1, 1) * 255
        return (np.asarray(pixels, np.float32).reshape(self.shape) - mean_C11) / std_C11

    def displayed(self, value: np.ndarray) -> np.ndarray:
        """H x W x C bytes of a value in an example: the inverse of ``normalize``."""
        std_C11, mean_C11 = (np.array(values, np.float32).reshape(-1, 1, 1) for values in (self.std, self.mean))
        return np.clip(np.rint((value * std_C11 + mean_C11) * 255), 0, 255).astype(np.uint8).transpose(1, 2, 0)

    def assemble(self, values: Mapping[str, Any], info: Info) -> np.ndarray:
        return self.normalize(values[self.name])


def _content(path: str | Path) -> bytes | ValueError:
    """The content of a file, or why it cannot be read."""
    try:
        return read_file(path)
    except ValueError as error:
        return error


def read_image(path: str | Path, field: ImageField) -> np.ndarray:
    """Return an image file as a float array C x H x W, resized and normalized as the field declares; see
    ``weft.core.image_file.decode``."""
    return field.normalize(field.pixels(path))
