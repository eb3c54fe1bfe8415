"""Several augmentations sampled from a list."""

from __future__ import annotations

import numpy as np

from weft.core.contracts import Augmentation
from weft.core.options import Count
from weft.core.registry import Build, block
from weft.data.augment.color_jitter import ColorJitter
from weft.data.augment.horizontal_flip import HorizontalFlip
from weft.data.augment.random_crop import RandomCrop
from weft.data.augment.random_erasing import RandomErasing

ALL = [RandomCrop, HorizontalFlip, ColorJitter, RandomErasing]


@block("several-of")
class SeveralOf(Augmentation):
    """Some augmentations of a list, sampled for every image and applied one after another.

    Without the search over strengths and with a list of your own, this is the composition of RandAugment: every augmentation has
    the same probability, independent of the others, so one may be applied twice.

    Cubuk et al. 2020 (RandAugment), https://arxiv.org/abs/1909.13719

    Args:
        number: Number of augmentations that are applied.
        of: The augmentations.

    Example:
        >>> image = np.arange(48, dtype=np.uint8).reshape(3, 4, 4)
        >>> SeveralOf(number=1, of=[HorizontalFlip]).augment(image, np.random.default_rng(0)).shape
        (3, 4, 4)
    """

    def __init__(self, *, number: Count = 2, of: list[Build[Augmentation]] = ALL):
        super().__init__()
        if not of:
            raise ValueError("of has no augmentation; give at least one")
        self.number, self.of = number, of
        self.choices = [make() for make in of]

    def augment(self, image_CHW: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        for choice in rng.integers(0, len(self.choices), self.number):
            image_CHW = self.choices[choice].augment(image_CHW, rng)
        return image_CHW
