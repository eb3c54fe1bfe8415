"""An image per example. C channels, H height, W width."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from weft.core.fields.base import Field, field_kind, require_positive

if TYPE_CHECKING:
    from weft.core.fields.info import SyntheticSizes

FORMATS = ("PNG", "JPEG", "GIF", "BMP", "WEBP", "TIFF", "PPM")
"""Image formats that are read, recognized by content. Pillow knows more, for some of which it calls other programs."""
MAX_PIXELS = 1 << 26
"""Most pixels of an image, checked before it is decoded."""


@field_kind("image")
@dataclass(frozen=True)
class ImageField(Field):
    """An image: C x H x W floats, (x / 255 - mean) / std for bytes x, read from the file that a cell names. It is stored nowhere,
    but read on demand.

    Args:
        name: ``image``.
        channels: 3 = RGB; 1 = grayscale.
        height: Height in pixels, after resizing.
        width: Width in pixels, after resizing.
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
    mean: tuple[float, ...] = (0.5,)
    std: tuple[float, ...] = (0.5,)

    def __post_init__(self):
        require_positive(self, "channels", "height", "width")
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

    def load(self, cell: str) -> np.ndarray:
        return read_image(cell, self)


def read_image(path: str | Path, field: ImageField) -> np.ndarray:
    """Return an image file as a float array C x H x W, resized and normalized as the field declares.

    8-bit values are scaled from [0, 255], 16- and 32-bit integers from [0, 65535], floats from [0, 1]; values outside of these
    ranges are an error. Of an animation, the first frame is read.
    """
    try:
        from PIL import Image
    except ImportError:
        raise ValueError("reading images needs the package Pillow, which is not installed: pip install 'weft[images]'") from None
    try:
        with Image.open(path, formats=FORMATS) as opened:
            if opened.width * opened.height > MAX_PIXELS:
                raise ValueError(f"it has {opened.width} x {opened.height} pixels; at most {MAX_PIXELS:,} are allowed")
            converted = _bytes_per_channel(opened).convert("L" if field.channels == 1 else "RGB")
            resized = converted.resize((field.width, field.height), Image.Resampling.BILINEAR)
    except MemoryError:
        raise
    except Exception as error:  # decoders raise nothing narrower
        reason = f"not one of {', '.join(FORMATS)}" if type(error).__name__ == "UnidentifiedImageError" else str(error)
        raise ValueError(f"{path}: cannot be read as an image: {reason}") from None
    pixels_HWC = np.asarray(resized, np.float32).reshape(field.height, field.width, field.channels)
    mean_C11, std_C11 = (np.array(values, np.float32).reshape(-1, 1, 1) * 255 for values in (field.mean, field.std))
    return (np.ascontiguousarray(pixels_HWC.transpose(2, 0, 1)) - mean_C11) / std_C11


def _bytes_per_channel(image: Any) -> Any:
    """The image with 8 bits per channel: Pillow itself would clip larger values to 255."""
    from PIL import Image

    if image.mode != "F" and not image.mode.startswith("I"):
        return image
    top = 1 if image.mode == "F" else 65535
    values_HW = np.asarray(image, np.float64)
    low, high = float(values_HW.min()), float(values_HW.max())
    if not (low >= 0 and high <= top):  # also NaN
        raise ValueError(f"its values are in [{low:g}, {high:g}]; {image.mode} images must be in [0, {top}]")
    return Image.fromarray(np.round(values_HW * (255 / top)).astype(np.uint8))
