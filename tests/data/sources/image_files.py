"""Small images for tests: files of one color, in folders and archives."""

from __future__ import annotations

import io
import tarfile
import zipfile
from collections.abc import Mapping
from pathlib import Path

import numpy as np
from PIL import Image

COLORS = {"blue": (5, 5, 250), "red": (250, 5, 5)}


def png(color: tuple[int, ...] = COLORS["red"], size: tuple[int, int] = (8, 8), seed: int = 0) -> bytes:
    """An image of a color with some noise, width x height."""
    noise = np.random.default_rng(seed).integers(-5, 6, (size[1], size[0], len(color)))
    stream = io.BytesIO()
    Image.fromarray(np.clip(np.array(color) + noise, 0, 255).astype(np.uint8)).save(stream, "PNG")
    return stream.getvalue()


def class_files(number: int = 6) -> dict[str, bytes]:
    """Images in a folder for each color."""
    return {f"{name}/{i}.png": png(color, seed=i) for name, color in COLORS.items() for i in range(number)}


def write_files(path: Path, files: Mapping[str, bytes]) -> Path:
    """A folder, or an archive by suffix."""
    if path.suffix == ".zip":
        with zipfile.ZipFile(path, "w") as zipped:
            for name, data in files.items():
                zipped.writestr(name, data)
    elif path.suffix:
        with tarfile.open(path, "w:gz" if path.suffix in (".gz", ".tgz") else "w") as tar:
            for name, data in files.items():
                entry = tarfile.TarInfo(name)
                entry.size = len(data)
                tar.addfile(entry, io.BytesIO(data))
    else:
        for name, data in files.items():
            (path / name).parent.mkdir(parents=True, exist_ok=True)
            (path / name).write_bytes(data)
    return path
