"""Labeled text: a table with a column of texts and a column of labels."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

from weft.core.contracts import Tokenizer
from weft.core.options import Count, File, Fraction, Natural
from weft.core.registry import Build, block
from weft.data.holdout import HoldOut
from weft.data.sources.cursor import Cursor
from weft.data.sources.parsing import ColumnSpec, ParsedRow, tables
from weft.data.sources.text_source import BadRows, TextSource
from weft.data.sources.training_scan import TargetSpec
from weft.data.tokenizers.bpe import BPE

TEXT = ("text", "sentence", "review", "content", "document", "body")
LABEL = ("label", "labels", "class", "category", "target", "score", "rating")
"""Usual column names."""
FIELD_KINDS = {"single": "label", "multiple": "labels", "number": "number"}
"""The field kind of each ``label_type``."""
Files = File | list[File]


@block("labeled-text")
class LabeledText(TextSource):
    """Texts with labels for classification or regression, from tables: TSV, CSV or JSON Lines, by file suffix.

    The first line names the columns. Tab-separated lines are split at tabs only: quotation marks have no special meaning. Rows
    without text are dropped, texts of more than ``max_length`` tokens are truncated; both are counted. Fields: ``text`` and
    ``label``.

    Args:
        train: UTF-8 tables.
        valid: Validation tables; None = hold out a fraction of the training rows.
        test: Test tables.
        column_names: Column names, for files without a header; None = the first line is the header.
        text: Column of texts; None = the first of text, sentence, review, content, document, body.
        label: Column of labels; None = the first of label, labels, class, category, target, score, rating.
        labels: Class names in the order of their ids; None = those of the training file, sorted. Before the file is read, two
            classes are assumed.
        label_type: ``single`` class per row; ``multiple`` classes (multi-label: any number, separated by ``separator``, or a
            list in JSON Lines); or a ``number`` (regression).
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

    Example:
        >>> data = LabeledText(train="reviews.tsv", labels=("bad", "good", "mixed"))
        >>> data.declare()["label"].vocab
        3
    """

    def __init__(
        self,
        *,
        train: Files,
        valid: Files | None = None,
        test: Files | None = None,
        column_names: tuple[str, ...] | None = None,
        text: str | None = None,
        label: str | None = None,
        labels: tuple[str, ...] | None = None,
        label_type: Literal["single", "multiple", "number"] = "single",
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
    ):
        check_labels(labels)
        if labels is not None and label_type == "number":
            raise ValueError("labels names classes, but label_type is number; remove labels, or set label_type: single")
        if not separator:
            raise ValueError("separator must not be empty: it separates the classes of a row")
        if stratify and label_type == "number":
            raise ValueError("stratify needs classes, but label_type is number; remove stratify")
        hold_out = HoldOut(validation_fraction, stratify, group, fold, folds, split_seed)
        super().__init__(train, valid, test, tokenizer, max_length, validation_fraction, on_bad_row, on_overflow, hold_out)
        self.column_names = None if column_names is None else tuple(column_names)
        self.text, self.label, self.labels = text, label, None if labels is None else tuple(labels)
        self.label_type, self.separator = label_type, separator

    def target_fields(self) -> dict[str, TargetSpec]:
        return {"label": TargetSpec(FIELD_KINDS[self.label_type], self.labels)}

    def rows(self, cursors: list[Cursor]) -> Iterator[ParsedRow]:
        columns = {"text": ColumnSpec(self.text, TEXT), "label": ColumnSpec(self.label, LABEL), **self.group_column()}
        for row in tables(cursors[0], columns, self.column_names):
            if row.cells:
                label = row.cells["label"].strip()
                if self.label_type == "multiple":
                    label = "\t".join(part.strip() for part in label.replace(self.separator, "\t").split("\t") if part.strip())
                row = row._replace(cells={**row.cells, "label": label})
            yield row

    def inputs(self, cursors: list[Cursor]) -> Iterator[ParsedRow]:
        return tables(cursors[0], {"text": ColumnSpec(self.text, TEXT)}, self.column_names)


def check_labels(labels: tuple[str, ...] | None) -> None:
    """Raise ValueError unless ``labels`` is None or has at least two distinct names."""
    if labels is not None and (len(labels) < 2 or len(set(labels)) < len(labels)):
        raise ValueError(f"labels must be at least two distinct class names, not {list(labels)}")
