"""What a trained run is asked: rows given as texts, as tuples or as dicts, turned into cells by field."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from weft.core.contracts import Codec, ModelsLanguage, Objective
from weft.core.example import CHOICE_LABELS
from weft.core.fields import Field, Info

Asked = str | Sequence[str] | Mapping[str, str | Sequence[str]]
"""A row to be answered: its only text; all its texts in order, or one text with tabs between them; or the texts by field."""


@dataclass(frozen=True)
class Reading:
    """How a row is read: its fields with their tokenizers, and what is asked about it."""

    codec: Codec
    objective: Objective


def is_pair(asked: Asked) -> bool:
    """Whether a row has two texts or more, where one is usual."""
    if isinstance(asked, Mapping):
        return "first" in asked or "second" in asked
    return "\t" in asked if isinstance(asked, str) else isinstance(asked, Sequence) and len(asked) > 1


def wanted(info: Info) -> list[Field]:
    """The fields that a row must have to be answered; one of several texts comes last."""
    fields = [f for f in info.tokenized() or info.images() if f.name != "target"]
    return sorted(fields, key=lambda f: f.kind == "texts")


def read_apart(model: Any, info: Info) -> Field | None:
    """The text that a model reads before it writes another; None = it goes on from the text itself."""
    if ModelsLanguage in model.provides():
        return None
    return next((f for f in info.texts() if f.name != info.target), None)


def cells_of(info: Info, asked: Asked) -> dict[str, str]:
    """The cells of a row. Raises ValueError where texts are missing or too many."""
    fields = wanted(info)
    if isinstance(asked, bytes) or not isinstance(asked, str | Sequence | Mapping):
        raise ValueError(f"a row of this run has {_names(fields)}, but {_short(asked)} is a {type(asked).__name__}: give texts")
    if isinstance(asked, Mapping):
        row = {name: _cell(value) for name, value in asked.items()}
    elif len(fields) == 1 and fields[0].kind != "texts":
        row = {fields[0].name: asked if isinstance(asked, str) else _alone(fields[0], asked)}
    else:
        row = _in_order(fields, asked.split("\t") if isinstance(asked, str) else list(asked))
    for f in fields:
        if f.name not in row:
            raise ValueError(f"a row of this run has {_names(fields)}, but in {_short(asked)} there is no {f.name}")
        if f.kind == "texts" and row[f.name].count("\t") < 1:
            raise ValueError(f"a row of this run has {_names(fields)}, but in {_short(asked)} there are not two {f.name} or more")
        if f.kind == "texts" and (number := row[f.name].count("\t") + 1) > len(CHOICE_LABELS):
            raise ValueError(
                f"in {_short(asked)} there are {number} {f.name}, but a row has at most {len(CHOICE_LABELS)}: leave some out"
            )
        if f.words:  # as the files have them: one blank between two words
            row[f.name] = " ".join(word for word in row[f.name].replace("\t", " ").split(" ") if word)
    return row


def _in_order(fields: Sequence[Field], parts: Sequence[str | Sequence[str]]) -> dict[str, str]:
    """The first parts belong to the first fields; a field of several texts has all that are left."""
    *alone, last = fields
    if last.kind == "texts" and len(parts) > len(alone) + 1:
        parts = [*parts[: len(alone)], [_text(part) for part in parts[len(alone) :]]]
    if len(parts) != len(fields):
        given = "one text" if len(parts) == 1 else f"{len(parts)} texts"
        raise ValueError(f"{given}, but {len(fields)} are wanted ({_names(fields)}), with a tab between them")
    return {f.name: _cell(part) for f, part in zip(fields, parts, strict=True)}


def _alone(field: Field, asked: Sequence[str]) -> str:
    if field.words:
        return _joined(asked, " ")
    if len(asked) != 1:
        raise ValueError(f"a row of this run has one {field.name}, but {_short(asked)} has {len(asked)} texts")
    return _cell(asked[0])


def _cell(value: str | Sequence[str]) -> str:
    return _joined(value, "\t") if isinstance(value, Sequence) and not isinstance(value, str | bytes) else _text(value)


def _joined(parts: Sequence[str], mark: str) -> str:
    return mark.join(_text(part).replace(mark, " ") for part in parts)


def _text(value: Any) -> str:
    """A text, or a number as one."""
    if isinstance(value, str):
        return value
    if not isinstance(value, int | float) or value != value:
        raise ValueError(f"{value!r} ({type(value).__name__}) stands where a text should be: leave the row out, or give a text")
    return str(value)


def _names(fields: Sequence[Field]) -> str:
    return ", ".join(f"two {f.name} or more" if f.kind == "texts" else f.name for f in fields)


def _short(asked: Asked) -> str:
    return repr(asked)[:80]
