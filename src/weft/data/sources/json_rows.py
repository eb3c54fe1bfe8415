"""Rows of JSON files: an object per line, or a list of objects."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from weft.core.io import InvalidJSON, json_list_items, parse_json
from weft.core.text_stream import data_suffix
from weft.data.sources.cursor import Cursor

JSON_LINES = (".jsonl", ".ndjson")
JSONRow = tuple[int, dict[str, Any] | None, str]
"""Line, object (None: an empty line) and problem ("" = none) of a row."""


def is_json(file: str) -> bool:
    """Return whether the suffix is ``.jsonl``, ``.ndjson`` or ``.json``, with or without ``.gz``."""
    return data_suffix(file) in (*JSON_LINES, ".json")


def has_object_per_line(file: str, encoding: str = "utf-8") -> bool:
    """Return whether a JSON file has one object per line: by its suffix, or, for ``.json``, because its first line is one."""
    if data_suffix(file) in JSON_LINES:
        return True
    first = next((line for line, _ in Cursor([file], encoding=encoding).lines() if line and not line.isspace()), "")
    try:
        return isinstance(parse_json(first), dict)
    except InvalidJSON:
        return False


def json_objects(cursor: Cursor) -> Iterator[JSONRow]:
    """Yield the objects of the current file, which has one per line, or a list of them."""
    if not has_object_per_line(cursor.file, cursor.encoding):
        yield from _listed_objects(cursor)
        return
    for line, problem in cursor.lines():
        value: dict[str, Any] | None = None
        if not problem and line and not line.isspace():
            try:
                value = _object(line)
            except ValueError as error:
                problem = str(error)
        yield cursor.line, value, problem


def _object(text: str) -> dict[str, Any]:
    try:
        value = parse_json(text, constants=False)
    except InvalidJSON as error:
        raise ValueError(f"not valid JSON: {error.problem} (column {error.column})") from None
    if not isinstance(value, dict):
        raise ValueError(f"must be an object {{...}}, not {text[:40]}")
    return value


def _listed_objects(cursor: Cursor) -> Iterator[JSONRow]:
    """The objects of a JSON list, each with the line on which it starts."""
    done, (text, problem) = cursor.line, cursor.read_file()
    line, counted = 1, 0
    found = [(0, "", problem)] if problem else json_list_items(text)
    for number, (at, item, problem) in enumerate(found, 1):
        line, counted = line + text.count("\n", counted, at), at
        if number <= done:
            continue
        cursor.line += 1
        value: dict[str, Any] | None = None
        if not problem:
            try:
                value = _object(item)
            except ValueError as error:
                problem = str(error)
        yield line, value, problem
    cursor.leave()
