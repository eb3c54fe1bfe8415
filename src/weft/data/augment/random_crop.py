"""Random crop with padding. C channels, H height, W width."""

from __future__ import annotations

import numpy as np

from weft.core.contracts import Augmentation
from weft.core.options import Byte, Count
from weft.core.registry import block


@block("random-crop")
class RandomCrop(Augmentation):
    """Random crop with padding: pads an image on all sides and cuts its size out at a random position.

    He et al. 2016 (ResNet, section 4.2), https://arxiv.org/abs/1512.03385

    Args:
        padding: Pixels added on each side.
        fill: Value of the added pixels; 0 = black.

    Example:
        >>> image = np.arange(64, dtype=np.uint8).reshape(1, 8, 8)
        >>> RandomCrop(padding=2).augment(image, np.random.default_rng(0)).shape
        (1, 8, 8)
    """

    def __init__(self, *, padding: Count = 4, fill: Byte = 0):
        super().__init__()
        self.padding, self.fill = padding, fill

    def augment(self, image_CHW: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        top, left = (int(shift) - self.padding for shift in rng.integers(0, 2 * self.padding + 1, 2))
        height, width = image_CHW.shape[1:]
        found = np.full_like(image_CHW, self.fill)
        # the part of the image that stays inside, without a padded copy
        rows = slice(max(0, top), max(0, min(height, height + top)))
        columns = slice(max(0, left), max(0, min(width, width + left)))
        inside = image_CHW[:, rows, columns]
        y, x = max(0, -top), max(0, -left)
        found[:, y : y + inside.shape[1], x : x + inside.shape[2]] = inside
        return found
