"""Random resized crop. C channels, H height, W width."""

from __future__ import annotations

import math

import numpy as np

from weft.core.contracts import Augmentation
from weft.core.image_file import resize_box
from weft.core.options import Fraction, Positive
from weft.core.registry import block

_ATTEMPTS = 10


@block("random-resized-crop")
class RandomResizedCrop(Augmentation):
    """Random resized crop: cuts out a random part of an image and resizes it to the size of the image.

    area / (H W) ~ U(min_area, 1),  width / height = (W / H) r,  log r ~ U(-log max_ratio, log max_ratio)

    Szegedy et al. 2015 (Inception, section 6), https://arxiv.org/abs/1409.4842

    Args:
        min_area: Smallest area of the part, as a fraction of the image.
        max_ratio: Largest change of the aspect ratio, at least 1.

    Example:
        >>> image = np.full((3, 8, 8), 7, np.uint8)
        >>> RandomResizedCrop(min_area=0.25).augment(image, np.random.default_rng(0)).tolist() == image.tolist()
        True
    """

    def __init__(self, *, min_area: Fraction = 0.08, max_ratio: Positive = 4 / 3):
        super().__init__()
        if max_ratio < 1 or min_area <= 0:
            raise ValueError(f"max_ratio is {max_ratio:g} and min_area {min_area:g}; must be at least 1, and more than 0")
        self.min_area, self.max_ratio = min_area, max_ratio

    def augment(self, image_CHW: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        height, width = image_CHW.shape[1:]
        left, top, right, bottom = 0, 0, width, height
        for _ in range(_ATTEMPTS):
            area, log_ratio = rng.uniform(self.min_area, 1.0), rng.uniform(-1.0, 1.0) * math.log(self.max_ratio)
            rows, columns = (
                round(math.sqrt(area) * size * math.exp(s * log_ratio / 2)) for s, size in ((-1, height), (1, width))
            )
            if 0 < rows <= height and 0 < columns <= width:
                top, left = int(rng.integers(0, height - rows + 1)), int(rng.integers(0, width - columns + 1))
                right, bottom = left + columns, top + rows
                break
        pixels_HWC = np.ascontiguousarray(np.clip(image_CHW, 0, 255).astype(np.uint8).transpose(1, 2, 0))
        return resize_box(pixels_HWC, height, width, (left, top, right, bottom)).transpose(2, 0, 1)
