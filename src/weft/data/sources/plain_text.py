"""Plain text: lines, paragraphs or whole files."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

from weft.core.contracts import Tokenizer
from weft.core.options import Count, Place, Share
from weft.core.registry import Build, block
from weft.data.sources.parsing import Cursor, Row, Wanted, is_json_lines, table
from weft.data.sources.text_source import BadRows, Written
from weft.data.tokenizers.bpe import BPE

Places = Place | list[Place]


@block("plain-text")
class PlainText(Written):
    """Texts and nothing else, for language models and all who learn from text alone.

    Of JSON lines (``.jsonl``), the column ``text`` of each is one text, whatever ``unit`` is. A text of more than ``length``
    tokens becomes several rows: tokens 0 .. length-1, length .. 2 length-1, and so on. Empty ones are dropped. Both are counted.
    One field, ``text``.

    Args:
        train: UTF-8 files or folders of them.
        valid: The same for validation; without it, training texts are held out.
        test: The same for the final evaluation.
        unit: What a text is: a line, a paragraph (up to an empty line), or a whole file.
        tokenizer: How text becomes ids; trained on the training texts.
        length: Most tokens of a row.
        on_overflow: What happens to longer texts: split into rows, truncate (counted), or error.
        on_bad_row: What happens to a text that is not UTF-8: error, or skip (counted).
        hold_out: Share of the training texts that is held out where ``valid`` is not given; 0 = none.

    Example:
        >>> data = PlainText(train="plays.txt", length=128)
        >>> data.declare()["text"].length
        128
    """

    def __init__(
        self,
        *,
        train: Places,
        valid: Places | None = None,
        test: Places | None = None,
        unit: Literal["line", "paragraph", "file"] = "line",
        tokenizer: Build[Tokenizer] = BPE,
        length: Count = 256,
        on_overflow: Literal["error", "truncate", "split"] = "split",
        on_bad_row: BadRows = "error",
        hold_out: Share = 0.05,
    ):
        super().__init__(train, valid, test, tokenizer, length, hold_out, on_bad_row, on_overflow)
        self.unit = unit

    def rows(self, cursors: list[Cursor]) -> Iterator[Row]:
        (cursor,) = cursors
        for file in cursor.each_file():
            if is_json_lines(file):
                yield from table(cursor, {"text": Wanted("text", option=False)})
            else:
                yield from self._lines(cursor) if self.unit == "line" else self._gathered(cursor)

    def _lines(self, cursor: Cursor) -> Iterator[Row]:
        for line, problem in cursor.lines():
            yield Row(cursor.file, cursor.line, {"text": line}, problem)

    def _gathered(self, cursor: Cursor) -> Iterator[Row]:
        lines: list[str] = []
        wrong = ""
        for line, problem in cursor.lines():
            wrong = wrong or (f"line {cursor.line}: {problem}" if problem else "")
            if line.strip() or self.unit == "file":
                lines.append(line)
            elif lines:
                yield self._text(cursor, lines, cursor.line - len(lines), wrong)
                lines, wrong = [], ""
        if lines:
            yield self._text(cursor, lines, cursor.line - len(lines) + 1, wrong)

    def _text(self, cursor: Cursor, lines: list[str], first: int, wrong: str) -> Row:
        return Row(cursor.file, first, {"text": "\n".join(lines).strip()}, wrong)
