"""CutMix: a rectangle of one image in another. H height, W width."""

from __future__ import annotations

import math

import numpy as np

from weft.core.contracts import Mixing
from weft.core.options import Fraction, Positive
from weft.core.registry import block


@block("cutmix")
class CutMix(Mixing):
    """CutMix: replaces a rectangle of a training image by that of another one, and mixes the losses of their labels by area.

    loss = lam loss(x, y_a) + (1 - lam) loss(x, y_b),  1 - lam = area of the rectangle / (H W)

    The sides of the rectangle are H sqrt(1 - l) and W sqrt(1 - l) with l ~ Beta(alpha, alpha) around a uniform center; what
    is outside of the image is cut off. The second example is sampled as in mixup.

    Yun et al. 2019, https://arxiv.org/abs/1905.04899

    Args:
        alpha: Parameter of the Beta distribution; 1 = uniform.
        probability: Probability that an example is mixed.

    Example:
        >>> black, white = np.zeros((1, 8, 8), np.uint8), np.full((1, 8, 8), 255, np.uint8)
        >>> mixed, weight = CutMix().mix(black, white, np.random.default_rng(0))
        >>> bool((mixed == 0).mean() == weight)
        True
    """

    def __init__(self, *, alpha: Positive = 1.0, probability: Fraction = 1.0):
        super().__init__()
        self.alpha, self.probability = alpha, probability

    def mix(self, image_CHW: np.ndarray, other_CHW: np.ndarray, rng: np.random.Generator) -> tuple[np.ndarray, float]:
        if rng.random() >= self.probability:
            return image_CHW, 1.0
        height, width = image_CHW.shape[1:]
        side = math.sqrt(1 - rng.beta(self.alpha, self.alpha))
        y, x = int(rng.integers(0, height)), int(rng.integers(0, width))
        top, bottom = (min(max(y + s * round(height * side) // 2, 0), height) for s in (-1, 1))
        left, right = (min(max(x + s * round(width * side) // 2, 0), width) for s in (-1, 1))
        mixed = np.array(image_CHW)
        mixed[:, top:bottom, left:right] = other_CHW[:, top:bottom, left:right]
        return mixed, 1 - (bottom - top) * (right - left) / (height * width)
