"""Images with a class each, from a table of file names."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np

from weft.core.contracts import Codec, Corpus, Data, ProgressCallback, Tokenizer
from weft.core.fields import Field, Info
from weft.core.options import Count, File, Share
from weft.core.registry import block, name_of
from weft.core.seeding import key
from weft.data.sources.image import read_image
from weft.data.sources.parsing import Cursor, Wanted, tables
from weft.data.sources.text_source import sort_labels

IMAGE = ("image", "file", "file_name", "filename", "path")
LABEL = ("label", "class", "category", "target")
"""Usual names of columns."""
SPLITS = ("train", "valid", "test")


@block("labeled-images")
class LabeledImages(Data):
    """Images with a class each: a table of file names and classes.

    The table is TSV, CSV or JSONL, by its ending; its file names are relative to its folder. Images are read when they are needed
    (by the package Pillow), stretched to a square, and given as numbers from -1 to 1, as ViT takes them. An image that cannot be
    found is an error with the table's line. A batch counts an image as its side. Fields ``image`` and ``label``.

    Args:
        train: A UTF-8 table.
        valid: The same for validation; without it, training rows are held out.
        test: The same for the final evaluation.
        header: The names of the columns, for files whose first line is already a row; None = the first line has them.
        image: The column of file names; None = the first that has a usual name (image, file, path, ...).
        label: The column of classes; None = the first that has a usual name (label, class, category, ...).
        labels: The classes, in the order of their numbers; None = those of the training file, sorted.
        side: Height and width in pixels that all images are brought to.
        channels: 3 = red, green, blue; 1 = grey.
        hold_out: Share of the training rows that is held out where ``valid`` is not given; 0 = none.

    Example:
        >>> data = LabelledImages(train="flowers.tsv", labels=("rose", "tulip"), side=32)
        >>> data.declare()["image"].length, data.declare()["label"].vocab
        (32, 2)
    """

    def __init__(
        self,
        *,
        train: File,
        valid: File | None = None,
        test: File | None = None,
        header: tuple[str, ...] | None = None,
        image: str | None = None,
        label: str | None = None,
        labels: tuple[str, ...] | None = None,
        side: Count = 224,
        channels: Literal[1, 3] = 3,
        hold_out: Share = 0.05,
    ):
        super().__init__()
        if labels is not None and (len(labels) < 2 or len(set(labels)) < len(labels)):
            raise ValueError(f"labels must be at least two different names, not {list(labels)}")
        self.places = {"train": train, "valid": valid, "test": test}
        self.header = None if header is None else tuple(header)
        self.image, self.label, self.labels = image, label, None if labels is None else tuple(labels)
        self.side, self.channels, self.hold_out = side, channels, hold_out

    def declare(self) -> Info:
        return self._info(self.labels or ())

    def tokenizers(self) -> dict[str, Tokenizer]:
        return {}

    def open(
        self,
        codec: Codec | None = None,
        *,
        known: Mapping[str, Tokenizer] | None = None,
        only: Sequence[str] = (),
        tell: ProgressCallback | None = None,
    ) -> Corpus:
        there = [s for s in SPLITS if self.places[s] is not None or (s == "valid" and self.hold_out > 0)]
        wanted = [s for s in there if not only or s in only]
        if not wanted:
            raise ValueError(f"there is no split {' or '.join(map(repr, only))} in the data (there is: {', '.join(there)})")
        if codec is None:
            found = self.labels or tuple(sort_labels({row["label"] for row in self._rows("train")}))
            if len(found) < 2:
                raise ValueError(f"{self.places['train']}: has {len(found)} class, but there must be at least two to tell apart")
            codec = Codec(self._info(found), {})
        splits: dict[str, Any] = {}
        ledger: dict[str, Any] = {}
        for name in wanted:
            rows = self._rows(name)
            if not rows:
                raise ValueError(f"{self.places[name] or self.places['train']}: no row is left for {name}")
            splits[name] = ImageDataset(rows, codec.info["image"], codec.info["label"])
            ledger[name] = {"rows": len(rows), **Counter(f"class {row['label']}" for row in rows)}
        return Corpus(codec, splits, ledger)

    def _info(self, labels: tuple[str, ...]) -> Info:
        image = Field("image", self.channels, kind="image", length=self.side, space="image")
        label = Field("label", max(2, len(labels)), kind="label", length=1, space="label", labels=labels)
        return Info({"image": image, "label": label}, target="image", data=name_of(type(self)))

    def _rows(self, split: str) -> list[dict[str, str]]:
        """The rows of a split: its own table's, or a share of the training table's. The file's name decides which."""
        holds_out = split != "test" and self.places["valid"] is None and self.hold_out > 0
        table = str(self.places["train"] if split == "valid" and holds_out else self.places[split])
        if not Path(table).is_file():
            raise ValueError(f"{table}: there is no such file")
        wanted = {"image": Wanted(self.image, IMAGE), "label": Wanted(self.label, LABEL)}
        rows: list[dict[str, str]] = []
        for row in tables(Cursor([table]), wanted, self.header):
            if row.problem:
                raise ValueError(f"{row.where}: {row.problem}")
            if not row.cells:
                continue
            name, label = row.cells["image"].strip(), row.cells["label"].strip()
            if not name or not label:
                raise ValueError(f"{row.where}: the row has no {'label' if name else 'image'}")
            if holds_out and (key("held out", name) < self.hold_out * 2**64) != (split == "valid"):
                continue
            path = Path(table).parent / name
            if not path.is_file():
                raise ValueError(f"{row.where}: there is no image {path}")
            rows.append({"image": str(path), "label": label, "where": row.where})
        return rows


class ImageDataset:
    """Images that are read when they are asked for.

    Args:
        rows: Paths, classes, and where each row stands in its table.
        image: The size of images.
        label: The classes.
    """

    def __init__(self, rows: Sequence[Mapping[str, str]], image: Field, label: Field):
        numbers = {name: number for number, name in enumerate(label.labels)}
        for row in rows:
            if row["label"] not in numbers:
                raise ValueError(f"{row['where']}: the class {row['label']!r} is unknown; known are: {', '.join(label.labels)}")
        self.rows, self.field = list(rows), image
        self.classes = [numbers[row["label"]] for row in rows]
        self.lengths: Mapping[str, np.ndarray] = {image.name: np.full(len(rows), image.length)}

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, row: int) -> dict[str, Any]:
        row = self._check(row)
        return {"image": read_image(self.rows[row]["image"], self.field), "label": self.classes[row]}

    def raw(self, row: int) -> dict[str, str]:
        row = self._check(row)
        return {name: self.rows[row][name] for name in ("image", "label")}

    def _check(self, row: int) -> int:
        if not 0 <= row < len(self.rows):
            raise IndexError(f"row {row} does not exist: the dataset has {len(self.rows)} rows, counted from 0")
        return int(row)
