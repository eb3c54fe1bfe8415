"""Texts, with or without their classes, from files that a person names."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from weft.data.sources.labeled_text import LABEL, TEXT
from weft.data.sources.parsing import Cursor, Wanted, cell_of, records

TABLES = (".tsv", ".csv", ".jsonl", ".ndjson")


class Sorted(NamedTuple):
    """A text with its class; none where the file says none."""

    text: str
    label: str | None


def read_texts(file: str | Path) -> list[Sorted]:
    """The texts of a table (TSV, CSV or JSONL, by the file's ending) with their classes, if it has such a column; of any other
    file, a text a line. Empty ones are left out."""
    if not Path(file).is_file():
        raise ValueError(f"there is no file {file}")
    cursor = Cursor([str(file)])
    if Path(file).suffix.lower() not in TABLES:
        found = []
        for _ in cursor.each_file():
            for line, problem in cursor.lines():
                if problem:
                    raise ValueError(f"{file}:{cursor.line}: {problem}")
                found.append(Sorted(line.strip(), None))
        return _some([row for row in found if row.text], file)
    wanted, label = Wanted(None, (*TEXT, "source"), False), Wanted(None, LABEL, False)
    found = []
    for record in records(cursor):
        if record.problem:
            raise ValueError(f"{file}:{record.line}: {record.problem}")
        if record.values is None:
            continue
        row = {str(name): cell_of(value, str(name)) for name, value in record.values.items()}
        column, other = wanted.find(row), label.find(row)
        if column is None:
            raise ValueError(f"{file}:{record.line}: {wanted.missing(row, '')}")
        found.append(Sorted(row[column].strip(), row[other].strip() if other is not None else None))
    return _some([row for row in found if row.text], file)


def class_and_file(place: str) -> tuple[str, str] | None:
    """CLASS=FILE, as a person names them, parted at the first sign after which a file stands. None = a file alone."""
    parts = place.split("=")
    if len(parts) == 1 or Path(place).exists():
        return None
    cuts = [("=".join(parts[:i]), "=".join(parts[i:])) for i in range(1, len(parts))]
    found = next((cut for cut in cuts if Path(cut[1]).is_file()), cuts[0])
    return (found[0].strip(), found[1]) if found[1] else None


def read_sorted(places: Sequence[str]) -> list[Sorted]:
    """Texts that all have a class: from tables with a column of classes, or from files named with it (``good=a.txt``)."""
    found: list[Sorted] = []
    for place in places:
        if (named := class_and_file(place)) is not None:
            found += [Sorted(row.text, named[0]) for row in read_texts(named[1])]
            continue
        rows = read_texts(place)
        if any(not row.label for row in rows):
            raise ValueError(f"{place} has texts without a class: give a table with a column of classes, or CLASS={place}")
        found += rows
    return found


def _some(rows: list[Sorted], file: str | Path) -> list[Sorted]:
    if not rows:
        raise ValueError(f"{file} has no texts")
    return rows
