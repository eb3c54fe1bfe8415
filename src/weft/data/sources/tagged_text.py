"""Tagged text: one tag per word, in CoNLL columns or JSON Lines."""

from __future__ import annotations

import re
from collections.abc import Iterator
from copy import copy
from functools import partial
from typing import Literal

from weft.core.contracts import Tokenizer
from weft.core.fields import TagsField
from weft.core.options import Count, File, Fraction, Natural
from weft.core.registry import Build, block
from weft.data.holdout import HoldOut
from weft.data.sources.cursor import Cursor
from weft.data.sources.json_rows import is_json
from weft.data.sources.parsing import COMMENTS, DOCUMENTS, NO_WORDS, ColumnSpec, Layout, ParsedRow, table, table_layout
from weft.data.sources.text_source import BadRows, TextSource
from weft.data.sources.training_scan import TargetSpec
from weft.data.tag_schemes import to_bioes, to_iob1, to_iob2
from weft.data.tokenizers.word import Word

Files = File | list[File]
WORDS, TAGS = ColumnSpec(None, ("tokens", "words"), False), ColumnSpec(None, ("tags", "ner_tags", "labels"), False)
DOCUMENT = "-DOCSTART-"
"""The first column of a line between two documents."""
_BLANKS = re.compile(r"[ \t]+")
_CONLLU_COLUMNS, _FIRST_NUMBER, _NO_WORD = 10, re.compile(r"1|1-\d+|0\.1"), re.compile(r"\d+[-.]\d+")
"""Columns of CoNLL-U, the first of which numbers the words; the number of a first line, and that of a line that is no word."""
_SNIFFED_LINES = 1000
_SCHEMES = {"iob1": to_iob1, "iob2": to_iob2, "bioes": to_bioes}


@block("tagged-text")
class TaggedText(TextSource):
    """Sentences with one tag per word, in CoNLL format: ``EU NNP I-NP I-ORG``, one word per line, an empty line in between.

    Columns are separated by blanks or tabs, and every line has as many as the first. Lines that start with ``-DOCSTART-`` are
    dropped (counted), and in CoNLL-U those of multiword tokens and empty nodes (``1-2``, ``8.1``); nothing else is, unless
    ``comments`` is set. JSON (``.jsonl``, ``.json``) has one sentence per object: a
    list of words (``tokens`` or ``words``) and a list of tags (``tags``, ``ner_tags`` or ``labels``). Entities may be tagged in
    IOB1, IOB2 or BIOES and are converted to ``scheme``. Fields: ``text`` and ``tags``.

    Tjong Kim Sang and De Meulder 2003 (CoNLL-2003), https://arxiv.org/abs/cs/0306050

    Args:
        train: Files.
        valid: Validation files; None = hold out a fraction of the training sentences.
        test: Test files.
        word_column: Index of the column of words, from 0.
        tag_column: Index of the column of tags, from 0; None = the last.
        comments: Whether ``#`` and a blank before a sentence start a comment, as in CoNLL-U; comments are dropped (counted).
            False = ``#`` is a word like any other.
        scheme: Tagging scheme of the model; None = use the tags unchanged (parts of speech).
        tokenizer: Tokenizer of each word; the tag is predicted at its first token. Trained on the training sentences.
        max_length: Maximum number of tokens per sentence.
        on_overflow: What happens to longer sentences: ``split`` into examples, ``truncate`` (counted) or ``error``.
        on_bad_row: What happens to a sentence with a malformed line: ``error``, or ``skip`` (counted).
        validation_fraction: Fraction of the training sentences held out where ``valid`` is None; 0 = no validation.
        fold: Fold that is held out for validation, from 0 (k-fold cross-validation); None = ``validation_fraction``.
        folds: Number of folds.
        split_seed: Seed of the hold-out split; equal texts are on the same side whatever it is.
        encoding: Encoding of the files, by its name in Python: utf-8, latin-1, cp1252, utf-16, gb18030, ...

    Example:
        >>> data = TaggedText(train="train.conll")
        >>> data.declare()["tags"].of
        'text'
    """

    pretokenized = ("text",)

    def __init__(
        self,
        *,
        train: Files,
        valid: Files | None = None,
        test: Files | None = None,
        word_column: Natural = 0,
        tag_column: Natural | None = None,
        comments: bool = False,
        scheme: Literal["iob1", "iob2", "bioes"] | None = "iob2",
        tokenizer: Build[Tokenizer] = partial(Word, split="whitespace"),
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
        self.word_column, self.tag_column, self.comments, self.scheme = word_column, tag_column, comments, scheme

    def target_fields(self) -> dict[str, TargetSpec]:
        return {"tags": TargetSpec(TagsField, over="text")}

    def rows(self, cursors: list[Cursor]) -> Iterator[ParsedRow]:
        (cursor,) = cursors
        for file in cursor.each_file():
            if is_json(file):
                yield from map(self._from_lists, table(cursor, {"text": WORDS, "tags": TAGS}))
            else:
                yield from self._sentences(cursor)

    def inputs(self, cursors: list[Cursor]) -> Iterator[ParsedRow]:
        parser = copy(self)
        parser.scheme, parser.tag_column = None, self.word_column  # the words stand in for tags, which the file may lack
        for file in cursors[0].each_file():
            if is_json(file):
                found = table(cursors[0], {"text": WORDS})
                both = (row._replace(cells={**row.cells, "tags": row.cells["text"]}) if row.cells else row for row in found)
                rows = map(parser._from_lists, both)
            else:
                rows = parser._sentences(cursors[0])
            for row in rows:
                yield row._replace(cells={name: cell for name, cell in row.cells.items() if name == "text"})

    def layout(self, file: str) -> Layout:
        """Return how the rows of a file are written."""
        return table_layout(file) if is_json(file) else "columns"

    def recognizes(self, file: str) -> bool:
        """Return whether the lines up to the first empty one have the same number of columns, two or more."""
        sizes = set[int]()
        for number, (line, _) in enumerate(self.cursor([file]).lines()):
            cells = [cell for cell in _BLANKS.split(line) if cell]
            if (not cells and sizes) or number > _SNIFFED_LINES:
                return len(sizes) == 1 and sizes != {1}
            if cells and cells[0] not in (DOCUMENT, "#"):
                sizes.add(len(cells))
        return False

    def _sentences(self, cursor: Cursor) -> Iterator[ParsedRow]:
        """Parse a CoNLL file."""
        words: list[str] = []
        tags: list[str] = []
        first, first_problem = 0, ""
        columns, numbered = self._columns(cursor)
        for line, problem in cursor.lines():
            cells = [cell for cell in _BLANKS.split(line) if cell]
            if not cells:
                if first:
                    yield self._sentence(cursor.file, first, words, tags, first_problem)
                words, tags, first, first_problem = [], [], 0, ""
            elif cells[0] == DOCUMENT:
                cursor.counts[DOCUMENTS] += 1
            elif not first and self._is_comment(line, cells, columns):
                cursor.counts[COMMENTS] += 1
            elif numbered and _NO_WORD.fullmatch(cells[0]):
                cursor.counts[NO_WORDS] += 1
            else:
                first = first or cursor.line
                problem = problem or self._too_few_columns(cells) or _wrong_column_count(cells, columns)
                if problem:
                    first_problem = first_problem or f"line {cursor.line}: {problem}"
                else:
                    words.append(cells[self.word_column])
                    tags.append(cells[-1 if self.tag_column is None else self.tag_column])
        if first:
            yield self._sentence(cursor.file, first, words, tags, first_problem)

    def _columns(self, cursor: Cursor) -> tuple[int, bool]:
        """Number of columns of the first word of the current file, and whether its lines are numbered, as in CoNLL-U."""
        for line, _ in self.cursor([cursor.file]).lines():
            cells = [cell for cell in _BLANKS.split(line) if cell]
            if cells and cells[0] != DOCUMENT and not self._is_comment(line, cells, 0):
                numbered = len(cells) == _CONLLU_COLUMNS and self.word_column > 0 and _FIRST_NUMBER.fullmatch(cells[0])
                return len(cells), bool(numbered)
        return 0, False

    def _is_comment(self, line: str, cells: list[str], columns: int) -> bool:
        """Whether a line before a sentence is a comment: ``#`` and a blank, or a single word; never if its tabs make columns."""
        marked = self.comments and line.startswith("#") and (cells[0] == "#" or len(cells) == 1)
        return marked and not (columns > 1 and line.count("\t") + 1 == columns)

    def _too_few_columns(self, cells: list[str]) -> str:
        least = 1 if self.tag_column is None else self.tag_column
        if len(cells) > max(self.word_column, least):
            return ""
        tag = "the last" if self.tag_column is None else self.tag_column
        return f"{len(cells)} columns, but word_column is {self.word_column} and tag_column is {tag} (from 0)"

    def _from_lists(self, row: ParsedRow) -> ParsedRow:
        """A row whose words and tags are lists."""
        if not row.cells or row.problem:
            return row
        words, tags = (row.cells[name].split("\t") if row.cells[name] else [] for name in ("text", "tags"))
        problem = "" if len(words) == len(tags) else f"{len(words)} words, but {len(tags)} tags"
        if invalid := [word for word in [*words, *tags] if not word or " " in word]:
            problem = problem or f"a word or tag is empty or contains a space: {invalid[0]!r}"
        return self._sentence(row.file, row.line, words, tags, problem)

    def _sentence(self, file: str, first: int, words: list[str], tags: list[str], problem: str) -> ParsedRow:
        if not problem and self.scheme is not None:
            try:
                tags = _SCHEMES[self.scheme](tags)
            except ValueError as error:
                problem = f"{error}; for tags that are not entities set scheme: null"
        return ParsedRow(file, first, {"text": " ".join(words), "tags": " ".join(tags)}, problem)


def _wrong_column_count(cells: list[str], columns: int) -> str:
    hint = "; if it is a comment, set comments: true" if cells[0] == "#" else ""
    return "" if len(cells) == columns else f"{len(cells)} columns, but the first line has {columns}{hint}"
