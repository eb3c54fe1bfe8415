"""Base class of sources of images: where they are, their size and normalization, and their augmentation."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np

from weft.core.archive import is_archive
from weft.core.contracts import Augmentation, Codec, Corpus, Dataset, ProgressCallback, Tokenizer
from weft.core.fields import ImageField
from weft.core.image_file import import_pillow, is_image
from weft.core.options import OptionError
from weft.core.registry import Build
from weft.data import fingerprints
from weft.data.holdout import HoldOut
from weft.data.image_dataset import ImageDataset
from weft.data.prepared import PreparedDataset
from weft.data.sources.cursor import Cursor
from weft.data.sources.image_rows import (
    Collection,
    Entry,
    TableOfImages,
    collection_fingerprint,
    is_collection,
    paths_fingerprint,
    table_rows,
)
from weft.data.sources.parsing import ColumnSpec, Layout, ParsedRow, TableFormat, check_delimiter
from weft.data.sources.text_source import BadRows, TextSource
from weft.data.sources.training_scan import TargetSpec

Resize = Literal["stretch", "crop", "pad"]
Normalization = Literal["half", "imagenet", "measured"]
MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
"""Mean and standard deviation of the pixels of ImageNet, which published networks were trained with."""
_NAME = "name"
_MIN_STD = 1 / 255


@dataclass(frozen=True)
class ImageOptions:
    """The options of images that all sources have.

    Args:
        image: Column of file names, or the columns of several images; None = the first with a usual name.
        views: Number of images of an example.
        folder: Folder or archive that file names are relative to.
        size: Height and width in pixels.
        channels: Number of channels.
        resize: How an image gets its size.
        normalization: How pixels are normalized.
        augment: Augmentations of training examples.
    """

    image: str | tuple[str, ...] | None
    views: int
    folder: str | None
    size: int | tuple[int, int]
    channels: int
    resize: Resize
    normalization: Normalization
    augment: Sequence[Build[Augmentation]]

    def columns(self) -> tuple[str, ...] | None:
        return (self.image,) if isinstance(self.image, str) else None if self.image is None else tuple(self.image)

    def names(self) -> tuple[str, ...]:
        """The names of the image fields: ``image``, or ``image1``, ``image2``, ... of several."""
        columns = self.columns() or ()
        if len(columns) > 1 and self.views not in (1, len(columns)):
            raise ValueError(f"image names {len(columns)} columns, but views is {self.views}; leave views out")
        count = max(len(columns), self.views)
        return ("image",) if count == 1 else tuple(f"image{number}" for number in range(1, count + 1))

    def fields(self) -> dict[str, ImageField]:
        """The image fields."""
        height, width = (self.size, self.size) if isinstance(self.size, int) else self.size
        mean, std = ((0.5,), (0.5,)) if self.normalization != "imagenet" else (MEAN, STD)
        if len(mean) not in (1, self.channels):
            raise OptionError("normalization", f"imagenet is for 3 channels, not {self.channels}; use half or measured")
        return {name: ImageField(name, self.channels, height, width, self.resize, mean, std) for name in self.names()}


class ImageSource(TextSource):
    """Base class of sources of images. A subclass overrides ``entry_cells`` and ``other_columns``, and the fields beside images.

    Args:
        paths: Tables, folders or archives of each split.
        layout: How the columns of a table are separated.
        options: The options of images.
        text: Tokenizer and maximum length of texts.
        hold_out: Which of the training rows are held out.
        on_bad_row: What happens to a malformed row.
        encoding: Encoding of tables.
    """

    duplicate_fields = None
    reading_options = ("normalization", "augment")
    encoding_options = ("size", "channels", "resize", "max_length")
    generated_field = "image"

    def __init__(
        self,
        paths: tuple[Any, Any, Any],
        layout: TableFormat,
        options: ImageOptions,
        text: tuple[Build[Tokenizer], int],
        hold_out: HoldOut,
        on_bad_row: BadRows,
        encoding: str,
    ):
        super().__init__(*paths, *text, hold_out, on_bad_row, "truncate", encoding)
        check_delimiter(layout.delimiter)
        self.column_names, self.delimiter, self.quoted = layout
        self.image, self.views, self.folder, self.size = options.image, options.views, options.folder, options.size
        self.channels, self.resize, self.normalization = options.channels, options.resize, options.normalization
        self.augment = list(options.augment) or None
        self.steps = [make() for make in options.augment]
        self.image_fields = options.fields()
        self.key_field = options.names()[0]
        self.images = TableOfImages(options.columns(), options.names(), options.folder)

    # ----------------------------------------------------------------------------------------- overridden by subclasses

    def other_columns(self) -> dict[str, ColumnSpec]:
        """The columns of a table beside those of the images, by field."""
        raise TypeError(f"{type(self).__name__} does not implement other_columns()")

    def entry_cells(self, entry: Entry, collection: Collection) -> Mapping[str, str]:
        """The cells of an image of a folder or an archive beside its path. Raises ValueError."""
        raise TypeError(f"{type(self).__name__} does not implement entry_cells(entry, collection)")

    def finish_row(self, row: ParsedRow) -> ParsedRow:
        """Change a row of a table."""
        return row

    # ------------------------------------------------------------------------------------------------------------- rows

    def files(self, paths: Any) -> list[list[str]]:
        given = paths if isinstance(paths, list | tuple) else [paths]
        return [[str(path) for path in given]]

    def input_fields(self) -> dict[str, TargetSpec]:
        return {name: TargetSpec(ImageField, declared=field) for name, field in self.image_fields.items()}

    def text_fields(self) -> dict[str, str]:
        return {}

    def rows(self, cursors: list[Cursor]) -> Iterator[ParsedRow]:
        cursor = cursors[0]
        columns = {**self.other_columns(), **self.group_column()}
        for file in cursor.each_file():
            if is_collection(file):
                yield from self._collected(cursor, file)
                continue
            self._require_table(file)
            for row in table_rows(cursor, self.images, columns, self.table_format()):
                yield self.finish_row(row) if row.cells and not row.problem else row

    def _collected(self, cursor: Cursor, path: str) -> Iterator[ParsedRow]:
        if len(self.image_fields) > 1:
            raise ValueError(f"{path}: several images of an example need a table that names them")
        collection = Collection(path)
        if not collection.entries:
            raise ValueError(f"{path}: there is no image, by suffix (.jpg, .png, ...)")
        for entry in collection.rows(cursor):
            cells: Mapping[str, str] = {}
            try:
                cells, problem = self.entry_cells(entry, collection), ""
            except ValueError as error:
                problem = f"{entry.path}: {error}"
            yield ParsedRow(path, 0, {self.key_field: entry.path, **cells, _NAME: entry.name}, problem)

    def _require_table(self, file: str) -> None:
        if is_image(file):
            raise ValueError(f"{file}: is an image; give a table of images, a folder or an archive")

    def inputs(self, cursors: list[Cursor]) -> Iterator[ParsedRow]:
        cursor = cursors[0]
        for file in cursor.each_file():
            if is_collection(file):
                for entry in Collection(file).rows(cursor):
                    yield ParsedRow(file, 0, {self.key_field: entry.path})
            elif is_image(file):
                cursor.leave()
                yield ParsedRow(file, 0, {self.key_field: file})
            else:
                for row in table_rows(cursor, self.images, {}, self.table_format(), check=False):
                    cells = {name: cell for name, cell in row.cells.items() if name in self.image_fields}
                    yield row._replace(cells=cells)

    def layout(self, file: str) -> Layout:
        return "text" if is_collection(file) or is_image(file) else super().layout(file)

    def recognizes(self, file: str) -> bool:
        return is_collection(file) or is_image(file) or super().recognizes(file)

    def group_key(self, cells: Mapping[str, str]) -> str:
        return cells[_NAME]

    # ------------------------------------------------------------------------------------------------------- preparation

    def check_files(self) -> None:
        for paths in filter(None, self.paths.values()):
            for file in self.files(paths)[0]:
                if Path(file).is_file() and not is_archive(file):
                    self._require_table(file)

    def open(
        self,
        codec: Codec | None = None,
        *,
        tokenizers: Mapping[str, Tokenizer] | None = None,
        splits: Sequence[str] = (),
        progress: ProgressCallback | None = None,
    ) -> Corpus:
        try:
            import_pillow()
        except ImportError as error:
            raise ValueError(str(error)) from None
        return super().open(codec, tokenizers=tokenizers, splits=splits, progress=progress)

    def fingerprint(self, files: list[list[str]]) -> list[Any]:
        found: list[Any] = []
        for file in files[0]:
            if is_collection(file):
                found.append([file, collection_fingerprint(file)])
                continue
            self._require_table(file)
            rows = table_rows(self.cursor([file]), self.images, {}, self.table_format(), check=False)
            paths = (row.cells[name] for row in rows for name in self.image_fields if name in row.cells)
            found.append([fingerprints.of_files([[file]]), paths_fingerprint(paths)])
        return found

    def measured(self, codec: Codec, train: Callable[[], PreparedDataset]) -> Codec:
        if self.normalization != "measured":
            return codec
        rows, fields = train(), dict(codec.info.fields)
        for name, field in self.image_fields.items():
            mean, std = pixel_statistics(rows, name, field)
            fields[name] = replace(field, mean=mean, std=std)
        return replace(codec, info=replace(codec.info, fields=fields))

    def examples(self, split: str, rows: PreparedDataset) -> Dataset:
        return ImageDataset(rows, self.steps)


def pixel_statistics(rows: PreparedDataset, name: str, field: ImageField) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Return mean and standard deviation of the pixels of each channel, from exact sums of integers."""
    count = np.zeros((field.channels, 256), np.int64)
    for row in range(len(rows)):
        pixels_CN = np.asarray(rows.columns[name][row]).reshape(field.channels, -1)
        for channel, values in enumerate(pixels_CN):
            count[channel] += np.bincount(values, minlength=256)
    values, total = np.arange(256) / 255, count.sum(1)
    mean_C = count @ values / total
    std_C = np.sqrt(np.maximum(count @ values**2 / total - mean_C**2, 0))
    return tuple(round(float(m), 8) for m in mean_C), tuple(round(max(float(s), _MIN_STD), 8) for s in std_C)
