"""Labeled images, from a table of file names."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Literal

import numpy as np

from weft.core.contracts import Codec, Corpus, Data, Dataset, ProgressCallback, Tokenizer
from weft.core.fields import ImageField, Info, LabelField, read_image
from weft.core.options import Count, File, Fraction
from weft.core.registry import block, name_of
from weft.core.seeding import key
from weft.data.cache import entry, key_of
from weft.data.sources.cursor import Cursor
from weft.data.sources.labeled_text import check_labels
from weft.data.sources.parsing import ColumnSpec, Layout, ParsedRow, TableFormat, check_delimiter, table_layout, tables
from weft.data.sources.text_source import SPLITS, select_splits
from weft.data.sources.training_scan import sort_labels

IMAGE = ("image", "file", "file_name", "filename", "path")
LABEL = ("label", "class", "category", "target")
"""Usual column names."""
_DECODED = "decoded"
"""Marker file in the cache: all images of a split could be decoded."""
_DECODERS, _DECODE_ROWS = 4, 256


@block("labeled-images")
class LabeledImages(Data):
    """Images with a class each: a table of file names and labels.

    The table is TSV, CSV or JSON, by file suffix; file names are relative to its folder. Images are PNG, JPEG, GIF, BMP,
    WebP, TIFF or PPM files of at most 67 million pixels; they are read on demand (with the package Pillow), resized (not cropped)
    and scaled to [-1, 1], as ViT expects: 8-bit values from [0, 255], wider integers from [0, 65535], floats from [0, 1]. All
    images are decoded once before training, so that a missing or damaged one is an error with the line of the table; this is
    remembered until a file changes. An image counts as ``size`` tokens of a
    batch (the larger one of two). Fields: ``image`` and ``label``.

    Args:
        train: A table.
        valid: Validation table; None = hold out a fraction of the training rows.
        test: Test table.
        column_names: Column names, for files without a header; None = the first line is the header.
        delimiter: Character between the columns of a table; None = a comma in .csv files, a tab in others.
        quoted: Whether cells may be quoted (``"a cell"``, over several lines if need be); None = in .csv files only.
        image: Column of file names; None = the first with a usual name (image, file, path, ...).
        label: Column of labels; None = the first with a usual name (label, class, category, ...).
        labels: Class names in the order of their ids; None = those of the training file, sorted.
        size: Height and width in pixels after resizing: one number for squares, or two.
        channels: 3 = RGB; 1 = grayscale.
        validation_fraction: Fraction of the training rows held out where ``valid`` is None; 0 = no validation.
        encoding: Encoding of the files, by its name in Python: utf-8, latin-1, cp1252, utf-16, gb18030, ...

    Example:
        >>> data = LabeledImages(train="flowers.tsv", labels=("rose", "tulip"), size=32)
        >>> data.declare()["image"].shape, data.declare()["label"].classes
        ((3, 32, 32), 2)
    """

    def __init__(
        self,
        *,
        train: File,
        valid: File | None = None,
        test: File | None = None,
        column_names: tuple[str, ...] | None = None,
        delimiter: str | None = None,
        quoted: bool | None = None,
        image: str | None = None,
        label: str | None = None,
        labels: tuple[str, ...] | None = None,
        size: Count | tuple[Count, Count] = 224,
        channels: Literal[1, 3] = 3,
        validation_fraction: Fraction = 0.05,
        encoding: str = "utf-8",
    ):
        super().__init__()
        check_labels(labels)
        self.paths = {"train": train, "valid": valid, "test": test}
        check_delimiter(delimiter)
        self.delimiter, self.quoted, self.encoding = delimiter, quoted, encoding
        self.column_names = None if column_names is None else tuple(column_names)
        self.image, self.label, self.labels = image, label, None if labels is None else tuple(labels)
        self.size, self.channels, self.validation_fraction = size, channels, validation_fraction
        self.shape = (size, size) if isinstance(size, int) else (size[0], size[1])

    def declare(self) -> Info:
        return self._info(self.labels or ())

    def tokenizers(self) -> dict[str, Tokenizer]:
        return {}

    def open(
        self,
        codec: Codec | None = None,
        *,
        tokenizers: Mapping[str, Tokenizer] | None = None,
        splits: Sequence[str] = (),
        progress: ProgressCallback | None = None,
    ) -> Corpus:
        available = [s for s in SPLITS if self.paths[s] is not None or (s == "valid" and self.validation_fraction > 0)]
        wanted = select_splits(available, splits)
        if codec is None:
            found = self.labels or tuple(sort_labels({row["label"] for row in self._rows("train")}))
            if len(found) < 2:
                raise ValueError(f"{self.paths['train']}: {len(found)} class found; at least two are needed")
            codec = Codec(self._info(found), {})
        image = codec.info.expect("image", ImageField)
        datasets: dict[str, Dataset] = {}
        ledger: dict[str, Any] = {}
        for name in wanted:
            rows = self._rows(name)
            if not rows:
                raise ValueError(f"{self.paths[name] or self.paths['train']}: no row left for {name}; change validation_fraction")
            datasets[name] = ImageDataset(rows, image, codec.info.expect("label", LabelField))
            _decode_all(rows, image, progress)
            ledger[name] = {"rows": len(rows), **Counter(f"class {row['label']}" for row in rows)}
        return Corpus(codec, datasets, ledger)

    def inputs(self, cursors: list[Cursor]) -> Iterator[ParsedRow]:
        """Parse the rows of tables for prediction: the path of an image each."""
        for row in tables(cursors[0], {"image": ColumnSpec(self.image, IMAGE)}, self.table_format()):
            name = row.cells.get("image", "").strip()
            yield row._replace(cells={"image": str(Path(row.file).parent / name) if name else ""} if row.cells else {})

    def layout(self, file: str) -> Layout:
        """Return how the rows of a file are written."""
        return table_layout(file)

    def table_format(self) -> TableFormat:
        """Return how the columns of a table are separated."""
        return TableFormat(self.column_names, self.delimiter, self.quoted)

    def cursor(self, files: Sequence[str]) -> Cursor:
        """Return a cursor on files of this source."""
        return Cursor(files, encoding=self.encoding)

    def recognizes(self, file: str) -> bool:
        """Return whether a file looks like a table of images."""
        try:
            return next(self.inputs([self.cursor([file])]), None) is not None
        except ValueError:
            return False

    def _info(self, labels: tuple[str, ...]) -> Info:
        image = ImageField("image", self.channels, *self.shape)
        label = LabelField.declare("label", labels, "")
        return Info({"image": image, "label": label}, target="image", data=name_of(type(self)))

    def _rows(self, split: str) -> list[dict[str, str]]:
        """The rows of a split: of its own table, or a fraction of the training table, selected by a hash of the file name."""
        holds_out = split != "test" and self.paths["valid"] is None and self.validation_fraction > 0
        table = str(self.paths["train"] if split == "valid" and holds_out else self.paths[split])
        if not Path(table).is_file():
            raise ValueError(f"{table}: file not found; set data.{split} to an existing table")
        columns = {"image": ColumnSpec(self.image, IMAGE), "label": ColumnSpec(self.label, LABEL)}
        rows: list[dict[str, str]] = []
        for row in tables(self.cursor([table]), columns, self.table_format()):
            if row.problem:
                raise ValueError(f"{row.where}: {row.problem}")
            if not row.cells:
                continue
            name, label = row.cells["image"].strip(), row.cells["label"].strip()
            if not name or not label:
                raise ValueError(f"{row.where}: {'label' if name else 'image'} is empty; fix the row or remove it")
            if holds_out and (key("held out", name) < self.validation_fraction * 2**64) != (split == "valid"):
                continue
            path = Path(table).parent / name
            if not path.is_file():
                raise ValueError(f"{row.where}: image not found: {path}; file names are relative to the folder of the table")
            rows.append({"image": str(path), "label": label, "where": row.where})
        return rows


def _decode_all(rows: Sequence[Mapping[str, str]], image: ImageField, progress: ProgressCallback | None) -> None:
    """Raise ValueError with the line of the first image that cannot be decoded."""
    stats = [Path(row["image"]).stat() for row in rows]
    seen = [[row["image"], stat.st_size, stat.st_mtime_ns] for row, stat in zip(rows, stats, strict=True)]
    done, total = 0, sum(stat.st_size for stat in stats)
    with entry(key_of("decoded images", image.shape, seen)) as folder:
        if (folder / _DECODED).exists():
            return
        with ThreadPoolExecutor(_DECODERS) as pool:
            for start in range(0, len(rows), _DECODE_ROWS):
                for problem in pool.map(lambda row: _problem(row, image), rows[start : start + _DECODE_ROWS]):
                    if problem:
                        raise ValueError(problem)
                done += sum(stat.st_size for stat in stats[start : start + _DECODE_ROWS])
                if progress:
                    progress("decoding the images", done, total)
        (folder / _DECODED).touch()


def _problem(row: Mapping[str, str], image: ImageField) -> str:
    try:
        read_image(row["image"], image)
    except ValueError as error:
        return f"{row['where']}: {error}"
    return ""


class ImageDataset:
    """Images that are read on demand.

    Args:
        rows: Path, class and location in the table of each row.
        image: The image field, with its size and channels.
        label: The label field, with the class names.
    """

    def __init__(self, rows: Sequence[Mapping[str, str]], image: ImageField, label: LabelField):
        indices = label.ids()
        for row in rows:
            if row["label"] not in indices:
                raise ValueError(f"{row['where']}: unknown class {row['label']!r}; known classes: {', '.join(label.labels)}")
        self.rows, self.field = list(rows), image
        self.classes = [indices[row["label"]] for row in rows]
        self.lengths: Mapping[str, np.ndarray] = {image.name: np.full(len(rows), image.cost)}

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
            raise IndexError(f"row {row} is out of range: the dataset has {len(self.rows)} rows, from 0")
        return int(row)
