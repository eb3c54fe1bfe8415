"""Requests to a trained run: texts, tuples or dicts, converted to cells by field; and files in the format of a data source."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

from weft.core.contracts import Codec, ModelsLanguage, Objective, Structure
from weft.core.fields import Field, Info, InvalidCell, TextField
from weft.core.fields.base import join_cell, text_of
from weft.core.hub_data import is_hub_name
from weft.core.io import list_files
from weft.core.text_stream import data_suffix
from weft.data.sources.cursor import Cursor
from weft.data.sources.parsing import Layout, ParsedRow, TableFormat

Request = str | Sequence[str] | Mapping[str, str | Sequence[str]]
"""One input of a run: its only text; all its texts in order, or one text with tabs between them; or texts by field name."""


@dataclass(frozen=True)
class BadRequest:
    """An input that cannot be read, such as a malformed row of a table.

    Args:
        problem: What is wrong.
    """

    problem: str


@runtime_checkable
class ReadsInputs(Protocol):
    """A data source that reads files for prediction."""

    paths: dict[str, Any]

    def inputs(self, cursors: list[Cursor]) -> Iterator[ParsedRow]:
        """Parse rows without what is to be predicted; a malformed row has a ``problem``, a blank one no cells."""
        ...

    def layout(self, file: str) -> Layout:
        """Return how the rows of a file are written."""
        ...

    def table_format(self) -> TableFormat:
        """Return how the columns of a table are separated."""
        ...

    def cursor(self, files: Sequence[str]) -> Cursor:
        """Return a cursor on files of this source, in its encoding."""
        ...

    def recognizes(self, file: str) -> bool:
        """Return whether a file looks as if it were in the format of this source."""
        ...


@dataclass(frozen=True)
class RequestSpec:
    """How requests are encoded: fields with their tokenizers, and the objective that prepares them."""

    codec: Codec
    objective: Objective


def read_inputs(source: ReadsInputs, file: str | Path) -> Iterator[ParsedRow]:
    """Yield the rows of a file in the format of a data source, without what is to be predicted.

    Blank rows have neither cells nor a problem; a row with an empty text has a problem.
    """
    for row in source.inputs([source.cursor([str(file)])]):
        empty = next((name for name, cell in row.cells.items() if name != "id" and not cell.strip()), None)
        yield row._replace(problem=f"{empty} is empty") if empty and not row.problem else row


def has_data_format(source: ReadsInputs, file: str | Path) -> bool:
    """Return whether a file is read in the format of a data source rather than as one text per line.

    That is so for every file but text files: those with the suffix ``.txt`` or without one, unless the files that the source
    was trained on have the same suffix, or the file looks like its format.
    """
    suffix = data_suffix(str(file))
    return suffix not in ("", ".txt") or suffix in _suffixes(source) or source.recognizes(str(file))


def _suffixes(source: ReadsInputs) -> set[str]:
    """The suffixes of the files that a source reads."""
    groups = [paths.values() if isinstance(paths, dict) else [paths] for paths in source.paths.values() if paths is not None]
    files = (file for group in groups for paths in group for file in list_files(paths))
    return {suffix for file in files if (suffix := ".jsonl" if is_hub_name(file) else data_suffix(file))}


def is_pair(request: Request) -> bool:
    """Return whether a request has two or more texts."""
    if isinstance(request, Mapping):
        return "first" in request or "second" in request
    return "\t" in request if isinstance(request, str) else isinstance(request, Sequence) and len(request) > 1


def input_fields(info: Info) -> list[Field]:
    """Return the fields that a request must have; a field of several texts is last."""
    fields = [f for f in info.given() if f.name != "target"]
    return sorted(fields, key=lambda f: f.takes_rest)


def encoder_field(model: Structure, info: Info) -> TextField | None:
    """Return the text field that the encoder of a model reads; None = the model continues the text itself."""
    if ModelsLanguage in model.provides():
        return None
    return next((f for f in info.texts() if f.name != info.target), None)


def request_cells(info: Info, request: Request) -> dict[str, str]:
    """Return the cells of a request. Raises ValueError if it has too few or too many texts."""
    fields = input_fields(info)
    if isinstance(request, bytes) or not isinstance(request, str | Sequence | Mapping):
        raise ValueError(f"an input needs {_names(fields)}, but {_quote(request)} is a {type(request).__name__}; pass texts")
    given: dict[str, Any]
    if isinstance(request, Mapping):
        given = dict(request)
    elif len(fields) == 1 and not fields[0].takes_rest:
        given = {fields[0].name: request if isinstance(request, str) else _single_value(fields[0], request)}
    else:
        given = _in_order(fields, request.split("\t") if isinstance(request, str) else list(request))
    for f in fields:
        if f.name not in given:
            raise ValueError(f"an input needs {_names(fields)}, but {_quote(request)} has no {f.name}")
    row: dict[str, str] = {}
    for name, value in given.items():
        try:
            row[name] = info[name].request_cell(value) if name in info else join_cell(value, "\t")
        except InvalidCell as error:
            raise ValueError(f"an input needs {_names(fields)}, but {_quote(request)} has {error}") from None
    return row


def _in_order(fields: Sequence[Field], parts: Sequence[str | Sequence[str]]) -> dict[str, str | Sequence[str]]:
    """Assign parts to fields in order; a field of several texts gets all remaining parts."""
    *first_fields, last = fields
    if last.takes_rest and len(parts) > len(first_fields) + 1:
        parts = [*parts[: len(first_fields)], [text_of(part) for part in parts[len(first_fields) :]]]
    if len(parts) != len(fields):
        given = "one text" if len(parts) == 1 else f"{len(parts)} texts"
        raise ValueError(f"{given} given, but an input needs {len(fields)} ({_names(fields)}), separated by tabs")
    return {f.name: part for f, part in zip(fields, parts, strict=True)}


def _single_value(field: Field, request: Sequence[str]) -> str | Sequence[str]:
    if field.takes_parts:
        return request
    if len(request) != 1:
        raise ValueError(f"an input needs one {field.name}, but {_quote(request)} has {len(request)} texts")
    return request[0]


def _names(fields: Sequence[Field]) -> str:
    return ", ".join(f.request_name for f in fields)


def _quote(request: Request) -> str:
    return repr(request)[:80]
