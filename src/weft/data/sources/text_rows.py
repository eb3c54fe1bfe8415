"""Rows of files without columns: a line, a paragraph, or a whole file."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

from weft.data.sources.cursor import Cursor
from weft.data.sources.parsing import ParsedRow

Unit = Literal["line", "paragraph", "file"]


def text_rows(cursor: Cursor, unit: Unit) -> Iterator[ParsedRow]:
    """Yield the texts of the current file as rows with the cell ``text``; paragraphs end at an empty line."""
    if unit == "line":
        for line, problem in cursor.lines():
            yield ParsedRow(cursor.file, cursor.line, {"text": line}, problem)
        return
    lines: list[str] = []
    first_problem = ""
    for line, problem in cursor.lines():
        first_problem = first_problem or (f"line {cursor.line}: {problem}" if problem else "")
        if line.strip() or unit == "file":
            lines.append(line)
        elif lines:
            yield _joined(cursor, lines, cursor.line - len(lines), first_problem)
            lines, first_problem = [], ""
    if lines:
        yield _joined(cursor, lines, cursor.line - len(lines) + 1, first_problem)


def _joined(cursor: Cursor, lines: list[str], first: int, problem: str) -> ParsedRow:
    return ParsedRow(cursor.file, first, {"text": "\n".join(lines).strip()}, problem)
