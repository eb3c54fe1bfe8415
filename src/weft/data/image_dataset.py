"""Examples with images: read from prepared data, in training augmented."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

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


class CaptionDataset:
    """Images with one of their texts, from a prepared split in which a row has all texts of an image.

    Args:
        rows: The prepared split.
        text: Name of the field of texts.
        augment: Augmentations of the examples that training sees.
        captions: What an example is: ``each`` pair of an image and a text; an image with a text ``sampled`` in every epoch of
            training; or an image with its ``first`` text, and all of them as references.
    """

    def __init__(
        self, rows: PreparedDataset, text: str, augment: Sequence[Augmentation], captions: Literal["each", "sampled", "first"]
    ):
        self.rows, self.text, self.info, self.captions = rows, text, rows.info, captions
        self.pipeline = Pipeline(augment, self.info)
        counts, sizes = rows.lengths[f"{text}/sizes"].astype(np.int64), rows.flat(f"{text}/sizes").astype(np.int64)
        first = np.cumsum(counts) - counts
        own = {name: lengths for name, lengths in rows.lengths.items() if name not in (text, f"{text}/sizes")}
        if captions == "each":
            self.image = np.repeat(np.arange(len(rows)), counts)
            self.part = np.arange(len(self.image)) - first[self.image]
            self.lengths: Mapping[str, np.ndarray] = {text: sizes, **{name: found[self.image] for name, found in own.items()}}
        else:
            self.image, self.part = np.arange(len(rows)), np.zeros(len(rows), np.int64)
            longest = np.maximum.reduceat(sizes, first)
            self.lengths = {text: longest if captions == "sampled" else sizes[first], **own}

    def __len__(self) -> int:
        return len(self.image)

    def __getitem__(self, row: int) -> dict[str, Any]:
        image, part = self._locate(row)
        return self._with_text(self.rows[image], part)

    def raw(self, row: int) -> dict[str, str]:
        image, part = self._locate(row)
        cells = self.rows.raw(image)
        return cells if self.captions != "each" else {**cells, self.text: cells[self.text].split("\t")[part]}

    def training_example(self, row: int, rng: np.random.Generator) -> dict[str, Any]:
        image, part = self._locate(row)
        values = self.rows.values(image)
        if self.captions == "sampled":
            part = int(rng.integers(len(values[f"{self.text}/sizes"])))
        return self._with_text(augmented_example(values, self.info, self.pipeline, self.rows, rng), part)

    def _with_text(self, example: dict[str, Any], part: int) -> dict[str, Any]:
        return {**example, self.text: example[self.text].parts[part]}

    def _locate(self, row: int) -> tuple[int, int]:
        if not 0 <= row < len(self):
            raise IndexError(f"row {row} is out of range: the dataset has {len(self)} rows, from 0")
        return int(self.image[row]), int(self.part[row])


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
