"""Random horizontal flip."""

from __future__ import annotations

import numpy as np

from weft.core.contracts import Augmentation
from weft.core.options import Fraction
from weft.core.registry import block


@block("horizontal-flip")
class HorizontalFlip(Augmentation):
    """Random horizontal flip: mirrors an image, left to right.

    Krizhevsky et al. 2012 (AlexNet, section 4.1), https://dl.acm.org/doi/10.1145/3065386

    Args:
        probability: Probability of a flip.

    Example:
        >>> HorizontalFlip(probability=1.0).augment(np.array([[[1, 2, 3]]]), np.random.default_rng(0)).tolist()
        [[[3, 2, 1]]]
    """

    def __init__(self, *, probability: Fraction = 0.5):
        super().__init__()
        self.probability = probability

    def augment(self, image_CHW: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        return image_CHW[:, :, ::-1] if rng.random() < self.probability else image_CHW
