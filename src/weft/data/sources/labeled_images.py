"""Labeled images: tables of file names, folders by class, archives."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal

from weft.core.contracts import Augmentation, Codec, Corpus, ProgressCallback, Tokenizer
from weft.core.options import Count, FileOrFolder, Fraction, Natural, OptionError
from weft.core.registry import Build, block
from weft.data.holdout import HoldOut
from weft.data.sources.image_rows import Collection, Entry
from weft.data.sources.image_source import ImageOptions, ImageSource, Normalization, Resize
from weft.data.sources.labeled_text import LABEL_TYPES, check_labels
from weft.data.sources.parsing import ColumnSpec, ParsedRow, TableFormat
from weft.data.sources.text_source import SPLITS, BadRows
from weft.data.sources.training_scan import TargetSpec
from weft.data.tokenizers.byte import Byte

LABEL = ("label", "labels", "class", "category", "target")
"""Usual column names."""


@block("labeled-images")
class LabeledImages(ImageSource):
    """Images with a class, several classes or a number each: a folder per class, a table of file names, or an archive of either.

    - A folder, or an archive (.tar, .tar.gz, .zip), which is not unpacked: the class is the name of the first folder that an
      image is in; or, as in WebDataset, the content of the file of the same name with the suffix .cls, or the label in one with
      .json or .txt. Other files are counted.
    - A table: TSV, CSV or JSON, by file suffix; file names are relative to its folder, or to ``folder``.

    Images are PNG, JPEG, GIF, BMP, WebP, TIFF or PPM files, recognized by content, of at most 67 million pixels, or NumPy arrays
    (.npy). They are decoded and resized once before training (with the package Pillow), so that a missing or damaged one is an
    error with its location, and stored as bytes. Their EXIF orientation is applied; transparent pixels become white (unless there
    are four channels), of an animation the first frame is read; 16-bit values are scaled from [0, 65535], floats from [0, 1].
    An image counts as ``size`` tokens of a batch (the larger one of two). Fields: ``image`` and ``label``; of several images
    ``image1``, ``image2``, ...

    Args:
        train: Tables, folders or archives.
        valid: The same for validation; None = hold out a fraction of the training images.
        test: The same for the test.
        column_names: Column names, for files without a header; None = the first line is the header.
        delimiter: Character between the columns of a table; None = a comma in .csv files, a tab in others.
        quoted: Whether cells may be quoted (``"a cell"``, over several lines if need be); None = in .csv files only.
        image: Column of file names, or a list of columns for several images per example, such as two views; None = the first
            with a usual name (image, file, path, ...).
        views: Number of images of an example where one cell has a list of them.
        folder: Folder or archive that the file names of tables are relative to; None = the folder of the table.
        label: Column of labels, or key of .json files; None = the first with a usual name (label, class, category, ...).
        labels: Class names in the order of their ids; None = those of the training data, sorted.
        label_type: ``single`` class; ``multiple`` classes, separated by ``separator``, or a list in JSON; or a ``number``.
        separator: Separator of the classes of an image, for label_type: multiple.
        size: Height and width in pixels after resizing: one number for squares, or two.
        channels: 3 = RGB; 1 = grayscale; 4 = RGBA; other numbers for .npy files.
        resize: ``stretch`` to the size; ``crop`` the shorter side, then the center; or ``pad`` the longer side with black.
        normalization: ``half``: to [-1, 1], as ViT expects; ``imagenet``: mean and standard deviation of ImageNet; or
            ``measured`` on the training images, and stored with the run.
        augment: Augmentations of training examples, in their order; None = none.
        on_bad_row: What happens to a malformed row or an image that cannot be read: ``error``, or ``skip`` (counted).
        validation_fraction: Fraction of the training images held out where ``valid`` is None; 0 = no validation.
        stratify: Whether the held-out images have the same proportions of classes as all.
        group: Column whose values are not divided between training and validation, such as the patient.
        fold: Fold that is held out for validation, from 0 (k-fold cross-validation); None = ``validation_fraction``.
        folds: Number of folds.
        split_seed: Seed of the hold-out split.
        encoding: Encoding of tables, by its name in Python: utf-8, latin-1, cp1252, utf-16, gb18030, ...

    Example:
        >>> data = LabeledImages(train="flowers.tsv", labels=("rose", "tulip"), size=32)
        >>> data.declare()["image"].shape, data.declare()["label"].classes
        ((3, 32, 32), 2)
    """

    def __init__(
        self,
        *,
        train: FileOrFolder | list[FileOrFolder],
        valid: FileOrFolder | list[FileOrFolder] | None = None,
        test: FileOrFolder | list[FileOrFolder] | None = None,
        column_names: tuple[str, ...] | None = None,
        delimiter: str | None = None,
        quoted: bool | None = None,
        image: str | tuple[str, ...] | None = None,
        views: Count = 1,
        folder: FileOrFolder | None = None,
        label: str | None = None,
        labels: tuple[str, ...] | None = None,
        label_type: Literal["single", "multiple", "number"] = "single",
        separator: str = "|",
        size: Count | tuple[Count, Count] = 224,
        channels: Count = 3,
        resize: Resize = "stretch",
        normalization: Normalization = "half",
        augment: list[Build[Augmentation]] | None = None,
        on_bad_row: BadRows = "error",
        validation_fraction: Fraction = 0.05,
        stratify: bool = False,
        group: str | None = None,
        fold: Natural | None = None,
        folds: Count = 5,
        split_seed: Natural = 0,
        encoding: str = "utf-8",
    ):
        check_labels(labels)
        if labels is not None and label_type == "number":
            raise ValueError("labels names classes, but label_type is number; remove labels, or set label_type: single")
        if stratify and label_type == "number":
            raise ValueError("stratify needs classes, but label_type is number; remove stratify")
        super().__init__(
            (train, valid, test),
            TableFormat(None if column_names is None else tuple(column_names), delimiter, quoted),
            ImageOptions(image, views, folder, size, channels, resize, normalization, augment or ()),
            (Byte, 1),
            HoldOut(validation_fraction, stratify, group, fold, folds, split_seed),
            on_bad_row,
            encoding,
        )
        self.label, self.labels = label, None if labels is None else tuple(labels)
        self.label_type, self.separator = label_type, separator

    def target_fields(self) -> dict[str, TargetSpec]:
        return {"label": TargetSpec(LABEL_TYPES[self.label_type], self.labels)}

    def other_columns(self) -> dict[str, ColumnSpec]:
        return {"label": ColumnSpec(self.label, LABEL)}

    def finish_row(self, row: ParsedRow) -> ParsedRow:
        cell = row.cells["label"]
        if self.label_type == "multiple" and "\t" not in cell:
            cell = "\t".join(filter(None, map(str.strip, cell.split(self.separator))))
        return row._replace(cells={**row.cells, "label": cell})

    def entry_cells(self, entry: Entry, collection: Collection) -> Mapping[str, str]:
        for suffix in (".cls", ".json", ".txt"):
            if suffix in collection.beside:
                if suffix not in entry.beside:
                    raise ValueError(f"has no label: other images have a file {suffix} beside them")
                label = entry.cell(ColumnSpec(self.label, LABEL), "label") if suffix == ".json" else entry.text(suffix).strip()
                return self.finish_row(ParsedRow("", 0, {"label": label})).cells
        if not entry.folder:
            raise ValueError("is in no folder of a class, and has no label in a file beside it (.cls, .json, .txt)")
        return {"label": entry.folder}

    def open(
        self,
        codec: Codec | None = None,
        *,
        tokenizers: Mapping[str, Tokenizer] | None = None,
        splits: Sequence[str] = (),
        progress: ProgressCallback | None = None,
    ) -> Corpus:
        corpus = super().open(codec, tokenizers=tokenizers, splits=splits, progress=progress)
        if codec is None and self.labels is None:
            self._check_classes(getattr(corpus.codec.info["label"], "labels", ()))
        return corpus

    def _check_classes(self, labels: Sequence[str]) -> None:
        """Raise OptionError for classes that are probably one, or splits."""
        known: dict[str, str] = {}
        for label in labels:
            if other := known.get(label.casefold()):
                raise ValueError(
                    f"{self.paths['train']}: the classes {other!r} and {label!r} differ only in case; rename one, or name "
                    "both in labels if they are two"
                )
            known[label.casefold()] = label
        if labels and set(known) <= {*SPLITS, "training", "validation", "testing", "val", "dev"}:
            raise OptionError("train", f"has the classes {', '.join(labels)}, which are splits; give each split its own path")
