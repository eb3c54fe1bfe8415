"""An image's file as numbers. C channels, H height, W width."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from weft.core.fields import Field


def read_image(path: str | Path, field: Field) -> np.ndarray:
    """C x H x W numbers from -1 to 1 of an image's file, brought to the size of the field."""
    try:
        from PIL import Image, UnidentifiedImageError
    except ImportError:
        raise ValueError("images are read by the package Pillow, which is not installed: pip install 'weft[images]'") from None
    try:
        with Image.open(path) as opened:
            whole = opened.convert("L" if field.vocab == 1 else "RGB")
            square = whole.resize((field.length, field.length), Image.Resampling.BILINEAR)
    except (OSError, UnidentifiedImageError, Image.DecompressionBombError) as error:
        raise ValueError(f"{path}: cannot be read as an image: {error}") from None
    pixels_HWC = np.asarray(square, np.float32).reshape(field.length, field.length, field.vocab)
    return np.ascontiguousarray(pixels_HWC.transpose(2, 0, 1)) / 127.5 - 1.0
