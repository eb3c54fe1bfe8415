"""A text per example."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from itertools import chain
from typing import TYPE_CHECKING, Any

import numpy as np

from weft.core.example import MarkedIds
from weft.core.fields.base import (
    OFFSETS,
    Columns,
    Encoding,
    InvalidCell,
    StoredColumn,
    Values,
    field_kind,
    join_cell,
)
from weft.core.fields.texts import TextsField
from weft.core.fields.tokenized import TokenizedField
from weft.core.ragged_array import RaggedArray

if TYPE_CHECKING:
    from weft.core.contracts import Tokenizer
    from weft.core.fields.info import Info, SyntheticSizes


@field_kind("text")
@dataclass(frozen=True)
class TextField(TokenizedField):
    """A text: ids of a vocabulary, with marks (``MarkedIds``) where tokens carry more.

    Stored as its ids and, where needed, the offsets of its words (``/words``) and its characters (``/characters``: the character
    ids of each token, terminated by 0).

    Args:
        words: Whether the text is split into words by spaces, each of which may have a tag; without tags, each token carries the
            index of its word (the mark ``word``, from 1; 0 for special tokens).
        max_words: Upper bound of the number of words of such a text; 0 = bounded by ``max_length`` alone.

    See ``TokenizedField`` for the other options.

    Example:
        >>> field = TextField("text", vocab=100, max_length=8)
        >>> field.describe(), field.outputs
        ('text, up to 100 ids', 100)
    """

    words: bool = False
    max_words: int = 0

    def describe(self) -> str:
        return f"text, up to {self.vocab:,} ids"

    def several(self, name: str) -> TextsField:
        """The field of several such texts per example."""
        options: dict[str, Any] = {f.name: getattr(self, f.name) for f in fields(TextsField)}
        return TextsField(**{**options, "name": name})

    def marks_words(self, info: Info) -> bool:
        """Whether tokens carry the index of their word: the text is split into words, and no tags locate them."""
        return self.words and not info.tags_of(self)

    def synthetic(self, rng: np.random.Generator, sizes: SyntheticSizes) -> np.ndarray | MarkedIds:
        return self.synthetic_text(rng, sizes.tokens[self.name], self.marks_words(sizes.info))

    def lengths(self, value: np.ndarray | MarkedIds) -> dict[str, int]:
        return {self.name: len(value)}

    # ------------------------------------------------------------------------------------------------ prepared data

    def columns(self) -> dict[str, StoredColumn]:
        words = {f"{self.name}/words": StoredColumn(OFFSETS)} if self.words else {}
        return {self.name: self.id_column()} | words | self.character_columns()

    def encode(self, rows: Sequence[Mapping[str, str]], encoding: Encoding) -> Columns:
        texts, tokenizer = [row.get(self.name, "") for row in rows], encoding.tokenizers[self.space]
        found: Columns = {}
        if self.words:
            found |= self._encode_words(tokenizer, list(map(split_words, texts)))
        else:
            found[self.name] = encoding.ids(self.space, texts)
        if self.characters:
            unknown = [[self.special.unk]] if self.words else []
            spelled = [self.character_ids(tokenizer, split_words(text) if self.words else [text], unknown) for text in texts]
            found[f"{self.name}/characters"] = RaggedArray.of(spelled)
        return found

    def _encode_words(self, tokenizer: Tokenizer, texts: list[list[str]]) -> Columns:
        """Ids of pretokenized texts, each word encoded separately but with the space before it where its tokens include that,
        and the offset of each word."""
        prefix = tokenizer.word_prefix
        texts = [[words[0], *(prefix + word for word in words[1:])] for words in texts] if prefix else texts
        distinct = list(dict.fromkeys(chain.from_iterable(texts)))
        encoded = dict(zip(distinct, tokenizer.encode_batch(distinct), strict=True))
        if without := [word for word, ids in encoded.items() if not ids]:  # every word needs a token
            if self.special.unk < 0:
                raise InvalidCell(f"the word {without[0]!r} has no token, and the vocabulary has no <unk>")
            encoded.update((word, [self.special.unk]) for word in without)
        ids, starts = [], []
        for words in texts:
            parts = [encoded[word] for word in words]
            ids.append(list(chain.from_iterable(parts)))
            sizes = np.fromiter(map(len, parts), np.int64, len(parts))
            starts.append(np.cumsum(sizes) - sizes)
        return {self.name: RaggedArray.of(ids), f"{self.name}/words": RaggedArray.concatenate(starts)}

    def assemble(self, values: Mapping[str, Any], info: Info) -> np.ndarray | MarkedIds:
        ids = np.array(values[self.name], np.int64)  # a copy: objectives may modify their example
        marks = self.with_characters(ids, values)
        if self.marks_words(info):
            marks["word"] = word_indices(values[f"{self.name}/words"], len(ids))
        return MarkedIds(ids, marks) if marks else ids

    # ------------------------------------------------------------------------------------------------ texts too long

    def token_counts(self, columns: Columns) -> np.ndarray:
        column = columns[self.name]
        assert isinstance(column, RaggedArray)
        return column.sizes

    def longest(self, values: Values) -> int:
        return len(values[self.name])

    def truncate(self, info: Info, values: Values) -> tuple[Values, int]:
        size, limit = len(values[self.name]), self.max_length
        if self.max_words and len(starts := values[f"{self.name}/words"]) > self.max_words:
            limit = min(limit, int(starts[self.max_words]))
        return (self.part(info, values, 0, limit), size - limit) if size > limit else ({}, 0)

    def split(self, info: Info, values: Values) -> tuple[list[Values], int]:
        """Split a row into several within the maximum length; return them and the number of tokens removed.

        Pretokenized texts are split between words; only the end of a word that is itself too long is removed.
        """
        size, length = len(values[self.name]), self.max_length
        starts = np.asarray(values[f"{self.name}/words"], np.int64) if self.words else np.arange(size)
        starts = np.append(starts, size)
        pieces: list[Values] = []
        kept = start = 0
        while start < size:
            fits = int(starts[np.searchsorted(starts, start + length, "right") - 1])
            after = fits if fits > start else int(starts[np.searchsorted(starts, start, "right")])
            stop = min(after, start + length)
            pieces.append(values | self.part(info, values, start, stop))
            kept += stop - start
            start = after
        return pieces, size - kept

    def part(self, info: Info, values: Values, start: int, stop: int) -> Values:
        """Tokens ``start`` to ``stop`` of a row, with the words that start there, their characters, and what annotates them."""
        piece: Values = {self.name: values[self.name][start:stop]}
        for other in info.annotations(self):
            piece |= other.cut(values, self, start, stop)
        if self.words:
            first, last = self.words_between(values, start, stop)
            piece[f"{self.name}/words"] = values[f"{self.name}/words"][first:last] - start
        if self.characters:
            characters = values[f"{self.name}/characters"]
            ends = np.concatenate([[0], np.flatnonzero(characters == 0) + 1])
            piece[f"{self.name}/characters"] = characters[ends[start] : ends[min(stop, len(ends) - 1)]]
        return piece

    def words_between(self, values: Values, start: int, stop: int) -> tuple[int, int]:
        """The first word that starts at token ``start`` or later, and the first at ``stop`` or later."""
        first, last = np.searchsorted(values[f"{self.name}/words"], [start, stop])
        return int(first), int(last)

    # ------------------------------------------------------------------------------------------------------- requests

    @property
    def takes_parts(self) -> bool:
        return self.words

    def request_cell(self, value: str | Sequence[str]) -> str:
        cell = join_cell(value, " " if self.words else "\t")
        # as in the files: one space between two words
        return " ".join(word for word in cell.replace("\t", " ").split(" ") if word) if self.words else cell


def split_words(text: str) -> list[str]:
    """Split a pretokenized text at spaces; an empty text is one unknown word."""
    return [word for word in text.split(" ") if word] or [""]


def word_indices(starts: np.ndarray, tokens: int) -> np.ndarray:
    """Return the index of the word of each token, from 1.

    >>> word_indices(np.array([0, 1, 4]), 5)
    array([1, 2, 2, 2, 3])
    """
    return np.searchsorted(np.asarray(starts, np.int64), np.arange(tokens), "right")
