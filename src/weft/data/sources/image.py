"""Image files as arrays. C channels, H height, W width."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from weft.core.fields import Field


def read_image(path: str | Path, field: Field) -> np.ndarray:
    """Return an image file as a float array C x H x W in [-1, 1], resized to the field's size."""
    try:
        from PIL import Image, UnidentifiedImageError
    except ImportError:
        raise ValueError("reading images needs the package Pillow, which is not installed: pip install 'weft[images]'") from None
    try:
        with Image.open(path) as opened:
            converted = opened.convert("L" if field.vocab == 1 else "RGB")
            resized = converted.resize((field.max_length, field.max_length), Image.Resampling.BILINEAR)
    except (OSError, UnidentifiedImageError, Image.DecompressionBombError) as error:
        raise ValueError(f"{path}: cannot be read as an image: {error}") from None
    pixels_HWC = np.asarray(resized, np.float32).reshape(field.max_length, field.max_length, field.vocab)
    return np.ascontiguousarray(pixels_HWC.transpose(2, 0, 1)) / 127.5 - 1.0
