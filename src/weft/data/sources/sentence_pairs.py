"""Sentence pairs: a table with two columns of texts and a column of answers."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

from weft.core.contracts import Tokenizer
from weft.core.options import Count, File, Share
from weft.core.registry import Build, block
from weft.data.sources.parsing import Cursor, Row, Wanted, tables
from weft.data.sources.text_source import Answer, BadRows, Overflow, Written
from weft.data.tokenizers.bpe import BPE

FIRST = ("first", "sentence1", "text1", "premise", "question1", "a")
SECOND = ("second", "sentence2", "text2", "hypothesis", "question2", "b")
LABEL = ("label", "class", "gold_label", "score", "similarity", "target")
Files = File | list[File]


@block("sentence-pairs")
class SentencePairs(Written):
    """Two texts with a class or a number: paraphrase, entailment, similarity.

    From TSV, CSV or JSONL, by the file's ending. Rows with an empty side are dropped, texts of more than ``length`` tokens cut;
    both are counted. Fields ``first``, ``second`` and ``label``.

    Args:
        train: UTF-8 tables.
        valid: The same for validation; without it, training rows are held out.
        test: The same for the final evaluation.
        header: The names of the columns, for files whose first line is already a row; None = the first line has them.
        first: The column of first texts; None = the first that has a usual name (sentence1, premise, question1, ...).
        second: The column of second texts; None = the first that has a usual name (sentence2, hypothesis, question2, ...).
        label: The column of answers; None = the first that has a usual name (label, class, score, ...).
        labels: The classes, in the order of their numbers; None = those of the training file, sorted.
        answer: What a row has: one class, or a number.
        tokenizer: How text becomes ids; trained on the training rows.
        length: Most tokens of each text.
        on_overflow: What happens to longer ones: truncate (counted) or error.
        on_bad_row: What happens to a row that cannot be read, or whose class training does not know: error, or skip (counted).
        hold_out: Share of the training rows that is held out where ``valid`` is not given; 0 = none.

    Example:
        >>> list(SentencePairs(train="pairs.tsv").declare().fields)
        ['first', 'second', 'label']
    """

    by, generated = "first", "first"

    compared = ("first", "second")

    def __init__(
        self,
        *,
        train: Files,
        valid: Files | None = None,
        test: Files | None = None,
        header: tuple[str, ...] | None = None,
        first: str | None = None,
        second: str | None = None,
        label: str | None = None,
        labels: tuple[str, ...] | None = None,
        answer: Literal["one", "number"] = "one",
        tokenizer: Build[Tokenizer] = BPE,
        length: Count = 256,
        on_overflow: Overflow = "truncate",
        on_bad_row: BadRows = "error",
        hold_out: Share = 0.05,
    ):
        super().__init__(train, valid, test, tokenizer, length, hold_out, on_bad_row, on_overflow)
        self.header = None if header is None else tuple(header)
        self.first, self.second, self.label = first, second, label
        self.labels, self.answer = None if labels is None else tuple(labels), answer

    def texts(self) -> dict[str, str]:
        return {"first": "text", "second": "text"}

    def answers(self) -> dict[str, Answer]:
        return {"label": Answer({"one": "label", "number": "number"}[self.answer], self.labels)}

    def rows(self, cursors: list[Cursor]) -> Iterator[Row]:
        wanted = {
            "first": Wanted(self.first, FIRST),
            "second": Wanted(self.second, SECOND),
            "label": Wanted(self.label, LABEL),
        }
        for row in tables(cursors[0], wanted, self.header):
            yield row._replace(cells={name: cell.strip() for name, cell in row.cells.items()})
