"""What was detected about data files."""

from __future__ import annotations

import shlex
from dataclasses import dataclass, field
from itertools import islice
from typing import Literal

from weft.core.io import list_files
from weft.data.sources.cursor import Cursor

MAX_ROWS = 2000
"""Lines or rows of a file that detection inspects."""


@dataclass
class DetectedData:
    """The data source that fits some files, with its options.

    Args:
        source: Catalog name of the data source, as in ``labeled-text``.
        splits: The files of each split.
        options: Further options of the data source, as YAML.
        reason: What it was detected from.
        size: Bytes of the training files.
        label_type: ``single`` class, ``multiple`` classes, or a ``number``.
        columns: The column of a table that was chosen for each option of the data source.
        alternatives: Other columns that fit an option, the best candidate first.
    """

    source: str
    splits: dict[str, list[str]]
    options: dict[str, str] = field(default_factory=dict)
    reason: str = ""
    size: int = 0
    label_type: Literal["single", "multiple", "number"] = "single"
    columns: dict[str, str] = field(default_factory=dict)
    alternatives: dict[str, list[str]] = field(default_factory=dict)

    @property
    def task(self) -> str:
        """Name of the task: the data source, or ``multi-label`` or ``regression``, which have an objective of their own."""
        return {"single": self.source, "multiple": "multi-label", "number": "regression"}[self.label_type]

    def column_notes(self) -> list[str]:
        """The chosen columns of a table, the other candidates, and the option that chooses one; empty for other data.

        Example:
            >>> detected = DetectedData("labeled-text", {}, columns={"text": "body", "label": "genre"})
            >>> detected.alternatives["label"] = ["language"]
            >>> detected.column_notes()
            ['columns: text = body, label = genre', 'other candidates for label: language; choose one with data.label=language']
        """
        if not self.columns:
            return []
        notes = ["columns: " + ", ".join(f"{option} = {column}" for option, column in self.columns.items())]
        for option, others in self.alternatives.items():
            if others:
                choice = shlex.quote(f"data.{option}={others[0]}")
                notes.append(f"other candidates for {option}: {', '.join(others)}; choose one with {choice}")
        return [" ".join(note.split()) for note in notes]


def skip_rows(count: int, rows: int, problem: str) -> str:
    """Return the value of the option ``on_bad_row`` that skips rows with a problem, with a comment that counts them."""
    return f"skip                 # {count} of {rows} rows {problem}"


def first_lines(file: str) -> list[str]:
    """Return the first valid lines of a file, or of the first file of a folder."""
    return [line for line, problem in islice(Cursor(list_files(file)[:1]).lines(), MAX_ROWS) if not problem]
