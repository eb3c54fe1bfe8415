"""Plain text: lines, paragraphs or files."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

from weft.core.contracts import Tokenizer
from weft.core.options import Count, FileOrFolder, Fraction, Natural
from weft.core.registry import Build, block
from weft.data.holdout import HoldOut
from weft.data.sources.cursor import Cursor
from weft.data.sources.json_rows import is_json
from weft.data.sources.labeled_text import TEXT
from weft.data.sources.parsing import ColumnSpec, Layout, ParsedRow, is_table, table, table_layout, tables
from weft.data.sources.text_rows import Unit, text_rows
from weft.data.sources.text_source import BadRows, TextSource
from weft.data.tokenizers.bpe import BPE

Paths = FileOrFolder | list[FileOrFolder]


@block("plain-text")
class PlainText(TextSource):
    """Unlabeled text for language modeling and other self-supervised objectives.

    In JSON files (``.jsonl``, ``.json``) an example is the column ``text`` of an object, whatever ``unit`` is. A text of more
    than ``max_length`` tokens becomes several examples: tokens 0 .. max_length-1, max_length .. 2 max_length-1, and so on. Empty
    texts are dropped. Both are counted in the ledger. Field: ``text``.

    Args:
        train: Files or folders.
        valid: Validation files; None = hold out a fraction of the training texts.
        test: Test files.
        unit: What one example is: a line, a paragraph (up to an empty line), or a file.
        tokenizer: Tokenizer, trained on the training texts.
        max_length: Maximum number of tokens per example.
        on_overflow: What happens to longer texts: ``split`` into examples, ``truncate`` (counted) or ``error``.
        on_bad_row: What happens to a text that is not valid in the encoding: ``error``, or ``skip`` (counted).
        validation_fraction: Fraction of the training texts held out where ``valid`` is None; 0 = no validation.
        fold: Fold that is held out for validation, from 0 (k-fold cross-validation); None = ``validation_fraction``.
        folds: Number of folds.
        split_seed: Seed of the hold-out split; equal texts are on the same side whatever it is.
        encoding: Encoding of the files, by its name in Python: utf-8, latin-1, cp1252, utf-16, gb18030, ...

    Example:
        >>> data = PlainText(train="plays.txt", max_length=128)
        >>> data.declare()["text"].max_length
        128
    """

    def __init__(
        self,
        *,
        train: Paths,
        valid: Paths | None = None,
        test: Paths | None = None,
        unit: Unit = "line",
        tokenizer: Build[Tokenizer] = BPE,
        max_length: Count = 256,
        on_overflow: Literal["error", "truncate", "split"] = "split",
        on_bad_row: BadRows = "error",
        validation_fraction: Fraction = 0.05,
        fold: Natural | None = None,
        folds: Count = 5,
        split_seed: Natural = 0,
        encoding: str = "utf-8",
    ):
        hold_out = HoldOut(validation_fraction, False, None, fold, folds, split_seed)
        super().__init__(train, valid, test, tokenizer, max_length, hold_out, on_bad_row, on_overflow, encoding)
        self.unit: Unit = unit

    def rows(self, cursors: list[Cursor]) -> Iterator[ParsedRow]:
        (cursor,) = cursors
        for file in cursor.each_file():
            if is_json(file):
                yield from table(cursor, {"text": ColumnSpec("text", option=False)})
            else:
                yield from text_rows(cursor, self.unit)

    def inputs(self, cursors: list[Cursor]) -> Iterator[ParsedRow]:
        """Parse rows for prediction: as ``rows`` does, and the texts of a TSV or CSV table."""
        (cursor,) = cursors
        if self.layout(cursor.file) == "table":
            return tables(cursor, {"text": ColumnSpec(None, TEXT, False)})
        return self.rows(cursors)

    def layout(self, file: str) -> Layout:
        """Return how the rows of a file are written."""
        return table_layout(file) if is_table(file) else "text"
