"""Plain text: lines, paragraphs or files."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Literal

from weft.core.contracts import Tokenizer
from weft.core.options import Count, FileOrFolder, Fraction, Natural
from weft.core.registry import Build, block
from weft.data.holdout import HoldOut
from weft.data.sources.cursor import Cursor
from weft.data.sources.labeled_text import TEXT
from weft.data.sources.parsing import ColumnSpec, Layout, ParsedRow, is_json_lines, table, table_layout, tables
from weft.data.sources.text_source import BadRows, TextSource
from weft.data.tokenizers.bpe import BPE

Paths = FileOrFolder | list[FileOrFolder]


@block("plain-text")
class PlainText(TextSource):
    """Unlabeled text for language modeling and other self-supervised objectives.

    In JSON Lines files (``.jsonl``) an example is the column ``text`` of an object, whatever ``unit`` is. A text of more than
    ``max_length`` tokens becomes several examples: tokens 0 .. max_length-1, max_length .. 2 max_length-1, and so on. Empty
    texts are dropped. Both are counted in the ledger. Field: ``text``.

    Args:
        train: UTF-8 files or folders.
        valid: Validation files; None = hold out a fraction of the training texts.
        test: Test files.
        unit: What one example is: a line, a paragraph (up to an empty line), or a file.
        tokenizer: Tokenizer, trained on the training texts.
        max_length: Maximum number of tokens per example.
        on_overflow: What happens to longer texts: ``split`` into examples, ``truncate`` (counted) or ``error``.
        on_bad_row: What happens to a text that is not UTF-8: ``error``, or ``skip`` (counted).
        validation_fraction: Fraction of the training texts held out where ``valid`` is None; 0 = no validation.
        fold: Fold that is held out for validation, from 0 (k-fold cross-validation); None = ``validation_fraction``.
        folds: Number of folds.
        split_seed: Seed of the hold-out split; equal texts are on the same side whatever it is.

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
        unit: Literal["line", "paragraph", "file"] = "line",
        tokenizer: Build[Tokenizer] = BPE,
        max_length: Count = 256,
        on_overflow: Literal["error", "truncate", "split"] = "split",
        on_bad_row: BadRows = "error",
        validation_fraction: Fraction = 0.05,
        fold: Natural | None = None,
        folds: Count = 5,
        split_seed: Natural = 0,
    ):
        hold_out = HoldOut(validation_fraction, False, None, fold, folds, split_seed)
        super().__init__(train, valid, test, tokenizer, max_length, validation_fraction, on_bad_row, on_overflow, hold_out)
        self.unit = unit

    def rows(self, cursors: list[Cursor]) -> Iterator[ParsedRow]:
        (cursor,) = cursors
        for file in cursor.each_file():
            if is_json_lines(file):
                yield from table(cursor, {"text": ColumnSpec("text", option=False)})
            else:
                yield from self._lines(cursor) if self.unit == "line" else self._paragraphs(cursor)

    def inputs(self, cursors: list[Cursor]) -> Iterator[ParsedRow]:
        """Parse rows for prediction: as ``rows`` does, and the texts of a TSV or CSV table."""
        (cursor,) = cursors
        if self.layout(cursor.file) in ("csv", "tsv"):
            return tables(cursor, {"text": ColumnSpec(None, TEXT, False)})
        return self.rows(cursors)

    def layout(self, file: str) -> Layout:
        """Return how the rows of a file are written."""
        return table_layout(file) if Path(file).suffix.lower() in (".tsv", ".csv", ".jsonl", ".ndjson") else "text"

    def _lines(self, cursor: Cursor) -> Iterator[ParsedRow]:
        for line, problem in cursor.lines():
            yield ParsedRow(cursor.file, cursor.line, {"text": line}, problem)

    def _paragraphs(self, cursor: Cursor) -> Iterator[ParsedRow]:
        """Paragraphs, or the file as one text."""
        lines: list[str] = []
        first_problem = ""
        for line, problem in cursor.lines():
            first_problem = first_problem or (f"line {cursor.line}: {problem}" if problem else "")
            if line.strip() or self.unit == "file":
                lines.append(line)
            elif lines:
                yield self._joined(cursor, lines, cursor.line - len(lines), first_problem)
                lines, first_problem = [], ""
        if lines:
            yield self._joined(cursor, lines, cursor.line - len(lines) + 1, first_problem)

    def _joined(self, cursor: Cursor, lines: list[str], first: int, problem: str) -> ParsedRow:
        return ParsedRow(cursor.file, first, {"text": "\n".join(lines).strip()}, problem)
