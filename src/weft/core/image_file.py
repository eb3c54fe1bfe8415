"""Decoding and resizing of image files with Pillow. C channels, H height, W width; all arrays are H x W x C bytes."""

from __future__ import annotations

import io
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from PIL.Image import Image

FORMATS = ("PNG", "JPEG", "GIF", "BMP", "WEBP", "TIFF", "PPM")
"""Image formats that are read, recognized by content. Pillow knows more, for some of which it calls other programs."""
SUFFIXES = (".png", ".jpg", ".jpeg", ".jpe", ".gif", ".bmp", ".webp", ".tif", ".tiff", ".ppm", ".pgm", ".pnm", ".npy")
"""Suffixes of the files of a folder or an archive that are images."""
MAX_PIXELS = 1 << 26
"""Most pixels of an image, checked before it is decoded."""
RESIZES = ("stretch", "crop", "pad")
"""How an image gets its height and width; see ``resize``."""
MODES = {1: "L", 3: "RGB", 4: "RGBA"}
"""Modes of Pillow by number of channels; images with other numbers of channels are .npy files."""
_ORIENTATION, _FIRST_TURNED = 0x0112, 5
"""The EXIF tag of the orientation, and the first of its values with width and height exchanged."""
_NPY = b"\x93NUMPY"


def is_image(path: str | Path) -> bool:
    """Return whether the suffix is that of an image.

    >>> is_image("cat/1.JPG"), is_image("cat/1.txt")
    (True, False)
    """
    return Path(path).suffix.lower() in SUFFIXES


def read_pixels(path: str | Path, data: bytes | ValueError, channels: int, height: int, width: int, how: str) -> np.ndarray:
    """Return the pixels of an image file, resized: C x H x W bytes. Raises ValueError with the path.

    Args:
        path: The file, for messages.
        data: Its content, or the error of reading it.
        channels: Number of channels.
        height: Height in pixels.
        width: Width in pixels.
        how: How it is resized.
    """
    try:
        if isinstance(data, ValueError):
            raise data
        pixels_HWC = resize(decode(data, channels), height, width, how)
    except (ImportError, MemoryError):
        raise
    except Exception as error:  # decoders raise nothing narrower
        reason = f"not one of {', '.join(FORMATS)}" if type(error).__name__ == "UnidentifiedImageError" else str(error)
        raise ValueError(f"{path}: cannot be read as an image: {reason}") from None
    return np.ascontiguousarray(pixels_HWC.transpose(2, 0, 1))


def decode(data: bytes, channels: int) -> np.ndarray:
    """Return the pixels of an encoded image, H x W x C bytes.

    It is rotated by its EXIF orientation. 8-bit values are kept, 16- and 32-bit integers are scaled from [0, 65535], floats
    from [0, 1]; values outside of these ranges are an error. Transparent pixels are composited on white, unless there are four
    channels; of an animation, the first frame is read. Data in NumPy's format is H x W or H x W x C.
    """
    if not data:
        raise ValueError("the file is empty")
    if data.startswith(_NPY):
        return _array(data, channels)
    import_pillow()
    from PIL import Image, ImageOps

    with Image.open(io.BytesIO(data), formats=FORMATS) as opened:
        _check_pixels(opened.width, opened.height)
        if channels not in MODES:
            raise ValueError(f"it has 1, 3 or 4 channels, not {channels}; other numbers of channels need .npy files")
        opened.load()
        image = ImageOps.exif_transpose(_bytes_per_channel(opened))
    if channels != 4 and ("A" in image.getbands() or "transparency" in image.info):
        visible = image.convert("RGBA")
        image = Image.alpha_composite(Image.new("RGBA", visible.size, (255, 255, 255, 255)), visible)
    pixels = np.asarray(image.convert(MODES[channels]))
    return pixels.reshape(*pixels.shape[:2], channels)


def header(data: bytes) -> tuple[int, int, bool]:
    """Return width and height of an encoded image, as it is shown, and whether it has no colors. Raises ValueError."""
    if data.startswith(_NPY):
        pixels = array_pixels(np.load(io.BytesIO(data), allow_pickle=False))
        return pixels.shape[1], pixels.shape[0], pixels.shape[2] == 1
    import_pillow()
    from PIL import Image

    try:
        with Image.open(io.BytesIO(data), formats=FORMATS) as image:
            turned = image.getexif().get(_ORIENTATION, 1) >= _FIRST_TURNED
            width, height = reversed(image.size) if turned else image.size
            return width, height, image.mode in ("1", "L", "LA", "I", "F") or image.mode.startswith("I;")
    except Exception as error:  # decoders raise nothing narrower
        raise ValueError(str(error)) from None


def resize(pixels_HWC: np.ndarray, height: int, width: int, how: str) -> np.ndarray:
    """Resize an image with an antialiased bilinear filter.

    ``stretch`` ignores the aspect ratio; ``crop`` resizes until height and width are covered and cuts off the rest on both sides;
    ``pad`` resizes until the image fits and adds black (0) on both sides.

    >>> resize(np.full((4, 2, 1), 9, np.uint8), 2, 2, "pad")[..., 0].tolist()
    [[5, 5], [5, 5]]
    """
    rows, columns = pixels_HWC.shape[:2]
    if how == "crop":
        scale = max(height / rows, width / columns)
        y, x = max(0.0, (rows - height / scale) / 2), max(0.0, (columns - width / scale) / 2)
        return resize_box(pixels_HWC, height, width, (x, y, columns - x, rows - y))
    if how == "pad":
        scale = min(height / rows, width / columns)
        inner_height, inner_width = max(1, min(height, round(rows * scale))), max(1, min(width, round(columns * scale)))
        top, left = (height - inner_height) // 2, (width - inner_width) // 2
        padded = np.zeros((height, width, pixels_HWC.shape[2]), np.uint8)
        inner = resize_box(pixels_HWC, inner_height, inner_width, (0, 0, columns, rows))
        padded[top : top + inner_height, left : left + inner_width] = inner
        return padded
    return resize_box(pixels_HWC, height, width, (0, 0, columns, rows))


def resize_box(pixels_HWC: np.ndarray, height: int, width: int, box: tuple[float, float, float, float]) -> np.ndarray:
    """Resize a part of an image, (left, top, right, bottom), with an antialiased bilinear filter."""
    rows, columns, channels = pixels_HWC.shape
    if (rows, columns) == (height, width) and tuple(box) == (0, 0, columns, rows):
        return pixels_HWC
    import_pillow()
    from PIL import Image

    parts = [pixels_HWC] if channels in (1, 3) else [pixels_HWC[..., c : c + 1] for c in range(channels)]
    images = (Image.fromarray(part[..., 0] if part.shape[2] == 1 else part) for part in parts)
    resized = [np.asarray(image.resize((width, height), Image.Resampling.BILINEAR, box)) for image in images]
    return np.concatenate([part.reshape(height, width, -1) for part in resized], 2)


def encode_png(pixels_HWC: np.ndarray) -> bytes:
    """Return an image of 1, 3 or 4 channels in the format PNG."""
    import_pillow()
    from PIL import Image

    stream = io.BytesIO()
    Image.fromarray(pixels_HWC[..., 0] if pixels_HWC.shape[2] == 1 else pixels_HWC).save(stream, "PNG")
    return stream.getvalue()


def import_pillow() -> None:
    """Raise ImportError with the command that installs Pillow where it is missing."""
    try:
        import PIL  # noqa: F401
    except ImportError:
        raise ImportError("reading images needs the package Pillow, which is not installed: pip install 'weft[images]'") from None


def _check_pixels(width: int, height: int) -> None:
    if width * height > MAX_PIXELS:
        raise ValueError(f"it has {width} x {height} pixels; at most {MAX_PIXELS:,} are allowed")


def _bytes_per_channel(image: Image) -> Image:
    """The image with 8 bits per channel: Pillow itself would clip larger values to 255."""
    from PIL import Image as Images

    if image.mode != "F" and not image.mode.startswith("I"):
        return image
    top = 1 if image.mode == "F" else 65535
    return Images.fromarray(to_bytes(np.asarray(image, np.float64), top, f"{image.mode} images"))


def to_bytes(values: np.ndarray, top: float, what: str) -> np.ndarray:
    """Return values in [0, ``top``] scaled to bytes; raise ValueError for values outside, NaN included."""
    low, high = float(values.min()), float(values.max())
    if not (low >= 0 and high <= top):
        raise ValueError(f"its values are in [{low:g}, {high:g}]; {what} must be in [0, {top:g}]")
    return np.round(values * (255 / top)).astype(np.uint8)


def array_pixels(array: np.ndarray) -> np.ndarray:
    """Return an array H x W or H x W x C as an image: bytes as they are, wider integers from [0, 65535], floats from [0, 1]."""
    if array.ndim not in (2, 3) or not array.size or array.dtype.kind not in "uifb":
        raise ValueError(f"an array of shape {array.shape} and type {array.dtype}; must be H x W or H x W x C numbers")
    _check_pixels(array.shape[1], array.shape[0])
    if array.dtype.kind == "b":
        array = array * np.uint8(255)
    if array.dtype != np.uint8:
        array = to_bytes(array.astype(np.float64), 1 if array.dtype.kind == "f" else 65535, f"{array.dtype} arrays")
    return array.reshape(*array.shape[:2], -1)


def _array(data: bytes, channels: int) -> np.ndarray:
    stream: Any = io.BytesIO(data)
    version = np.lib.format.read_magic(stream)
    read_header = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}.get(version)
    if read_header is None:
        raise ValueError(f"version {version} of NumPy's format is not supported")
    shape, _, dtype = read_header(stream)
    if dtype.hasobject or len(data) - stream.tell() != int(np.prod(shape, dtype=object)) * dtype.itemsize:
        raise ValueError("the file is truncated, or holds no numbers")
    stream.seek(0)
    pixels = array_pixels(np.load(stream, allow_pickle=False))
    if pixels.shape[2] == 1 and channels == 3:
        return np.repeat(pixels, 3, 2)
    if pixels.shape[2] != channels:
        raise ValueError(f"it has {pixels.shape[2]} channels; the option channels is {channels}")
    return pixels
