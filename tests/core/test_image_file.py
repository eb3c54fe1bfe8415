"""Images of every kind are decoded to bytes of one size, or refused with the reason; sizes are bounded first."""

from __future__ import annotations

import io
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image, ImageOps

from weft.core import image_file
from weft.core.fields import ImageField
from weft.core.image_file import decode, encode_png, resize

RAMP = np.arange(48, dtype=np.uint8).reshape(4, 4, 3) * 5


def saved(image: Image.Image, kind: str = "PNG", **options: Any) -> bytes:
    stream = io.BytesIO()
    image.save(stream, kind, **options)
    return stream.getvalue()


def array_file(array: np.ndarray) -> bytes:
    stream = io.BytesIO()
    np.save(stream, array)
    return stream.getvalue()


def test_modes_become_channels() -> None:
    image = Image.fromarray(RAMP)
    assert np.array_equal(decode(saved(image), 3), RAMP) and np.array_equal(decode(encode_png(RAMP), 3), RAMP)
    luminance = RAMP @ [0.299, 0.587, 0.114]
    assert np.abs(decode(saved(image), 1)[..., 0] - luminance).max() <= 1
    assert np.array_equal(decode(saved(image.convert("L")), 3), np.repeat(np.asarray(image.convert("L"))[..., None], 3, 2))
    palette = image.quantize(16)
    assert np.array_equal(decode(saved(palette), 3), np.asarray(palette.convert("RGB")))
    assert np.array_equal(decode(saved(image.convert("1")), 1)[..., 0], np.asarray(image.convert("1")) * 255)
    cmyk = Image.new("CMYK", (8, 8), (0, 255, 255, 0))
    red = decode(saved(cmyk, "JPEG"), 3)
    assert red[..., 0].min() > 230 and red[..., 1:].max() < 40


def test_transparent_pixels_are_white_and_kept_with_four_channels() -> None:
    pixels = np.array([[[200, 0, 0, 255], [200, 0, 0, 0], [200, 0, 0, 51]]], np.uint8)
    rgba = saved(Image.fromarray(pixels))
    assert decode(rgba, 3).tolist() == [[[200, 0, 0], [255, 255, 255], [244, 204, 204]]]
    assert np.array_equal(decode(rgba, 4), pixels)
    gray = saved(Image.merge("LA", [Image.new("L", (2, 1), 0), Image.fromarray(np.array([[0, 255]], np.uint8))]))
    assert decode(gray, 1).tolist() == [[[255], [0]]]
    palette = Image.new("P", (1, 1), 7)
    palette.putpalette([9] * 768)
    assert decode(saved(palette, transparency=7), 3).tolist() == [[[255] * 3]]
    assert decode(saved(Image.new("RGB", (1, 1), (1, 2, 3)), transparency=(1, 2, 3)), 3).tolist() == [[[255] * 3]]


@pytest.mark.parametrize("orientation", range(1, 9))
def test_exif_orientation_is_applied(orientation: int) -> None:
    exif = Image.Exif()
    exif[0x0112] = orientation
    image = Image.fromarray(RAMP[:3])
    rotated = image if orientation == 1 else ImageOps.exif_transpose(_tagged(image, exif))
    assert np.array_equal(decode(saved(image, exif=exif), 3), np.asarray(rotated))
    if orientation in (6, 8):
        assert decode(saved(image, exif=exif), 3).shape == (4, 3, 3)


def _tagged(image: Image.Image, exif: Image.Exif) -> Image.Image:
    return Image.open(io.BytesIO(saved(image, exif=exif)))


def test_the_first_frame_of_an_animation_is_read() -> None:
    frames = [Image.new("RGB", (4, 4), color) for color in ((255, 0, 0), (0, 255, 0))]
    for kind in ("GIF", "WEBP", "PNG", "TIFF"):
        data = saved(frames[0], kind, save_all=True, append_images=frames[1:])
        assert np.abs(decode(data, 3).astype(int) - [255, 0, 0]).max() < 8, kind


def test_arrays_have_any_number_of_channels() -> None:
    many = np.random.default_rng(0).integers(0, 256, (6, 5, 7)).astype(np.uint8)
    assert np.array_equal(decode(array_file(many), 7), many)
    assert resize(many, 3, 4, "crop").shape == (3, 4, 7)
    assert decode(array_file(many[..., 0]), 3).shape == (6, 5, 3)
    assert decode(array_file(np.array([[0.0, 0.5, 1.0]])), 1).tolist() == [[[0], [128], [255]]]
    assert decode(array_file(np.array([[True, False]])), 1).tolist() == [[[255], [0]]]
    assert decode(array_file(np.array([[65535, 0]], np.uint16)), 1).tolist() == [[[255], [0]]]


def png_of(width: int, height: int) -> bytes:
    """The header of an image of this size, with next to no pixels."""
    header = b"IHDR" + width.to_bytes(4, "big") + height.to_bytes(4, "big") + b"\x08\x02\x00\x00\x00"
    pixels = b"IDAT" + zlib.compress(bytes(100))
    chunks = (len(c[4:]).to_bytes(4, "big") + c + zlib.crc32(c).to_bytes(4, "big") for c in (header, pixels, b"IEND"))
    return b"\x89PNG\r\n\x1a\n" + b"".join(chunks)


NPY = array_file(RAMP)
NOISE = Image.fromarray(np.random.default_rng(0).integers(0, 256, (40, 40, 3)).astype(np.uint8))


@pytest.mark.filterwarnings("ignore::PIL.Image.DecompressionBombWarning")
@pytest.mark.parametrize(
    ("data", "channels", "message"),
    [
        (b"", 3, "the file is empty"),
        (b"\xff\xd8\xff", 3, "not one of PNG, JPEG"),
        (b"%!PS-Adobe-3.0 EPSF-3.0\n", 3, "not one of PNG, JPEG"),
        (saved(NOISE)[:2000], 3, "truncated|broken"),
        (saved(Image.fromarray(np.tile(RAMP, (20, 20, 1))), "JPEG")[:400], 3, "[Tt]runcated"),
        (png_of(9000, 9000), 3, "it has 9000 x 9000 pixels; at most 67,108,864 are allowed"),
        (png_of(60000, 60000), 3, "pixels"),
        (b"P5 9000 9000 255\n", 1, "it has 9000 x 9000 pixels"),
        (saved(Image.fromarray(RAMP)), 5, r"1, 3 or 4 channels, not 5; other numbers of channels need \.npy files"),
        (NPY, 4, "it has 3 channels; the option channels is 4"),
        (NPY[:-1], 3, "truncated"),
        (NPY[:40], 3, ""),
        (b"\x93NUMPY\x09\x00", 3, r"version \(9, 0\)"),
        (array_file(np.array([[{"a": 1}]], object)), 3, "holds no numbers"),
        (array_file(np.zeros((2, 2, 2, 2))), 3, r"shape \(2, 2, 2, 2\)"),
        (array_file(np.full((2, 2), 1.5)), 1, r"in \[1\.5, 1\.5\]; float64 arrays must be in \[0, 1\]"),
        (NPY.replace(b"(4, 4, 3)", b"(9**9,)  "), 3, ""),
    ],
)
def test_what_cannot_be_decoded_is_an_error_with_its_path(tmp_path: Path, data: bytes, channels: int, message: str) -> None:
    (tmp_path / "a.jpg").write_bytes(data)
    with pytest.raises(ValueError, match=rf"a\.jpg: cannot be read as an image: .*({message})"):
        ImageField("image", channels, 4, 4).pixels(tmp_path / "a.jpg")


def test_large_files_and_missing_ones_are_errors(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from weft.core import archive

    monkeypatch.setattr(archive, "MAX_MEMBER_BYTES", 100)
    (tmp_path / "a.png").write_bytes(bytes(101))
    with pytest.raises(ValueError, match=r"a\.png: cannot be read as an image: the file has 101 bytes; at most 100"):
        ImageField("image", 3, 4, 4).pixels(tmp_path / "a.png")
    with pytest.raises(ValueError, match=r"b\.png: cannot be read as an image: the file was not found"):
        ImageField("image", 3, 4, 4).pixels(tmp_path / "b.png")
    with pytest.raises(ValueError, match=r"cannot be read as an image: must|cannot be read as an image: Is a directory"):
        ImageField("image", 3, 4, 4).pixels(tmp_path)


def test_one_pixel_has_any_size() -> None:
    for how in image_file.RESIZES:
        found = resize(np.full((1, 1, 3), 77, np.uint8), 5, 8, how)
        assert found.shape == (5, 8, 3) and set(np.unique(found)) <= {0, 77}
    assert resize(np.full((1, 1000, 1), 9, np.uint8), 4, 4, "pad").max() == 9


@pytest.mark.parametrize(("rows", "columns"), [(20, 40), (40, 20), (31, 31)])
@pytest.mark.parametrize(("height", "width"), [(10, 10), (8, 16), (50, 30)])
def test_crop_and_pad_keep_the_aspect_ratio(rows: int, columns: int, height: int, width: int) -> None:
    y, x = np.mgrid[0:rows, 0:columns]
    pixels = np.stack([y * 255 / (rows - 1), x * 255 / (columns - 1)], 2)
    pixels = np.concatenate([pixels, np.full((rows, columns, 1), 255)], 2).astype(np.uint8)
    stretched, cropped, padded = (resize(pixels, height, width, how) for how in ("stretch", "crop", "pad"))
    assert stretched.shape == cropped.shape == padded.shape == (height, width, 3)
    scale = max(height / rows, width / columns)
    for axis, (size, given) in enumerate(((height, rows), (width, columns))):
        span = np.ptp(cropped[..., axis].astype(int)) / 255
        assert span == pytest.approx(size / scale / given, abs=0.15)
        assert np.ptp(stretched[..., axis].astype(int)) / 255 > 0.8
        middle = cropped[..., axis].astype(int)
        assert abs(middle.min() + middle.max() - 255) < 40  # the center is kept
    inside = padded[..., 2] > 0
    scale = min(height / rows, width / columns)
    assert inside.any(1).sum() == round(rows * scale) and inside.any(0).sum() == round(columns * scale)
    top, left = np.flatnonzero(inside.any(1))[0], np.flatnonzero(inside.any(0))[0]
    assert abs(top - (height - round(rows * scale)) / 2) <= 0.5 and abs(left - (width - round(columns * scale)) / 2) <= 0.5
