"""Sentence pairs: a table with two columns of texts and a column of labels."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

from weft.core.contracts import Tokenizer
from weft.core.options import Count, File, Fraction, Natural
from weft.core.registry import Build, block
from weft.data.holdout import HoldOut
from weft.data.sources.cursor import Cursor
from weft.data.sources.labeled_text import LABEL_TYPES
from weft.data.sources.parsing import ColumnSpec, ParsedRow, check_delimiter, tables
from weft.data.sources.text_source import BadRows, Overflow, TextSource
from weft.data.sources.training_scan import TargetSpec
from weft.data.tokenizers.bpe import BPE

FIRST = ("first", "sentence1", "text1", "premise", "question1", "a")
SECOND = ("second", "sentence2", "text2", "hypothesis", "question2", "b")
LABEL = ("label", "class", "gold_label", "score", "similarity", "target")
"""Usual column names."""
Files = File | list[File]


@block("sentence-pairs")
class SentencePairs(TextSource):
    """Pairs of texts with a class or a score: paraphrase detection, natural language inference, semantic similarity.

    From TSV, CSV or JSON, by file suffix. Rows with an empty text are dropped, texts of more than ``max_length`` tokens
    are truncated; both are counted. Fields: ``first``, ``second`` and ``label``.

    Args:
        train: Tables.
        valid: Validation tables; None = hold out a fraction of the training rows.
        test: Test tables.
        column_names: Column names, for files without a header; None = the first line is the header.
        delimiter: Character between the columns of a table; None = a comma in .csv files, a tab in others.
        quoted: Whether cells may be quoted (``"a cell"``, over several lines if need be); None = in .csv files only.
        first: Column of first texts; None = the first with a usual name (sentence1, premise, question1, ...).
        second: Column of second texts; None = the first with a usual name (sentence2, hypothesis, question2, ...).
        label: Column of labels; None = the first with a usual name (label, class, score, ...).
        labels: Class names in the order of their ids; None = those of the training file, sorted.
        label_type: ``single`` class per row, or a ``number`` (regression).
        tokenizer: Tokenizer, trained on the training rows.
        max_length: Maximum number of tokens of each text.
        on_overflow: What happens to longer texts: ``truncate`` (counted) or ``error``.
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
        >>> list(SentencePairs(train="pairs.tsv").declare().fields)
        ['first', 'second', 'label']
    """

    key_field, generated_field = "first", "first"

    duplicate_fields = ("first", "second")

    def __init__(
        self,
        *,
        train: Files,
        valid: Files | None = None,
        test: Files | None = None,
        column_names: tuple[str, ...] | None = None,
        delimiter: str | None = None,
        quoted: bool | None = None,
        first: str | None = None,
        second: str | None = None,
        label: str | None = None,
        labels: tuple[str, ...] | None = None,
        label_type: Literal["single", "number"] = "single",
        tokenizer: Build[Tokenizer] = BPE,
        max_length: Count = 256,
        on_overflow: Overflow = "truncate",
        on_bad_row: BadRows = "error",
        validation_fraction: Fraction = 0.05,
        stratify: bool = False,
        group: str | None = None,
        fold: Natural | None = None,
        folds: Count = 5,
        split_seed: Natural = 0,
        encoding: str = "utf-8",
    ):
        if stratify and label_type == "number":
            raise ValueError("stratify needs classes, but label_type is number; remove stratify")
        hold_out = HoldOut(validation_fraction, stratify, group, fold, folds, split_seed)
        super().__init__(train, valid, test, tokenizer, max_length, hold_out, on_bad_row, on_overflow, encoding)
        check_delimiter(delimiter)
        self.column_names = None if column_names is None else tuple(column_names)
        self.delimiter, self.quoted = delimiter, quoted
        self.first, self.second, self.label = first, second, label
        self.labels, self.label_type = None if labels is None else tuple(labels), label_type

    def text_fields(self) -> dict[str, str]:
        return {"first": "text", "second": "text"}

    def target_fields(self) -> dict[str, TargetSpec]:
        return {"label": TargetSpec(LABEL_TYPES[self.label_type], self.labels)}

    def rows(self, cursors: list[Cursor]) -> Iterator[ParsedRow]:
        return self._stripped(cursors, {"label": ColumnSpec(self.label, LABEL), **self.group_column()})

    def inputs(self, cursors: list[Cursor]) -> Iterator[ParsedRow]:
        return self._stripped(cursors, {})

    def _stripped(self, cursors: list[Cursor], targets: dict[str, ColumnSpec]) -> Iterator[ParsedRow]:
        columns = {"first": ColumnSpec(self.first, FIRST), "second": ColumnSpec(self.second, SECOND), **targets}
        for row in tables(cursors[0], columns, self.table_format()):
            yield row._replace(cells={name: cell.strip() for name, cell in row.cells.items()})
