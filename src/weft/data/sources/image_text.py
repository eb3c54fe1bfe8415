"""Images with texts: one or several captions, or a report, of each image."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields, replace
from typing import Literal

from weft.core.contracts import Augmentation, Codec, Corpus, Dataset, ProgressCallback, Tokenizer
from weft.core.fields import Info, TextField, TextsField
from weft.core.options import Count, FileOrFolder, Fraction, Natural
from weft.core.registry import Build, block
from weft.data.holdout import HoldOut
from weft.data.image_dataset import CaptionDataset
from weft.data.prepared import PreparedDataset
from weft.data.sources.cursor import Cursor
from weft.data.sources.image_rows import Collection, Entry
from weft.data.sources.image_source import ImageOptions, ImageSource, Normalization, Resize
from weft.data.sources.parsing import ColumnSpec, ParsedRow, TableFormat
from weft.data.sources.text_source import BadRows
from weft.data.tokenizers.bpe import BPE

CAPTION = ("captions", "caption", "text", "texts", "sentences", "sentence", "report", "description", "target")
"""Usual column names."""
TARGET = "target"


@block("image-text")
class ImageText(ImageSource):
    """Images with one or several texts each, for captioning and for objectives over image and text.

    - A table, TSV, CSV or JSON: file names, and a text or (in JSON) a list of texts. Consecutive rows of the same image are one
      example. File names are relative to the folder of the table, or to ``folder``.
    - A folder, or an archive (.tar, .tar.gz, .zip), which is not unpacked: the texts are the lines of the file of the same name
      with the suffix .txt, or in the object of one with .json, as in WebDataset.

    An image is stored once, whatever the number of its texts. In training an example is a pair of an image and a text, or an
    image with a text sampled in each epoch (``captions``). In evaluation it is an image: the loss is that of its first text, and
    the references of metrics are all its texts, separated by tabs. Images are read as by ``labeled-images``. Fields: ``image``
    (of several images ``image1``, ``image2``, ...) and ``target``, the text, which a request lacks.

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
        caption: Column of texts, or key of .json files; None = the first with a usual name (captions, text, report, ...).
        captions: Training examples: ``each`` text of an image is one, or one is ``sampled`` for every image in every epoch.
        tokenizer: Tokenizer, trained on the training texts.
        max_length: Maximum number of tokens per text; longer ones are truncated (counted).
        size: Height and width in pixels after resizing: one number for squares, or two.
        channels: 3 = RGB; 1 = grayscale; 4 = RGBA; other numbers for .npy files.
        resize: ``stretch`` to the size; ``crop`` the shorter side, then the center; or ``pad`` the longer side with black.
        normalization: ``half``: to [-1, 1], as ViT expects; ``imagenet``: mean and standard deviation of ImageNet; or
            ``measured`` on the training images, and stored with the run.
        augment: Augmentations of training examples, in their order; None = none.
        on_bad_row: What happens to a malformed row or an image that cannot be read: ``error``, or ``skip`` (counted).
        validation_fraction: Fraction of the training images held out where ``valid`` is None; 0 = no validation.
        group: Column whose values are not divided between training and validation, such as the patient.
        fold: Fold that is held out for validation, from 0 (k-fold cross-validation); None = ``validation_fraction``.
        folds: Number of folds.
        split_seed: Seed of the hold-out split.
        encoding: Encoding of tables, by its name in Python: utf-8, latin-1, cp1252, utf-16, gb18030, ...

    Example:
        >>> data = ImageText(train="captions.jsonl", folder="images", size=96, max_length=30)
        >>> {field.name: field.describe() for field in data.declare().fields.values()}
        {'target': 'text, up to 8,000 ids', 'image': 'image, 3 x 96 x 96'}
    """

    list_fields = (TARGET,)
    generated_field = TARGET
    reading_options = (*ImageSource.reading_options, "captions")

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
        caption: str | None = None,
        captions: Literal["each", "sampled"] = "each",
        tokenizer: Build[Tokenizer] = BPE,
        max_length: Count = 64,
        size: Count | tuple[Count, Count] = 224,
        channels: Count = 3,
        resize: Resize = "stretch",
        normalization: Normalization = "half",
        augment: list[Build[Augmentation]] | None = None,
        on_bad_row: BadRows = "error",
        validation_fraction: Fraction = 0.05,
        group: str | None = None,
        fold: Natural | None = None,
        folds: Count = 5,
        split_seed: Natural = 0,
        encoding: str = "utf-8",
    ):
        super().__init__(
            (train, valid, test),
            TableFormat(None if column_names is None else tuple(column_names), delimiter, quoted),
            ImageOptions(image, views, folder, size, channels, resize, normalization, augment or ()),
            (tokenizer, max_length),
            HoldOut(validation_fraction, False, group, fold, folds, split_seed),
            on_bad_row,
            encoding,
        )
        self.caption = caption
        self.captions: Literal["each", "sampled"] = captions

    def text_fields(self) -> dict[str, str]:
        return {TARGET: "text"}

    def other_columns(self) -> dict[str, ColumnSpec]:
        return {TARGET: ColumnSpec(self.caption, CAPTION)}

    def rows(self, cursors: list[Cursor]) -> Iterator[ParsedRow]:
        cursor = cursors[0]
        held: ParsedRow | None = None
        for row, before in cursor.with_marks(super().rows(cursors)):
            same = held is not None and held.file == row.file and row.line and not row.problem and bool(row.cells)
            if held is not None and same and all(held.cells[name] == row.cells[name] for name in self.image_fields):
                held = held._replace(cells={**held.cells, TARGET: f"{held.cells[TARGET]}\t{row.cells[TARGET]}"})
                continue
            if held is not None:
                with cursor.pinned(before):  # a preparation that resumes reads this row again
                    yield held
            held = row if row.cells and not row.problem and row.line else None
            if held is None:
                yield row
        if held is not None:
            yield held

    def finish_row(self, row: ParsedRow) -> ParsedRow:
        return row._replace(cells={**row.cells, TARGET: _captions(row.cells[TARGET].split("\t"))})

    def entry_cells(self, entry: Entry, collection: Collection) -> Mapping[str, str]:
        if ".txt" in entry.beside:
            return {TARGET: _captions(entry.text(".txt").splitlines())}
        if ".json" in entry.beside:
            return {TARGET: _captions(entry.cell(ColumnSpec(self.caption, CAPTION), "caption").split("\t"))}
        raise ValueError("has no text: there is no file of the same name with the suffix .txt or .json")

    # ---------------------------------------------------------------------------------------------- one text, or several

    def declare(self) -> Info:
        return _with_one_text(super().declare())

    def open(
        self,
        codec: Codec | None = None,
        *,
        tokenizers: Mapping[str, Tokenizer] | None = None,
        splits: Sequence[str] = (),
        progress: ProgressCallback | None = None,
    ) -> Corpus:
        if codec is not None:
            text = codec.info.text(TARGET).several(TARGET)
            codec = replace(codec, info=replace(codec.info, fields={**codec.info.fields, TARGET: text}))
        corpus = super().open(codec, tokenizers=tokenizers, splits=splits, progress=progress)
        return replace(corpus, codec=replace(corpus.codec, info=_with_one_text(corpus.codec.info)))

    def examples(self, split: str, rows: PreparedDataset) -> Dataset:
        return CaptionDataset(rows, TARGET, self.steps, self.captions if split == "train" else "first")


def _captions(texts: Sequence[str]) -> str:
    """The cell of several texts, without those that are blank."""
    return "\t".join(filter(None, map(str.strip, texts)))


def _with_one_text(info: Info) -> Info:
    """The fields of an example, which has one of the texts of an image."""
    texts = info.expect(TARGET, TextsField)
    text = TextField(**{field.name: getattr(texts, field.name) for field in fields(TextsField)})
    return replace(info, fields={**info.fields, TARGET: text})
