"""From the cells of rows to columns of numbers, and from a row's numbers to an example.

A field becomes one or more plain columns: numbers (one a row) or lists of numbers. A text has its ids and, where it needs them,
the places where its words begin (``/words``) and its spelling (``/letters``: the letters' ids of each token, then a 0).
Several texts of a row, which a cell has with tabs between them, are the ids of all and how many each has (``/sizes``). A span is
a list of two numbers, its first and its last token, or of none.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from itertools import chain
from typing import Any

import numpy as np

from weft.core.contracts import Codec, Tokenizer
from weft.core.example import MarkedIds, Sequences, Targets
from weft.core.fields import Field, Info
from weft.data.ragged_array import Lists
from weft.data.sources.image import read_image
from weft.data.tokenizers.word_cache import Recall

START = "start"
"""The cell that says at which character of the text the answer of a span begins; of several answers, with tabs between them."""
Columns = dict[str, np.ndarray | Lists]
"""Rows as columns, by the columns' names: a number for each row, or a list of them."""
Values = dict[str, Any]
"""One row: a number or an array for each column."""


class BadCell(ValueError):
    """A cell that cannot be understood. The message says why."""


def columns_of(field: Field) -> dict[str, str]:
    """The names of a field's columns and what they hold: ``lists``, ``whole`` (numbers) or ``real``."""
    if field.kind == "text":
        words = {f"{field.name}/words": "lists"} if field.words else {}
        return {field.name: "lists"} | words | ({f"{field.name}/letters": "lists"} if field.letters else {})
    if field.kind == "texts":
        sizes = {f"{field.name}/sizes": "lists"}
        return {field.name: "lists"} | sizes | ({f"{field.name}/letters": "lists"} if field.letters else {})
    return {field.name: {"label": "whole", "number": "real"}.get(field.kind, "lists")}


def counted_columns(field: Field) -> list[str]:
    """Of a field of text, the columns whose lengths objectives are told: its ids and, of several texts, how many they are."""
    return [field.name] if field.kind == "text" else [field.name, f"{field.name}/sizes"]


# ---------------------------------------------------------------------------------------------------------- rows to columns


def encode(codec: Codec, rows: Sequence[Mapping[str, str]], recall: Mapping[str, Recall] | None = None) -> Columns:
    """The columns of rows. A cell that is not there (an input without its answer) counts as class 0.

    Args:
        codec: Fields and tokenizers.
        rows: Cells by the names of fields.
        recall: By id space, for many rows of the same texts.
    """
    columns: Columns = {}
    for field in codec.info.fields.values():
        if field.kind == "image":
            continue  # read from its file when it is needed
        if field.kind == "texts":
            columns |= _several(field, codec.tokenizers[field.space], [row.get(field.name, "") for row in rows], recall)
            continue
        if field.kind == "span":
            columns |= _spans(codec, field, rows)
            continue
        if field.kind != "text":
            columns[field.name] = _answers(field, rows)
            continue
        texts, tokenizer = [row.get(field.name, "") for row in rows], codec.tokenizers[field.space]
        if field.words:
            columns |= _words(field, tokenizer, list(map(words_in, texts)))
        else:
            columns[field.name] = recall[field.space](texts) if recall else Lists.of(tokenizer.encode_batch(texts))
        if field.letters:
            spelled = [_spelled(field, tokenizer, words_in(text) if field.words else [text]) for text in texts]
            columns[f"{field.name}/letters"] = Lists.of(spelled)
    return columns


def _several(field: Field, tokenizer: Tokenizer, cells: list[str], recall: Mapping[str, Recall] | None) -> Columns:
    """Ids of all texts of a row, each encoded by itself, and how many each has."""
    texts = [cell.split("\t") for cell in cells]
    flat = list(chain.from_iterable(texts))
    ids = recall[field.space](flat) if recall else Lists.of(tokenizer.encode_batch(flat))
    number = np.fromiter(map(len, texts), np.int64, len(texts))
    first = np.cumsum(number) - number
    total = np.add.reduceat(ids.sizes, first) if len(texts) else number
    made: Columns = {field.name: Lists(ids.flat, total), f"{field.name}/sizes": Lists(ids.sizes.astype(np.uint32), number)}
    if field.letters:
        made[f"{field.name}/letters"] = Lists.of([_spelled(field, tokenizer, parts) for parts in texts])
    return made


def words_in(text: str) -> list[str]:
    """The words of a text that is given as words, with blanks between them; an empty one is an unknown word."""
    return [word for word in text.split(" ") if word] or [""]


def _words(field: Field, tokenizer: Tokenizer, texts: list[list[str]]) -> Columns:
    """Ids of texts that are given as words, each encoded by itself, and where each word begins."""
    different = list(dict.fromkeys(chain.from_iterable(texts)))
    encoded = dict(zip(different, tokenizer.encode_batch(different), strict=True))
    if without := [word for word, ids in encoded.items() if not ids]:  # every word has a place, also one of unknown signs alone
        if field.special.unk < 0:
            raise BadCell(f"the word {without[0]!r} has no token, and the vocabulary has none for what is unknown")
        encoded.update((word, [field.special.unk]) for word in without)
    ids, starts = [], []
    for words in texts:
        parts = [encoded[word] for word in words]
        ids.append(list(chain.from_iterable(parts)))
        sizes = np.fromiter(map(len, parts), np.int64, len(parts))
        starts.append(np.cumsum(sizes) - sizes)
    return {field.name: Lists.of(ids), f"{field.name}/words": Lists.join(starts)}


def _spelled(field: Field, tokenizer: Tokenizer, parts: list[str]) -> list[int]:
    nothing = [[field.special.unk]] if field.words else []
    return [letter for part in parts for letters in tokenizer.spell(part) or nothing for letter in (*letters, 0)]


def _answers(field: Field, rows: Sequence[Mapping[str, str]]) -> np.ndarray | Lists:
    cells = [row.get(field.name) for row in rows]
    if field.kind == "number":
        return np.array([_number(field, cell) for cell in cells], np.float64)
    known = {name: number for number, name in enumerate(field.labels)}
    if field.kind == "label":
        return np.array([0 if cell is None else _class(field, known, cell) for cell in cells], np.uint32)
    if field.kind == "labels":
        return Lists.of([sorted({_class(field, known, part) for part in cell.split("\t")}) if cell else [] for cell in cells])
    return Lists.of([_tags(field, known, cell, row[field.space]) for cell, row in zip(cells, rows, strict=True)])


def _spans(codec: Codec, field: Field, rows: Sequence[Mapping[str, str]]) -> Columns:
    """The tokens that each row's first answer touches; and whether they are more than the answer (``/widened``, not kept)."""
    tokenizer = codec.tokenizers[codec.info[field.space].space]
    known: dict[str, np.ndarray] = {}
    spans: list[list[int]] = []
    widened: list[bool] = []
    for row in rows:
        answer, start = (row.get(cell, "").split("\t")[0] for cell in (field.name, START))
        if not answer or not start:
            spans.append([])
            widened.append(False)
            continue
        text = row[field.space]
        if text not in known:
            known[text] = np.array(tokenizer.offsets(text), np.int64).reshape(-1, 2)
        first, last = int(start), int(start) + len(answer)
        inside = np.flatnonzero((known[text][:, 1] > first) & (known[text][:, 0] < last))
        if not len(inside):
            raise BadCell(f"the answer {answer[:80]!r} at character {first} has no token of its own")
        spans.append([int(inside[0]), int(inside[-1])])
        begin, end = int(known[text][inside[0], 0]), int(known[text][inside[-1], 1])
        widened.append(text[begin:end].strip() != text[first:last].strip())
    return {field.name: Lists.of(spans), f"{field.name}/widened": np.array(widened, bool)}


def _number(field: Field, cell: str | None) -> float:
    try:
        number = 0.0 if cell is None else float(cell)
    except ValueError:
        number = math.nan
    if not math.isfinite(number):
        raise BadCell(f"the column {field.name!r} must be a number, not {cell!r}")
    return number


def _class(field: Field, known: Mapping[str, int], name: str) -> int:
    if (number := known.get(name)) is None:
        shown = ", ".join(field.labels[:20]) + (", ..." if len(field.labels) > 20 else "")
        raise BadCell(f"the {field.kind.rstrip('s')} {name!r} is unknown; known are: {shown}")
    return number


def _tags(field: Field, known: Mapping[str, int], cell: str | None, text: str) -> list[int]:
    words = text.count(" ") + 1
    tags = [_class(field, known, tag) for tag in cell.split(" ")] if cell else [0] * words
    if len(tags) != words:
        raise BadCell(f"{words} words, but {len(tags)} tags")
    return tags


def rows_of(columns: Columns) -> list[Values]:
    """The rows of columns."""
    lists = [column.rows() if isinstance(column, Lists) else column for column in columns.values()]
    return [dict(zip(columns, row, strict=True)) for row in zip(*lists, strict=True)]


def columns_from(info: Info, rows: Sequence[Values]) -> Columns:
    """The columns of rows: what ``rows_of`` takes apart."""
    kinds = {name: holds for field in info.fields.values() for name, holds in columns_of(field).items()}
    return {
        name: Lists.join([row[name] for row in rows]) if holds == "lists" else np.array([row[name] for row in rows])
        for name, holds in kinds.items()
    }


# -------------------------------------------------------------------------------------------------------- rows that are long


def shorten(info: Info, values: Values) -> tuple[Values, int]:
    """The row with no text longer than its field says, and how many tokens were lost."""
    lost = 0
    for field in info.tokenized():
        if field.kind == "texts":
            short, over = _shorten_each(values, field)
            values, lost = values | short, lost + over
            continue
        size, most = len(values[field.name]), field.length
        if field.max_words and len(begins := values[f"{field.name}/words"]) > field.max_words:
            most = min(most, int(begins[field.max_words]))
        if size > most:
            lost += size - most
            values = values | cut(info, values, field, 0, most)
    return values, lost


def longest(values: Values, field: Field) -> int:
    """The tokens of a row's text, or of the longest of its texts."""
    return len(values[field.name]) if field.kind == "text" else int(values[f"{field.name}/sizes"].max(initial=0))


def _shorten_each(values: Values, field: Field) -> tuple[Values, int]:
    """The same for each of several texts."""
    sizes = np.asarray(values[f"{field.name}/sizes"], np.int64)
    kept = np.minimum(sizes, field.length)
    if (kept == sizes).all():
        return {}, 0
    begin = np.repeat(np.cumsum(sizes) - sizes, sizes)
    stays = np.arange(len(begin)) - begin < field.length
    made: Values = {field.name: values[field.name][stays], f"{field.name}/sizes": kept.astype(np.uint32)}
    if field.letters:
        spelled = np.asarray(values[f"{field.name}/letters"])
        token = np.cumsum(spelled == 0) - (spelled == 0)
        made[f"{field.name}/letters"] = spelled[stays[token]]
    return made, int((sizes - kept).sum())


def split(info: Info, values: Values, field: Field) -> tuple[list[Values], int]:
    """The row as several, none with a longer text than its field says; and how many tokens were lost.

    Texts that are given as words are cut between words. Only the end of a word that is itself too long is lost.
    """
    size, length = len(values[field.name]), field.length
    begins = np.asarray(values[f"{field.name}/words"], np.int64) if field.words else np.arange(size)
    begins = np.append(begins, size)
    pieces: list[Values] = []
    kept = start = 0
    while start < size:
        fits = int(begins[np.searchsorted(begins, start + length, "right") - 1])
        after = fits if fits > start else int(begins[np.searchsorted(begins, start, "right")])
        stop = min(after, start + length)
        pieces.append(values | cut(info, values, field, start, stop))
        kept += stop - start
        start = after
    return pieces, size - kept


def cut(info: Info, values: Values, field: Field, start: int, stop: int) -> Values:
    """Tokens ``start`` to ``stop`` of a text, with the words and tags that begin there and the letters that spell them.

    A span that is not whole between them is none.
    """
    made: Values = {field.name: values[field.name][start:stop]}
    for other in spans_of(info, field):
        span = values[other]
        made[other] = span - start if len(span) and start <= span[0] and span[-1] < stop else span[:0]
    if field.words:
        first, last = words_between(values, field, start, stop)
        made[f"{field.name}/words"] = values[f"{field.name}/words"][first:last] - start
        for other in tags_of(info, field):
            made[other] = values[other][first:last]
    if field.letters:
        spelled = values[f"{field.name}/letters"]
        ends = np.concatenate([[0], np.flatnonzero(spelled == 0) + 1])
        made[f"{field.name}/letters"] = spelled[ends[start] : ends[min(stop, len(ends) - 1)]]
    return made


def words_between(values: Values, field: Field, start: int, stop: int) -> tuple[int, int]:
    """The first word that begins at token ``start`` or later, and the first at ``stop`` or later."""
    first, last = np.searchsorted(values[f"{field.name}/words"], [start, stop])
    return int(first), int(last)


def tags_of(info: Info, field: Field) -> list[str]:
    """The fields that have a tag for each word of this text."""
    return [other.name for other in info.fields.values() if other.kind == "tags" and other.space == field.name]


def spans_of(info: Info, field: Field) -> list[str]:
    """The fields that are a span of this text."""
    return [other.name for other in info.fields.values() if other.kind == "span" and other.space == field.name]


# ------------------------------------------------------------------------------------------------------------------ examples


def assemble(info: Info, values: Mapping[str, Any]) -> dict[str, Any]:
    """An example from a row's numbers."""
    example: dict[str, Any] = {}
    for field in info.fields.values():
        if field.kind == "image":
            continue
        value = values[field.name]
        if field.kind == "text":
            ids = np.array(value, np.int64)  # a copy: an objective that writes into its example does not write into the corpus
            marks = {"letters": _square(values[f"{field.name}/letters"], len(ids))} if field.letters else {}
            if info.marks_words(field):
                marks["word"] = words_of(values[f"{field.name}/words"], len(ids))
            example[field.name] = MarkedIds(ids, marks) if marks else ids
        elif field.kind == "texts":
            example[field.name] = _apart(field, values)
        elif field.kind == "tags":
            words = np.array(values[f"{field.space}/words"], np.int64)
            example[field.name] = Targets(field.space, words, np.array(value, np.int64))
        elif field.kind == "span":
            example[field.name] = np.array(value, np.int64)
        elif field.kind == "labels":
            example[field.name] = np.isin(np.arange(field.vocab), value).astype(np.float32)
        else:
            example[field.name] = float(value) if field.kind == "number" else int(value)
    return example


def _apart(field: Field, values: Mapping[str, Any]) -> Sequences:
    """Each of a row's texts by itself."""
    ids = np.array(values[field.name], np.int64)
    ends = np.cumsum(values[f"{field.name}/sizes"], dtype=np.int64).tolist()
    whole = MarkedIds(ids, {"letters": _square(values[f"{field.name}/letters"], len(ids))}) if field.letters else ids
    return Sequences(tuple(whole[start:stop] for start, stop in zip([0, *ends], ends, strict=False)))


def words_of(starts: np.ndarray, tokens: int) -> np.ndarray:
    """The number of the word that each token is of, counted from 1.

    >>> words_of(np.array([0, 1, 4]), 5)
    array([1, 2, 2, 2, 3])
    """
    return np.searchsorted(np.asarray(starts, np.int64), np.arange(tokens), "right")


def _square(spelled: np.ndarray, tokens: int) -> np.ndarray:
    """Letters of each token, ended by a 0, as rows of a matrix padded with 0."""
    ends = np.flatnonzero(spelled == 0)
    sizes = np.diff(ends, prepend=-1) - 1
    matrix = np.zeros((tokens, max(1, int(sizes.max(initial=0)))), np.int64)
    real = np.arange(matrix.shape[1])[None] < sizes[:, None]
    matrix[real] = spelled[spelled != 0]
    return matrix


def example_of(codec: Codec, cells: Mapping[str, str], cut: Callable[[int], None] | None = None) -> dict[str, Any]:
    """The example of a row's cells, as training would have made it; answers that are not there are class 0. The cell of an image
    is its file. ``cut`` hears how many tokens are lost where a text is longer than it may be."""
    (values,) = rows_of(encode(codec, [cells])) or [{}]
    images = {field.name: read_image(cells[field.name], field) for field in codec.info.images()}
    short, lost = shorten(codec.info, values)
    if lost and cut is not None:
        cut(lost)
    return assemble(codec.info, short) | images
