"""The augmentations of a recipe, one after another."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from weft.core.contracts import Augmentation, Mixing
from weft.core.example import MixedLabel
from weft.core.fields import ImageField, Info, LabelField
from weft.core.registry import name_of

Row = dict[str, Any]
"""The stored numbers of a row, by column."""


class Pipeline:
    """Applies augmentations to the images of a row, in their order.

    Args:
        steps: The augmentations; at most one of them mixes two examples.
        info: The fields of the examples.
    """

    def __init__(self, steps: Sequence[Augmentation], info: Info):
        self.steps, self.fields = list(steps), info.of_kind(ImageField)
        mixing = [step for step in steps if isinstance(step, Mixing)]
        if len(mixing) > 1:
            raise ValueError(f"augment has {' and '.join(name_of(type(step)) for step in mixing)}; at most one may mix examples")
        if mixing and not isinstance(info.fields.get("label"), LabelField):
            raise ValueError(f"{name_of(type(mixing[0]))} mixes examples with one class each; remove it from augment")

    def __call__(self, values: Row, rng: np.random.Generator, partner: Callable[[np.random.Generator], Row]) -> Row:
        """Return a row with augmented images, and a ``MixedLabel`` as ``mixed`` where two examples were mixed.

        Args:
            values: The row.
            rng: The generator of the example.
            partner: Samples another row.
        """
        values = dict(values)
        mixed: MixedLabel | None = None
        for number, step in enumerate(self.steps):
            if isinstance(step, Mixing):
                other = partner(rng)
                for before in self.steps[:number]:
                    other = self._changed(other, before, rng)
                mixed = self._mix(values, other, step, rng)
            else:
                values = self._changed(values, step, rng)
        return values if mixed is None else {**values, "mixed": mixed}

    def _changed(self, values: Row, step: Augmentation, rng: np.random.Generator) -> Row:
        return {**values, **{f.name: step.augment(self._image(values, f), rng) for f in self.fields}}

    def _mix(self, values: Row, other: Row, step: Mixing, rng: np.random.Generator) -> MixedLabel:
        """Mix the images of a row, all with the same random numbers."""
        seed, weight = int(rng.integers(1 << 62)), 1.0
        for field in self.fields:
            one, two = (self._image(row, field) for row in (values, other))
            values[field.name], weight = step.mix(one, two, np.random.default_rng(seed))
        return MixedLabel((values if weight == 1.0 else other)["label"], weight)

    def _image(self, values: Row, field: ImageField) -> np.ndarray:
        return np.asarray(values[field.name]).reshape(field.shape)
