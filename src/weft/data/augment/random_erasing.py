"""Random erasing. C channels, H height, W width."""

from __future__ import annotations

import math

import numpy as np

from weft.core.contracts import Augmentation
from weft.core.options import Fraction, Positive
from weft.core.registry import block

_ATTEMPTS = 10


@block("random-erasing")
class RandomErasing(Augmentation):
    """Random erasing: replaces a random rectangle of an image by random values.

    area / (H W) ~ U(min_area, max_area),  height / width ~ U(1 / max_ratio, max_ratio) on a logarithmic scale

    Zhong et al. 2020, https://arxiv.org/abs/1708.04896

    Args:
        probability: Probability that a rectangle is erased.
        min_area: Smallest area of the rectangle, as a fraction of the image.
        max_area: Largest area.
        max_ratio: Largest ratio of its sides.

    Example:
        >>> image = np.zeros((1, 16, 16), np.uint8)
        >>> erased = RandomErasing(probability=1.0).augment(image, np.random.default_rng(0))
        >>> bool(0 < (erased != image).mean() < 0.5)
        True
    """

    def __init__(
        self, *, probability: Fraction = 0.5, min_area: Fraction = 0.02, max_area: Fraction = 0.4, max_ratio: Positive = 10 / 3
    ):
        super().__init__()
        if min_area > max_area or max_ratio < 1:
            raise ValueError(
                f"min_area {min_area:g} must be at most max_area {max_area:g}, and max_ratio {max_ratio:g} at least 1"
            )
        self.probability, self.areas, self.max_ratio = probability, (min_area, max_area), max_ratio
        self.min_area, self.max_area = min_area, max_area

    def augment(self, image_CHW: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        if rng.random() >= self.probability:
            return image_CHW
        channels, height, width = image_CHW.shape
        for _ in range(_ATTEMPTS):
            area = rng.uniform(self.min_area, self.max_area) * height * width
            ratio = math.exp(rng.uniform(-1.0, 1.0) * math.log(self.max_ratio))
            rows, columns = round(math.sqrt(area * ratio)), round(math.sqrt(area / ratio))
            if 0 < rows < height and 0 < columns < width:
                top, left = int(rng.integers(0, height - rows + 1)), int(rng.integers(0, width - columns + 1))
                erased = image_CHW.copy()
                erased[:, top : top + rows, left : left + columns] = rng.integers(0, 256, (channels, rows, columns))
                return erased
        return image_CHW
