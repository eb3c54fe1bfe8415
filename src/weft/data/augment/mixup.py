"""Mixup: convex combinations of two examples."""

from __future__ import annotations

import numpy as np

from weft.core.contracts import Mixing
from weft.core.options import Fraction, Positive
from weft.core.registry import block


@block("mixup")
class Mixup(Mixing):
    """Mixup: convex combinations of two training images and of the losses of their labels.

    x = lam x_a + (1 - lam) x_b,  loss = lam loss(x, y_a) + (1 - lam) loss(x, y_b),  lam ~ Beta(alpha, alpha)

    The second example is sampled from the whole training split by the generator of the first one, so that a mixed example does
    not depend on its batch.

    Zhang et al. 2018, https://arxiv.org/abs/1710.09412

    Args:
        alpha: Parameter of the Beta distribution; 1 = uniform.
        probability: Probability that an example is mixed.

    Example:
        >>> black, white = np.zeros((1, 2, 2), np.uint8), np.full((1, 2, 2), 255, np.uint8)
        >>> mixed, weight = Mixup().mix(black, white, np.random.default_rng(0))
        >>> bool(np.allclose(mixed, 255 * (1 - weight)))
        True
    """

    def __init__(self, *, alpha: Positive = 0.2, probability: Fraction = 1.0):
        super().__init__()
        self.alpha, self.probability = alpha, probability

    def mix(self, image_CHW: np.ndarray, other_CHW: np.ndarray, rng: np.random.Generator) -> tuple[np.ndarray, float]:
        if rng.random() >= self.probability:
            return image_CHW, 1.0
        weight = float(rng.beta(self.alpha, self.alpha))
        return np.float32(weight) * image_CHW + np.float32(1 - weight) * other_CHW, weight
