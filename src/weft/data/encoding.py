"""Encoding: from the cells of rows to columns of numbers, and from the numbers of a row to an example.

A field becomes one or more columns: numbers (one per row) or ragged arrays. A text has its ids and, where needed, the offsets
of its words (``/words``) and its characters (``/characters``: the character ids of each token, terminated by 0). Several texts
of a row, separated by tabs in the cell, are the ids of all and the number of tokens of each (``/sizes``). A span is its first
and its last token, or empty.
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
from weft.core.plain_number import plain_number
from weft.data.ragged_array import RaggedArray
from weft.data.sources.image import read_image
from weft.data.tokenizers.word_cache import WordCache

START = "start"
"""The cell with the character offset of the answer of a span; offsets of several answers are separated by tabs."""
Columns = dict[str, np.ndarray | RaggedArray]
"""Rows as columns, by name: one number per row, or a ragged array."""
Values = dict[str, Any]
"""One row: a number or an array per column."""


CHARACTERS_PER_TOKEN, MIN_TOKENS = 64, 1024
"""A text is cut to 64 characters for each token of its maximum length, and to no less than 65,536, before it is tokenized: the
tokenizer needs about 100 bytes for each character, most of them for tokens that would then be removed."""


class InvalidCell(ValueError):
    """A cell that cannot be encoded; the message gives the reason."""


def columns_of(field: Field) -> dict[str, str]:
    """Return the columns of a field and their type: ``ragged``, ``int`` or ``float``."""
    if field.kind == "text":
        words = {f"{field.name}/words": "ragged"} if field.words else {}
        return {field.name: "ragged"} | words | ({f"{field.name}/characters": "ragged"} if field.characters else {})
    if field.kind == "texts":
        sizes = {f"{field.name}/sizes": "ragged"}
        return {field.name: "ragged"} | sizes | ({f"{field.name}/characters": "ragged"} if field.characters else {})
    return {field.name: {"label": "int", "number": "float"}.get(field.kind, "ragged")}


def counted_columns(field: Field) -> list[str]:
    """Return the columns of a text field whose lengths a dataset exposes: its ids and, for several texts, their number."""
    return [field.name] if field.kind == "text" else [field.name, f"{field.name}/sizes"]


# ---------------------------------------------------------------------------------------------------------- rows to columns


def encode(codec: Codec, rows: Sequence[Mapping[str, str]], caches: Mapping[str, WordCache] | None = None) -> Columns:
    """Encode rows as columns. A missing cell (an input without its label) counts as class 0.

    Args:
        codec: Fields and tokenizers.
        rows: Cells by field name.
        caches: Word caches by id space, to speed up large corpora.
    """
    columns: Columns = {}
    for field in codec.info.fields.values():
        if field.kind == "image":
            continue  # read from its file on demand
        if field.kind == "texts":
            columns |= _encode_lists(field, codec.tokenizers[field.space], [row.get(field.name, "") for row in rows], caches)
            continue
        if field.kind == "span":
            columns |= _encode_spans(codec, field, rows)
            continue
        if field.kind != "text":
            columns[field.name] = _encode_targets(field, rows)
            continue
        texts, tokenizer = [row.get(field.name, "") for row in rows], codec.tokenizers[field.space]
        if field.words:
            columns |= _encode_words(field, tokenizer, list(map(split_words, texts)))
        else:
            columns[field.name] = caches[field.space](texts) if caches else RaggedArray.of(tokenizer.encode_batch(texts))
        if field.characters:
            characters = [_character_ids(field, tokenizer, split_words(text) if field.words else [text]) for text in texts]
            columns[f"{field.name}/characters"] = RaggedArray.of(characters)
    return columns


def _encode_lists(field: Field, tokenizer: Tokenizer, cells: list[str], caches: Mapping[str, WordCache] | None) -> Columns:
    """Ids of all texts of a row, each encoded separately, and the number of tokens of each."""
    texts = [cell.split("\t") for cell in cells]
    flat = list(chain.from_iterable(texts))
    ids = caches[field.space](flat) if caches else RaggedArray.of(tokenizer.encode_batch(flat))
    counts = np.fromiter(map(len, texts), np.int64, len(texts))
    first = np.cumsum(counts) - counts
    total = np.add.reduceat(ids.sizes, first) if len(texts) else counts
    encoded: Columns = {
        field.name: RaggedArray(ids.flat, total),
        f"{field.name}/sizes": RaggedArray(ids.sizes.astype(np.uint32), counts),
    }
    if field.characters:
        encoded[f"{field.name}/characters"] = RaggedArray.of([_character_ids(field, tokenizer, parts) for parts in texts])
    return encoded


def split_words(text: str) -> list[str]:
    """Split a pretokenized text at spaces; an empty text is one unknown word."""
    return [word for word in text.split(" ") if word] or [""]


def _encode_words(field: Field, tokenizer: Tokenizer, texts: list[list[str]]) -> Columns:
    """Ids of pretokenized texts, each word encoded separately but with the space before it where its tokens include that, and
    the offset of each word."""
    prefix = tokenizer.word_prefix
    texts = [[words[0], *(prefix + word for word in words[1:])] for words in texts] if prefix else texts
    distinct = list(dict.fromkeys(chain.from_iterable(texts)))
    encoded = dict(zip(distinct, tokenizer.encode_batch(distinct), strict=True))
    if without := [word for word, ids in encoded.items() if not ids]:  # every word needs a token
        if field.special.unk < 0:
            raise InvalidCell(f"the word {without[0]!r} has no token, and the vocabulary has no <unk>")
        encoded.update((word, [field.special.unk]) for word in without)
    ids, starts = [], []
    for words in texts:
        parts = [encoded[word] for word in words]
        ids.append(list(chain.from_iterable(parts)))
        sizes = np.fromiter(map(len, parts), np.int64, len(parts))
        starts.append(np.cumsum(sizes) - sizes)
    return {field.name: RaggedArray.of(ids), f"{field.name}/words": RaggedArray.concatenate(starts)}


def _character_ids(field: Field, tokenizer: Tokenizer, parts: list[str]) -> list[int]:
    unknown = [[field.special.unk]] if field.words else []
    return [char for part in parts for chars in tokenizer.spell(part) or unknown for char in (*chars, 0)]


def _encode_targets(field: Field, rows: Sequence[Mapping[str, str]]) -> np.ndarray | RaggedArray:
    cells = [row.get(field.name) for row in rows]
    if field.kind == "number":
        return np.array([_number(field, cell) for cell in cells], np.float64)
    known = {name: index for index, name in enumerate(field.labels)}
    if field.kind == "label":
        return np.array([0 if cell is None else _class_id(field, known, cell) for cell in cells], np.uint32)
    if field.kind == "labels":
        return RaggedArray.of(
            [sorted({_class_id(field, known, part) for part in cell.split("\t")}) if cell else [] for cell in cells]
        )
    return RaggedArray.of([_tags(field, known, cell, row[field.space]) for cell, row in zip(cells, rows, strict=True)])


def _encode_spans(codec: Codec, field: Field, rows: Sequence[Mapping[str, str]]) -> Columns:
    """First and last token that overlap the first answer; and whether they cover more than it (``/widened``, not stored)."""
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
            raise InvalidCell(f"no token overlaps the answer {answer[:80]!r} at character {first}")
        spans.append([int(inside[0]), int(inside[-1])])
        begin, end = int(known[text][inside[0], 0]), int(known[text][inside[-1], 1])
        widened.append(text[begin:end].strip() != text[first:last].strip())
    return {field.name: RaggedArray.of(spans), f"{field.name}/widened": np.array(widened, bool)}


def _number(field: Field, cell: str | None) -> float:
    try:
        number = 0.0 if cell is None else plain_number(cell)
    except ValueError:
        number = math.nan
    if not math.isfinite(number):
        raise InvalidCell(f"column {field.name!r} must be a number, not {cell!r}")
    return number


def _class_id(field: Field, known: Mapping[str, int], name: str) -> int:
    if (index := known.get(name)) is None:
        shown = ", ".join(field.labels[:20]) + (", ..." if len(field.labels) > 20 else "")
        raise InvalidCell(f"unknown {field.kind.rstrip('s')} {name!r}; known: {shown}")
    return index


def _tags(field: Field, known: Mapping[str, int], cell: str | None, text: str) -> list[int]:
    words = text.count(" ") + 1
    tags = [_class_id(field, known, tag) for tag in cell.split(" ")] if cell else [0] * words
    if len(tags) != words:
        raise InvalidCell(f"{words} words, but {len(tags)} tags")
    return tags


def rows_of(columns: Columns) -> list[Values]:
    """Return the rows of columns."""
    lists = [column.rows() if isinstance(column, RaggedArray) else column for column in columns.values()]
    return [dict(zip(columns, row, strict=True)) for row in zip(*lists, strict=True)]


def columns_from(info: Info, rows: Sequence[Values]) -> Columns:
    """Return the columns of rows: the inverse of ``rows_of``."""
    types = {name: dtype for field in info.fields.values() for name, dtype in columns_of(field).items()}
    return {
        name: RaggedArray.concatenate([row[name] for row in rows]) if dtype == "ragged" else np.array([row[name] for row in rows])
        for name, dtype in types.items()
    }


# ---------------------------------------------------------------------------------------------------- truncation, splitting


def cut_text(text: str, max_length: int) -> str:
    """Return the part of a text that can have the first ``max_length`` tokens; see ``CHARACTERS_PER_TOKEN``.

    >>> len(cut_text("a" * 100_000, 512)), len(cut_text("a" * 100_000, 2048))
    (65536, 100000)
    """
    return text[: max(max_length, MIN_TOKENS) * CHARACTERS_PER_TOKEN]


def cut_cells(info: Info, cells: Mapping[str, str]) -> Mapping[str, str]:
    """Return the cells of a row with ``cut_text`` of each text; the same object if no text is so long."""
    shorter: dict[str, str] = {}
    for field in info.tokenized():
        text = cells.get(field.name, "")
        parts = text.split("\t") if field.kind == "texts" else [text]
        cut = "\t".join(cut_text(part, field.max_length) for part in parts)
        if len(cut) < len(text):
            shorter[field.name] = cut
    return {**cells, **shorter} if shorter else cells


def truncate(info: Info, values: Values) -> tuple[Values, int]:
    """Truncate the texts of a row to the maximum length of their field; return the row and the number of tokens removed."""
    lost = 0
    for field in info.tokenized():
        if field.kind == "texts":
            truncated, removed = _truncate_each(values, field)
            values, lost = values | truncated, lost + removed
            continue
        size, limit = len(values[field.name]), field.max_length
        if field.max_words and len(starts := values[f"{field.name}/words"]) > field.max_words:
            limit = min(limit, int(starts[field.max_words]))
        if size > limit:
            lost += size - limit
            values = values | cut(info, values, field, 0, limit)
    return values, lost


def longest(values: Values, field: Field) -> int:
    """Return the number of tokens of a row's text, or of the longest of its texts."""
    return len(values[field.name]) if field.kind == "text" else int(values[f"{field.name}/sizes"].max(initial=0))


def _truncate_each(values: Values, field: Field) -> tuple[Values, int]:
    """Truncate each of several texts."""
    sizes = np.asarray(values[f"{field.name}/sizes"], np.int64)
    kept = np.minimum(sizes, field.max_length)
    if (kept == sizes).all():
        return {}, 0
    start = np.repeat(np.cumsum(sizes) - sizes, sizes)
    is_kept = np.arange(len(start)) - start < field.max_length
    truncated: Values = {field.name: values[field.name][is_kept], f"{field.name}/sizes": kept.astype(np.uint32)}
    if field.characters:
        characters = np.asarray(values[f"{field.name}/characters"])
        token = np.cumsum(characters == 0) - (characters == 0)
        truncated[f"{field.name}/characters"] = characters[is_kept[token]]
    return truncated, int((sizes - kept).sum())


def split(info: Info, values: Values, field: Field) -> tuple[list[Values], int]:
    """Split a row into several within the maximum length of the field; return them and the number of tokens removed.

    Pretokenized texts are split between words; only the end of a word that is itself too long is removed.
    """
    size, length = len(values[field.name]), field.max_length
    starts = np.asarray(values[f"{field.name}/words"], np.int64) if field.words else np.arange(size)
    starts = np.append(starts, size)
    pieces: list[Values] = []
    kept = start = 0
    while start < size:
        fits = int(starts[np.searchsorted(starts, start + length, "right") - 1])
        after = fits if fits > start else int(starts[np.searchsorted(starts, start, "right")])
        stop = min(after, start + length)
        pieces.append(values | cut(info, values, field, start, stop))
        kept += stop - start
        start = after
    return pieces, size - kept


def cut(info: Info, values: Values, field: Field, start: int, stop: int) -> Values:
    """Return tokens ``start`` to ``stop`` of a text, with the words and tags that start there and their characters.

    A span that is not completely inside becomes empty.
    """
    piece: Values = {field.name: values[field.name][start:stop]}
    for other in spans_of(info, field):
        span = values[other]
        piece[other] = span - start if len(span) and start <= span[0] and span[-1] < stop else span[:0]
    if field.words:
        first, last = words_between(values, field, start, stop)
        piece[f"{field.name}/words"] = values[f"{field.name}/words"][first:last] - start
        for other in tags_of(info, field):
            piece[other] = values[other][first:last]
    if field.characters:
        characters = values[f"{field.name}/characters"]
        ends = np.concatenate([[0], np.flatnonzero(characters == 0) + 1])
        piece[f"{field.name}/characters"] = characters[ends[start] : ends[min(stop, len(ends) - 1)]]
    return piece


def words_between(values: Values, field: Field, start: int, stop: int) -> tuple[int, int]:
    """Return the first word that starts at token ``start`` or later, and the first at ``stop`` or later."""
    first, last = np.searchsorted(values[f"{field.name}/words"], [start, stop])
    return int(first), int(last)


def tags_of(info: Info, field: Field) -> list[str]:
    """Return the fields that tag the words of this text."""
    return [other.name for other in info.fields.values() if other.kind == "tags" and other.space == field.name]


def spans_of(info: Info, field: Field) -> list[str]:
    """Return the fields that are a span of this text."""
    return [other.name for other in info.fields.values() if other.kind == "span" and other.space == field.name]


# ------------------------------------------------------------------------------------------------------------------ examples


def assemble(info: Info, values: Mapping[str, Any]) -> dict[str, Any]:
    """Build an example from the numbers of a row."""
    example: dict[str, Any] = {}
    for field in info.fields.values():
        if field.kind == "image":
            continue
        value = values[field.name]
        if field.kind == "text":
            ids = np.array(value, np.int64)  # a copy: objectives may modify their example
            marks = {"characters": _character_matrix(values[f"{field.name}/characters"], len(ids))} if field.characters else {}
            if info.marks_words(field):
                marks["word"] = word_indices(values[f"{field.name}/words"], len(ids))
            example[field.name] = MarkedIds(ids, marks) if marks else ids
        elif field.kind == "texts":
            example[field.name] = _sequences(field, values)
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


def _sequences(field: Field, values: Mapping[str, Any]) -> Sequences:
    """The texts of a row as separate sequences."""
    ids = np.array(values[field.name], np.int64)
    ends = np.cumsum(values[f"{field.name}/sizes"], dtype=np.int64).tolist()
    joined = (
        MarkedIds(ids, {"characters": _character_matrix(values[f"{field.name}/characters"], len(ids))})
        if field.characters
        else ids
    )
    return Sequences(tuple(joined[start:stop] for start, stop in zip([0, *ends], ends, strict=False)))


def word_indices(starts: np.ndarray, tokens: int) -> np.ndarray:
    """Return the index of the word of each token, from 1.

    >>> word_indices(np.array([0, 1, 4]), 5)
    array([1, 2, 2, 2, 3])
    """
    return np.searchsorted(np.asarray(starts, np.int64), np.arange(tokens), "right")


def _character_matrix(characters: np.ndarray, tokens: int) -> np.ndarray:
    """The characters of each token, terminated by 0, as a matrix padded with 0."""
    ends = np.flatnonzero(characters == 0)
    sizes = np.diff(ends, prepend=-1) - 1
    matrix = np.zeros((tokens, max(1, int(sizes.max(initial=0)))), np.int64)
    real = np.arange(matrix.shape[1])[None] < sizes[:, None]
    matrix[real] = characters[characters != 0]
    return matrix


def encode_example(codec: Codec, cells: Mapping[str, str], on_truncation: Callable[[int], None] | None = None) -> dict[str, Any]:
    """Encode the cells of a row as a training example. Missing labels are class 0; the cell of an image is its file.

    Args:
        codec: Fields and tokenizers.
        cells: Cells by field name.
        on_truncation: Called with the number of tokens removed from texts that are too long.
    """
    return encode_examples(codec, [cells], on_truncation)[0]


def encode_examples(
    codec: Codec, rows: Sequence[Mapping[str, str]], on_truncation: Callable[[int], None] | None = None
) -> list[dict[str, Any]]:
    """Encode rows as examples, their texts tokenized together. See ``encode_example``."""
    short = [cut_cells(codec.info, cells) for cells in rows]
    encoded = rows_of(encode(codec, short)) or [{}] * len(rows)
    examples, removed = list[dict[str, Any]](), list[int]()
    for cells, cut_row, values in zip(rows, short, encoded, strict=True):
        images = {field.name: read_image(cells[field.name], field) for field in codec.info.images()}
        truncated, lost = truncate(codec.info, values)
        examples.append(assemble(codec.info, truncated) | images)
        removed += [lost] if lost or cut_row is not cells else []
    if on_truncation is not None:
        for lost in removed:
            on_truncation(lost)
    return examples
