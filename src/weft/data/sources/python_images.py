"""Images in memory as files: PIL images, NumPy arrays, and the encoded images of the library ``datasets``."""

from __future__ import annotations

import hashlib
import io
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from weft.core.files import make_folder, write_bytes
from weft.core.image_file import array_pixels, encode_png, import_pillow, is_image
from weft.data.cache import cache_folder

_FOLDER = "images"
_MAX_PATH = 1000


def image_path(value: Any) -> str | None:
    """Return the path of an image in memory, which is written to the cache; None for what is no image.

    An image is an image of PIL, an array H x W x C (also H x W of bytes), or a dict of ``bytes`` and ``path`` as the library
    ``datasets`` has it; the name of an existing image file becomes an absolute path. The file is named by its content.
    """
    if isinstance(value, str | os.PathLike):
        name = os.fspath(value)
        short = isinstance(name, str) and len(name) < _MAX_PATH
        return str(Path(name).absolute()) if short and is_image(name) and Path(name).is_file() else None
    if isinstance(value, np.ndarray):
        return _array_path(value) if value.ndim == 3 or (value.ndim == 2 and value.dtype == np.uint8) else None
    if isinstance(value, Mapping):
        if set(value) != {"bytes", "path"}:
            return None
        return _write(value["bytes"], ".img") if value["bytes"] is not None else image_path(value["path"])
    if hasattr(value, "tobytes") and hasattr(value, "mode") and hasattr(value, "size"):  # an image of PIL
        return _write(_encode(value), ".png")
    return None


def _array_path(array: np.ndarray) -> str:
    pixels = array_pixels(array)
    if pixels.shape[2] in (1, 3, 4):
        try:
            import_pillow()
            return _write(encode_png(pixels), ".png")
        except ImportError as error:
            raise ValueError(str(error)) from None
    stream = io.BytesIO()
    np.save(stream, np.ascontiguousarray(pixels))
    return _write(stream.getvalue(), ".npy")


def _encode(image: Any) -> bytes:
    stream = io.BytesIO()
    kept = image if image.mode in ("1", "L", "LA", "P", "RGB", "RGBA", "I", "I;16") else image.convert("RGB")
    kept.save(stream, "PNG", compress_level=1, exif=image.getexif())
    return stream.getvalue()


def _write(data: bytes, suffix: str) -> str:
    file = cache_folder() / _FOLDER / f"{hashlib.sha256(data).hexdigest()[:32]}{suffix}"
    if not file.is_file():
        make_folder(file.parent)
        write_bytes(file, data)
    return str(file)
