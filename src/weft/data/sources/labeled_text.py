"""Labelled text: a table with a column of texts and a column of classes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

from weft.core.contracts import Tokenizer
from weft.core.options import Count, File, Share
from weft.core.registry import Build, block
from weft.data.sources.parsing import Cursor, Row, Wanted, tables
from weft.data.sources.text_source import Answer, BadRows, Written
from weft.data.tokenizers.bpe import BPE

TEXT = ("text", "sentence", "review", "content", "document", "body")
LABEL = ("label", "labels", "class", "category", "target", "score", "rating")
Files = File | list[File]


@block("labeled-text")
class LabeledText(Written):
    """Texts with a class each, from tables: TSV, CSV or JSONL, by the file's ending.

    The first line names the columns. Tab-separated lines are split at tabs and nowhere else: quotation marks are characters like
    any other. Rows without text are dropped, rows of more than ``length`` tokens cut; both are counted. Fields ``text`` and
    ``label``.

    Args:
        train: UTF-8 tables.
        valid: The same for validation; without it, training rows are held out.
        test: The same for the final evaluation.
        header: The names of the columns, for files whose first line is already a row; None = the first line has them.
        text: The column of texts; None = the first that is called text, sentence, review, content, document or body.
        label: The column of classes; None = the first that is called label, labels, class, category, target, score or rating.
        labels: The classes, in the order of their numbers; None = those of the training file, sorted. Before the file is
            read, two are assumed.
        answer: What a row has: one class; several (any number of classes, with ``separator`` between them, or a list in JSONL);
            or a number.
        separator: Between the classes of a row, for answer: several.
        tokenizer: How text becomes ids; trained on the training rows.
        length: Most tokens of a row.
        on_overflow: What happens to longer rows: truncate (counted), split into rows of the same class, or error.
        on_bad_row: What happens to a row that cannot be read, or whose class training does not know: error, or skip (counted).
        hold_out: Share of the training rows that is held out where ``valid`` is not given; 0 = none.

    Example:
        >>> data = LabelledText(train="reviews.tsv", labels=("bad", "good", "mixed"))
        >>> data.declare()["label"].vocab
        3
    """

    def __init__(
        self,
        *,
        train: Files,
        valid: Files | None = None,
        test: Files | None = None,
        header: tuple[str, ...] | None = None,
        text: str | None = None,
        label: str | None = None,
        labels: tuple[str, ...] | None = None,
        answer: Literal["one", "several", "number"] = "one",
        separator: str = "|",
        tokenizer: Build[Tokenizer] = BPE,
        length: Count = 256,
        on_overflow: Literal["error", "truncate", "split"] = "truncate",
        on_bad_row: BadRows = "error",
        hold_out: Share = 0.05,
    ):
        if labels is not None and (len(labels) < 2 or len(set(labels)) < len(labels)):
            raise ValueError(f"labels must be at least two different names, not {list(labels)}")
        if labels is not None and answer == "number":
            raise ValueError("labels names classes, but answer is number: leave one of them out")
        if not separator:
            raise ValueError("separator must not be empty: it stands between the classes of a row")
        super().__init__(train, valid, test, tokenizer, length, hold_out, on_bad_row, on_overflow)
        self.header = None if header is None else tuple(header)
        self.text, self.label, self.labels = text, label, None if labels is None else tuple(labels)
        self.answer, self.separator = answer, separator

    def answers(self) -> dict[str, Answer]:
        return {"label": Answer({"one": "label", "several": "labels", "number": "number"}[self.answer], self.labels)}

    def rows(self, cursors: list[Cursor]) -> Iterator[Row]:
        wanted = {"text": Wanted(self.text, TEXT), "label": Wanted(self.label, LABEL)}
        for row in tables(cursors[0], wanted, self.header):
            if row.cells:
                label = row.cells["label"].strip()
                if self.answer == "several":
                    label = "\t".join(part.strip() for part in label.replace(self.separator, "\t").split("\t") if part.strip())
                row = row._replace(cells={"text": row.cells["text"], "label": label})
            yield row
