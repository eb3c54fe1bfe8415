"""Labeled text: tables with a text and a label, lines that start with a label, or files by class."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Literal

from weft.core.contracts import Tokenizer
from weft.core.fields import Field, LabelField, LabelsField, NumberField
from weft.core.options import Count, Fraction, Natural, OptionError
from weft.core.registry import Build, block
from weft.data.holdout import HoldOut
from weft.data.sources.class_files import ClassFiles, classes_of, files_by_class
from weft.data.sources.cursor import Cursor
from weft.data.sources.parsing import ColumnSpec, Layout, ParsedRow, check_delimiter, is_table, table, tables
from weft.data.sources.text_rows import Unit, text_rows
from weft.data.sources.text_source import BadRows, TextSource
from weft.data.sources.training_scan import TargetSpec
from weft.data.tokenizers.bpe import BPE

TEXT = ("text", "sentence", "review", "content", "document", "body")
LABEL = ("label", "labels", "class", "category", "target", "score", "rating")
"""Usual column names."""
LABEL_TYPES: dict[str, type[Field]] = {"single": LabelField, "multiple": LabelsField, "number": NumberField}
"""The field kind of each ``label_type``."""
_FASTTEXT = re.compile(r"(?:^|(?<=\s))__label__(\S+)\s*")
_BLANKS = re.compile(r"[ \t]+")
LineFormat = Literal["table", "label-first", "fasttext"]


@block("labeled-text")
class LabeledText(TextSource):
    """Texts with labels for classification or regression: tables, lines that start with a label, or one file per class.

    A table is TSV, CSV or JSON, by file suffix; its first line names the columns. Classes may also be the keys by which files or
    folders are given (``{positive: good.txt, negative: bad.txt}``). Rows without text are dropped, texts of more than
    ``max_length`` tokens are truncated; both are counted. Fields: ``text`` and ``label``.

    Args:
        train: Files or folders; or those of each class, by class name.
        valid: Validation files; None = hold out a fraction of the training rows.
        test: Test files.
        format: ``table``; ``label-first``: lines of a label, a blank and a text; or ``fasttext``: lines with ``__label__NAME``.
        unit: What one text is in files by class that are no tables: a line, a paragraph, or a file.
        column_names: Column names, for files without a header; None = the first line is the header.
        delimiter: Character between the columns of a table; None = a comma in .csv files, a tab in others.
        quoted: Whether cells may be quoted (``"a cell"``, over several lines if need be); None = in .csv files only.
        text: Column of texts; None = the first of text, sentence, review, content, document, body.
        label: Column of labels; None = the first of label, labels, class, category, target, score, rating.
        labels: Class names in the order of their ids; None = those of the training file, sorted. Before the file is read, two
            classes are assumed.
        label_type: ``single`` class per row; ``multiple`` classes (multi-label: any number, separated by ``separator``, or a
            list in JSON); or a ``number`` (regression).
        coarse_labels: Keep only the part of a label before its first colon: DESC of DESC:manner.
        separator: Separator of the classes of a row, for label_type: multiple.
        tokenizer: Tokenizer, trained on the training rows.
        max_length: Maximum number of tokens per text.
        on_overflow: What happens to longer texts: ``truncate`` (counted), ``split`` into rows with the same label, or ``error``.
        on_bad_row: What happens to a malformed row, or one with a class unknown in training: ``error``, or ``skip`` (counted).
        validation_fraction: Fraction of the training rows held out where ``valid`` is None; 0 = no validation.
        stratify: Whether the held-out rows have the same proportions of classes as all rows.
        group: Column whose values are not divided between training and validation, such as the author; rows without a value are
            held out by their text.
        fold: Fold that is held out for validation, from 0 (k-fold cross-validation); None = ``validation_fraction``.
        folds: Number of folds.
        split_seed: Seed of the hold-out split; equal texts are on the same side unless ``group`` is set.
        encoding: Encoding of the files, by its name in Python: utf-8, latin-1, cp1252, utf-16, gb18030, ...

    Example:
        >>> data = LabeledText(train="reviews.tsv", labels=("bad", "good", "mixed"))
        >>> data.declare()["label"].classes
        3
    """

    def __init__(
        self,
        *,
        train: ClassFiles,
        valid: ClassFiles | None = None,
        test: ClassFiles | None = None,
        format: LineFormat = "table",
        unit: Unit = "line",
        column_names: tuple[str, ...] | None = None,
        delimiter: str | None = None,
        quoted: bool | None = None,
        text: str | None = None,
        label: str | None = None,
        labels: tuple[str, ...] | None = None,
        label_type: Literal["single", "multiple", "number"] = "single",
        coarse_labels: bool = False,
        separator: str = "|",
        tokenizer: Build[Tokenizer] = BPE,
        max_length: Count = 256,
        on_overflow: Literal["error", "truncate", "split"] = "truncate",
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
        if not separator:
            raise ValueError("separator must not be empty: it separates the classes of a row")
        if stratify and label_type == "number":
            raise ValueError("stratify needs classes, but label_type is number; remove stratify")
        hold_out = HoldOut(validation_fraction, stratify, group, fold, folds, split_seed)
        super().__init__(train, valid, test, tokenizer, max_length, hold_out, on_bad_row, on_overflow, encoding)
        check_delimiter(delimiter)
        self.column_names = None if column_names is None else tuple(column_names)
        self.delimiter, self.quoted = delimiter, quoted
        self.text, self.label, self.labels = text, label, None if labels is None else tuple(labels)
        self.label_type, self.separator, self.coarse_labels = label_type, separator, coarse_labels
        self.format = format
        self.unit: Unit = unit
        self.classes = classes_of(self.paths, LABEL[0] if label is None else label)
        if self.classes and label_type != "single":
            raise OptionError("label_type", f"must be single where files are given by class, not {label_type}")

    def target_fields(self) -> dict[str, TargetSpec]:
        known = self.classes if self.labels is None and isinstance(self.paths["train"], dict) else self.labels
        return {"label": TargetSpec(LABEL_TYPES[self.label_type], known)}

    def files(self, paths: ClassFiles) -> list[list[str]]:
        return files_by_class(paths, self.classes)

    def rows(self, cursors: list[Cursor]) -> Iterator[ParsedRow]:
        if len(cursors) > 1:
            yield from self._rows_by_class(cursors)
            return
        columns = {"text": ColumnSpec(self.text, TEXT), "label": ColumnSpec(self.label, LABEL), **self.group_column()}
        is_lines = self.format != "table"
        for row in self._labeled_lines(cursors[0]) if is_lines else tables(cursors[0], columns, self.table_format()):
            if row.cells:
                label = row.cells["label"].strip()
                if self.label_type == "multiple" and self.format != "fasttext":
                    label = label.replace(self.separator, "\t")
                several = self.label_type == "multiple"
                labels = [part.strip() for part in label.split("\t") if part.strip()] if several else [label]
                if self.coarse_labels:
                    labels = list(dict.fromkeys(part.partition(":")[0] for part in labels))
                row = row._replace(cells={**row.cells, "label": "\t".join(labels)})
            yield row

    def inputs(self, cursors: list[Cursor]) -> Iterator[ParsedRow]:
        cursor = cursors[0]
        column = {"text": ColumnSpec(self.text, TEXT)}
        if self.format != "table":
            for row in self._labeled_lines(cursor):
                yield row._replace(cells={"text": row.cells["text"]}) if row.cells else row
        elif self.classes:
            for file in cursor.each_file():
                yield from table(cursor, column, self.table_format()) if is_table(file) else text_rows(cursor, self.unit)
        else:
            yield from tables(cursor, column, self.table_format())

    def layout(self, file: str) -> Layout:
        """Return how the rows of a file are written."""
        lines = self.format != "table" or (self.classes and not is_table(file))
        return "text" if lines else super().layout(file)

    def _rows_by_class(self, cursors: list[Cursor]) -> Iterator[ParsedRow]:
        column = {"text": ColumnSpec(self.text, TEXT)}
        for label, cursor in zip(self.classes, cursors, strict=True):
            for file in cursor.each_file():
                for row in table(cursor, column, self.table_format()) if is_table(file) else text_rows(cursor, self.unit):
                    yield row._replace(cells={**row.cells, "label": label}) if row.cells else row

    def _labeled_lines(self, cursor: Cursor) -> Iterator[ParsedRow]:
        """Lines that hold their labels."""
        split = _fasttext_cells if self.format == "fasttext" else _label_first_cells
        for _ in cursor.each_file():
            for line, problem in cursor.lines():
                cells = split(line) if line and not line.isspace() else {}
                if cells and "\t" in cells["label"] and self.label_type != "multiple" and not problem:
                    problem = f"the line has several labels ({cells['label'].replace(chr(9), ', ')}); set label_type: multiple"
                yield ParsedRow(cursor.file, cursor.line, cells, problem)


def _label_first_cells(line: str) -> dict[str, str]:
    label, *text = _BLANKS.split(line.strip(" \t"), maxsplit=1)
    return {"text": "".join(text), "label": label}


def _fasttext_cells(line: str) -> dict[str, str]:
    return {"text": _FASTTEXT.sub("", line).strip(), "label": "\t".join(_FASTTEXT.findall(line))}


def check_labels(labels: tuple[str, ...] | None) -> None:
    """Raise ValueError unless ``labels`` is None or has at least two distinct names."""
    if labels is not None and (len(labels) < 2 or len(set(labels)) < len(labels)):
        raise ValueError(f"labels must be at least two distinct class names, not {list(labels)}")
