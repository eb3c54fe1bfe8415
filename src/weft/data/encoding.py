"""From the cells of a row to an example, and the columns between them.

A field becomes one or more plain columns: numbers (one a row) or lists of numbers. A text has its ids and, where it needs them,
the places where its words begin (``/words``) and its spelling (``/letters``: the letters' ids of each token, then a 0).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from weft.batch import Field, Info, Marked, Picks
from weft.slots import Codec, Tokenizer

Values = list[int] | list[float] | list[list[int]]


class BadCell(ValueError):
    """A cell that cannot be understood. The message says why."""


def columns_of(field: Field) -> dict[str, str]:
    """The names of a field's columns and what they hold: ``lists``, ``whole`` (numbers) or ``real``."""
    if field.kind == "text":
        words = {f"{field.name}/words": "lists"} if field.words else {}
        return {field.name: "lists"} | words | ({f"{field.name}/letters": "lists"} if field.letters else {})
    return {field.name: {"label": "whole", "number": "real"}.get(field.kind, "lists")}


def encode(codec: Codec, rows: Sequence[Mapping[str, str]]) -> list[dict[str, Any]]:
    """The columns' values of each row. A cell that is not there (an input without its answer) counts as class 0."""
    found: list[dict[str, Any]] = [{} for _ in rows]
    for field in codec.info.fields.values():
        if field.kind == "text":
            made = _texts(field, codec.tokenizers[field.space], [row.get(field.name, "") for row in rows])
        else:
            made = ({field.name: _answer(field, row.get(field.name), row)} for row in rows)
        for values, new in zip(found, made, strict=True):
            values.update(new)
    return found


def _texts(field: Field, tokenizer: Tokenizer, texts: list[str]) -> Iterator[dict[str, Any]]:
    pieces = [text.split(" ") for text in texts] if field.words else [[text] for text in texts]
    flat = iter(tokenizer.encode_batch([piece for parts in pieces for piece in parts]))
    for parts in pieces:
        ids: list[int] = []
        starts: list[int] = []
        for _ in parts:
            starts.append(len(ids))
            ids += next(flat) or [field.special.unk] * field.words  # every word has a place, also one without any known sign
        made: dict[str, Any] = {field.name: ids}
        if field.words:
            made[f"{field.name}/words"] = starts
        if field.letters:
            spelled = [letters for part in parts for letters in tokenizer.spell(part) or [[field.special.unk]]]
            made[f"{field.name}/letters"] = [letter for letters in spelled for letter in (*letters, 0)]
        yield made


def _answer(field: Field, cell: str | None, row: Mapping[str, str]) -> Any:
    if field.kind == "label":
        return 0 if cell is None else _class(field, cell)
    if field.kind == "number":
        try:
            return 0.0 if cell is None else float(cell)
        except ValueError:
            raise BadCell(f"the column {field.name!r} must be a number, not {cell!r}") from None
    if field.kind == "labels":
        return sorted({_class(field, part) for part in cell.split("\t")}) if cell else []
    words = row[field.space].split(" ")
    tags = [_class(field, tag) for tag in cell.split(" ")] if cell else [0] * len(words)
    if len(tags) != len(words):
        raise BadCell(f"{len(words)} words, but {len(tags)} tags")
    return tags


def _class(field: Field, name: str) -> int:
    try:
        return field.labels.index(name)
    except ValueError:
        raise BadCell(f"the {field.kind.rstrip('s')} {name!r} is unknown; training has: {', '.join(field.labels)}") from None


def shorten(info: Info, values: dict[str, Any]) -> tuple[dict[str, Any], int]:
    """The values with no text longer than its field says, and how many tokens were lost."""
    lost = 0
    for field in info.texts():
        over = len(values[field.name]) - field.length
        if over > 0:
            lost += over
            values = values | cut(info, values, field, 0, field.length)
    return values, lost


def cut(info: Info, values: Mapping[str, Any], field: Field, start: int, stop: int) -> dict[str, Any]:
    """Tokens ``start`` to ``stop`` of a text, with the words and tags that begin there and the letters that spell them."""
    made: dict[str, Any] = {field.name: values[field.name][start:stop]}
    if field.words:
        begun = [i for i, at in enumerate(values[f"{field.name}/words"]) if start <= at < stop]
        first, last = (begun[0], begun[-1] + 1) if begun else (0, 0)
        made[f"{field.name}/words"] = [at - start for at in values[f"{field.name}/words"][first:last]]
        for other in info.fields.values():
            if other.kind == "tags" and other.space == field.name:
                made[other.name] = values[other.name][first:last]
    if field.letters:
        spelled = values[f"{field.name}/letters"]
        ends = [0, *(i + 1 for i, letter in enumerate(spelled) if letter == 0)]
        made[f"{field.name}/letters"] = spelled[ends[start] : ends[min(stop, len(ends) - 1)]]
    return made


def assemble(info: Info, values: Mapping[str, Any]) -> dict[str, Any]:
    """An example from its columns' values (lists or arrays)."""
    example: dict[str, Any] = {}
    for field in info.fields.values():
        value = values[field.name]
        if field.kind == "text":
            ids = np.asarray(value, np.int64)
            spelled = {"letters": _square(np.asarray(values[f"{field.name}/letters"]), len(ids))} if field.letters else {}
            example[field.name] = Marked(ids, spelled) if spelled else ids
        elif field.kind == "tags":
            words = np.asarray(values[f"{field.space}/words"], np.int64)
            example[field.name] = Picks(field.space, words, np.asarray(value, np.int64))
        elif field.kind == "labels":
            example[field.name] = np.isin(np.arange(field.vocab), np.asarray(value, np.int64)).astype(np.float32)
        else:
            example[field.name] = float(value) if field.kind == "number" else int(value)
    return example


def _square(spelled: np.ndarray, tokens: int) -> np.ndarray:
    """Letters of each token, ended by a 0, as rows of a matrix padded with 0."""
    ends = np.flatnonzero(spelled == 0)
    sizes = np.diff(ends, prepend=-1) - 1
    matrix = np.zeros((tokens, max(1, int(sizes.max(initial=0)))), np.int64)
    real = np.arange(matrix.shape[1])[None] < sizes[:, None]
    matrix[real] = spelled[spelled != 0]
    return matrix


def example_of(codec: Codec, cells: Mapping[str, str]) -> dict[str, Any]:
    """The example of a row's cells, as training would have made it; answers that are not there are class 0."""
    return assemble(codec.info, shorten(codec.info, encode(codec, [cells])[0])[0])
