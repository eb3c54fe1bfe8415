"""Examples with images: read from prepared data, in training augmented."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from weft.core.contracts import Augmentation
from weft.core.example import MIXED
from weft.core.fields import Info
from weft.data.augment.pipeline import Pipeline, Row
from weft.data.encoding import assemble
from weft.data.prepared import PreparedDataset


class ImageDataset:
    """The examples of a prepared split with images.

    Args:
        rows: The prepared split.
        augment: Augmentations of the examples that training sees.
    """

    def __init__(self, rows: PreparedDataset, augment: Sequence[Augmentation]):
        self.rows, self.info = rows, rows.info
        self.pipeline = Pipeline(augment, self.info)
        self.lengths: Mapping[str, np.ndarray] = rows.lengths

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, row: int) -> dict[str, Any]:
        return self.rows[row]

    def raw(self, row: int) -> dict[str, str]:
        return self.rows.raw(row)

    def training_example(self, row: int, rng: np.random.Generator) -> dict[str, Any]:
        return augmented_example(self.rows.values(row), self.info, self.pipeline, self.rows, rng)


def augmented_example(
    values: Row, info: Info, pipeline: Pipeline, rows: PreparedDataset, rng: np.random.Generator
) -> dict[str, Any]:
    """Return the example of a row, augmented.

    Args:
        values: The row.
        info: The fields of the example.
        pipeline: The augmentations.
        rows: Other rows, to be mixed into it.
        rng: The generator of the example.
    """
    changed = pipeline(values, rng, lambda rng: rows.values(int(rng.integers(len(rows)))))
    mixed = changed.pop("mixed", None)
    example = assemble(info, changed)
    return example if mixed is None else {**example, MIXED: mixed}
