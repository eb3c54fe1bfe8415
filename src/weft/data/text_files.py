"""Reading texts, with or without labels, from files named on the command line."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from weft.data.sources.cursor import Cursor
from weft.data.sources.labeled_text import LABEL, TEXT
from weft.data.sources.parsing import ColumnSpec, is_table, records, to_cell


class TextWithLabel(NamedTuple):
    """A text with its label; None if the file has no labels."""

    text: str
    label: str | None


def read_texts(file: str | Path) -> list[TextWithLabel]:
    """Read the texts of a table (TSV, CSV or JSON, by suffix), with labels if it has a column of them; from any other
    file, one text per line. Empty texts are dropped."""
    if not Path(file).is_file():
        raise ValueError(f"{file}: file not found")
    cursor = Cursor([str(file)])
    if not is_table(str(file)):
        found = []
        for _ in cursor.each_file():
            for line, problem in cursor.lines():
                if problem:
                    raise ValueError(f"{file}:{cursor.line}: {problem}")
                found.append(TextWithLabel(line.strip(), None))
        return _non_empty([row for row in found if row.text], file)
    text, label = ColumnSpec(None, (*TEXT, "source"), False), ColumnSpec(None, LABEL, False)
    found = []
    for record in records(cursor):
        if record.problem:
            raise ValueError(f"{file}:{record.line}: {record.problem}")
        if record.values is None:
            continue
        row = {str(name): to_cell(value, str(name)) for name, value in record.values.items()}
        text_column, label_column = text.find(row), label.find(row)
        if text_column is None:
            raise ValueError(f"{file}:{record.line}: {text.missing(row, '')}")
        found.append(TextWithLabel(row[text_column].strip(), row[label_column].strip() if label_column is not None else None))
    return _non_empty([row for row in found if row.text], file)


def class_and_file(argument: str) -> tuple[str, str] | None:
    """Split CLASS=FILE at the first ``=`` that is followed by an existing file. None = a file without a class."""
    parts = argument.split("=")
    if len(parts) == 1 or Path(argument).exists():
        return None
    splits = [("=".join(parts[:i]), "=".join(parts[i:])) for i in range(1, len(parts))]
    found = next((split for split in splits if Path(split[1]).is_file()), splits[0])
    return (found[0].strip(), found[1]) if found[1] else None


def read_labeled_texts(arguments: Sequence[str]) -> list[TextWithLabel]:
    """Read texts that all have labels: from tables with a column of labels, or files given with a class (``good=a.txt``)."""
    found: list[TextWithLabel] = []
    for argument in arguments:
        if (named := class_and_file(argument)) is not None:
            found += [TextWithLabel(row.text, named[0]) for row in read_texts(named[1])]
            continue
        rows = read_texts(argument)
        if any(not row.label for row in rows):
            raise ValueError(f"{argument}: texts without a label; give a table with a column of labels, or CLASS={argument}")
        found += rows
    return found


def _non_empty(rows: list[TextWithLabel], file: str | Path) -> list[TextWithLabel]:
    if not rows:
        raise ValueError(f"{file}: no texts found")
    return rows
