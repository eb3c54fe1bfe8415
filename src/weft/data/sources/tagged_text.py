"""Tagged text: a class for each word, in columns as CoNLL's shared tasks write them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import partial
from typing import Literal

from weft.core.contracts import Tokenizer
from weft.core.options import Count, File, Natural, Share
from weft.core.registry import Build, block
from weft.data.sources.parsing import COMMENTS, Cursor, Row, Wanted, is_json_lines, table
from weft.data.sources.text_source import Answer, BadRows, Written
from weft.data.tag_schemes import to_bioes, to_iob1, to_iob2
from weft.data.tokenizers.word import Word

Files = File | list[File]
WORDS, TAGS = Wanted(None, ("tokens", "words"), False), Wanted(None, ("tags", "ner_tags", "labels"), False)
_BLANKS = re.compile(r"[ \t]+")
_SCHEMES = {"iob1": to_iob1, "iob2": to_iob2, "bioes": to_bioes}


@block("tagged-text")
class TaggedText(Written):
    """Sentences with a tag for each word, a line a word: ``EU NNP I-NP I-ORG``, an empty line between sentences.

    Columns are separated by blanks or tabs, and every line of a file has as many as its first; ``-DOCSTART-`` lines are left out,
    and before a sentence lines that begin with ``#`` and a space (counted). JSON lines (``.jsonl``) have a sentence each: a list
    of words (column ``tokens`` or ``words``) and one of tags (``tags``, ``ner_tags`` or ``labels``). Entities may be written in
    IOB1, IOB2 or BIOES; all become ``scheme``. Fields ``text`` and ``tags``.

    Tjong Kim Sang and De Meulder 2003 (CoNLL-2003), https://arxiv.org/abs/cs/0306050

    Args:
        train: UTF-8 files.
        valid: The same for validation; without it, training sentences are held out.
        test: The same for the final evaluation.
        word: Number of the column of words, counted from 0.
        tag: Number of the column of tags, counted from 0; None = the last.
        scheme: How entities are written for the network; none = tags are taken as they are (parts of speech).
        tokenizer: How each word becomes ids; a tag belongs to the first of them. Trained on the training sentences.
        length: Most tokens of a sentence.
        on_overflow: What happens to longer ones: split into rows, truncate (counted), or error.
        on_bad_row: What happens to a sentence with a line that cannot be read: error, or skip (counted).
        hold_out: Share of the training sentences that is held out where ``valid`` is not given; 0 = none.

    Example:
        >>> data = TaggedText(train="train.conll")
        >>> data.declare()["tags"].space
        'text'
    """

    in_words = ("text",)

    def __init__(
        self,
        *,
        train: Files,
        valid: Files | None = None,
        test: Files | None = None,
        word: Natural = 0,
        tag: Natural | None = None,
        scheme: Literal["iob1", "iob2", "bioes"] | None = "iob2",
        tokenizer: Build[Tokenizer] = partial(Word, at="spaces"),
        length: Count = 256,
        on_overflow: Literal["error", "truncate", "split"] = "split",
        on_bad_row: BadRows = "error",
        hold_out: Share = 0.05,
    ):
        super().__init__(train, valid, test, tokenizer, length, hold_out, on_bad_row, on_overflow)
        self.word, self.tag, self.scheme = word, tag, scheme

    def answers(self) -> dict[str, Answer]:
        return {"tags": Answer("tags", over="text")}

    def rows(self, cursors: list[Cursor]) -> Iterator[Row]:
        (cursor,) = cursors
        for file in cursor.each_file():
            if is_json_lines(file):
                yield from map(self._listed, table(cursor, {"text": WORDS, "tags": TAGS}))
                continue
            words: list[str] = []
            tags: list[str] = []
            first, wrong, width = 0, "", _width(file)
            for line, problem in cursor.lines():
                cells = [cell for cell in _BLANKS.split(line) if cell]
                if not cells:
                    if first:
                        yield self._sentence(cursor.file, first, words, tags, wrong)
                    words, tags, first, wrong = [], [], 0, ""
                elif cells[0] == "-DOCSTART-":
                    continue
                elif not first and cells[0][0] == "#" and (len(cells) == 1 or cells[0] == "#"):
                    cursor.counts[COMMENTS] += 1
                else:
                    first = first or cursor.line
                    problem = problem or self._too_few(cells) or self._uneven(cells, width)
                    if problem:
                        wrong = wrong or f"line {cursor.line}: {problem}"
                    else:
                        words.append(cells[self.word])
                        tags.append(cells[-1 if self.tag is None else self.tag])
            if first:
                yield self._sentence(cursor.file, first, words, tags, wrong)

    def _too_few(self, cells: list[str]) -> str:
        if len(cells) > max(1, self.word, self.tag or 0):
            return ""
        tag = "the last" if self.tag is None else self.tag
        return f"{len(cells)} columns, but word is column {self.word} and tag {tag} (counted from 0)"

    def _uneven(self, cells: list[str], width: int) -> str:
        return "" if len(cells) == width else f"{len(cells)} columns, but the first line has {width}"

    def _listed(self, row: Row) -> Row:
        """A row whose words and tags are lists."""
        if not row.cells or row.problem:
            return row
        words, tags = (row.cells[name].split("\t") if row.cells[name] else [] for name in ("text", "tags"))
        wrong = "" if len(words) == len(tags) else f"{len(words)} words, but {len(tags)} tags"
        if bad := [word for word in [*words, *tags] if not word or " " in word]:
            wrong = wrong or f"a word or tag is empty or has a blank in it: {bad[0]!r}"
        return self._sentence(row.file, row.line, words, tags, wrong)

    def _sentence(self, file: str, first: int, words: list[str], tags: list[str], wrong: str) -> Row:
        if not wrong and self.scheme is not None:
            try:
                tags = _SCHEMES[self.scheme](tags)
            except ValueError as error:
                wrong = f"{error} (for tags that are no entities set scheme: null)"
        return Row(file, first, {"text": " ".join(words), "tags": " ".join(tags)}, wrong)


def _width(file: str) -> int:
    """How many columns the first line of a sentence has."""
    for line, _ in Cursor([file]).lines():
        cells = [cell for cell in _BLANKS.split(line) if cell]
        if cells and cells[0] != "-DOCSTART-" and cells[0] != "#":
            return len(cells)
    return 0
