"""Color jitter. C channels, H height, W width."""

from __future__ import annotations

import numpy as np

from weft.core.contracts import Augmentation
from weft.core.options import Fraction
from weft.core.registry import block

_LUMINANCE = np.array([0.299, 0.587, 0.114], np.float32)


@block("color-jitter")
class ColorJitter(Augmentation):
    """Color jitter: random changes of brightness, contrast and saturation, in this order.

    y = clip(m + f (x - m), 0, 255),  f ~ U(1 - strength, 1 + strength),  with m = 0 for brightness, the mean luminance for
    contrast, and the luminance of each pixel for saturation

    Howard 2013, https://arxiv.org/abs/1312.5402

    Args:
        brightness: Largest change of the brightness.
        contrast: Largest change of the contrast.
        saturation: Largest change of the saturation; only images of three channels have one.

    Example:
        >>> image = np.full((3, 2, 2), 100, np.uint8)
        >>> jittered = ColorJitter(brightness=0.5, contrast=0, saturation=0).augment(image, np.random.default_rng(0))
        >>> bool((jittered == jittered[0, 0, 0]).all() and 50 <= jittered[0, 0, 0] <= 150)
        True
    """

    def __init__(self, *, brightness: Fraction = 0.4, contrast: Fraction = 0.4, saturation: Fraction = 0.4):
        super().__init__()
        self.brightness, self.contrast, self.saturation = brightness, contrast, saturation

    def augment(self, image_CHW: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        strengths = np.array([self.brightness, self.contrast, self.saturation])
        brighten, contrast, saturate = (1 + strengths * rng.uniform(-1, 1, 3)).astype(np.float32)
        x_CHW = np.clip(image_CHW * brighten, 0, 255).astype(np.float32)
        mean = _luminance(x_CHW).mean()
        x_CHW = np.clip(mean + contrast * (x_CHW - mean), 0, 255)
        if len(x_CHW) == 3:
            gray_HW = _luminance(x_CHW)
            x_CHW = np.clip(gray_HW + saturate * (x_CHW - gray_HW), 0, 255)
        return np.rint(x_CHW).astype(np.uint8)


def _luminance(x_CHW: np.ndarray) -> np.ndarray:
    """H x W."""
    return np.tensordot(_LUMINANCE, x_CHW, 1) if len(x_CHW) == 3 else x_CHW.mean(0)
