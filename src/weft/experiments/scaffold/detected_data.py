"""What was detected about data files."""

from __future__ import annotations

import json
import re
import shlex
from dataclasses import dataclass, field
from itertools import islice
from typing import Literal

from weft.core.io import list_files
from weft.core.printable import printable_line
from weft.data.sources.cursor import Cursor

Paths = list[str] | dict[str, list[str]]
"""The files of a split; or of each class of a split."""
_YAML_WORDS = ("null", "true", "false", "yes", "no", "on", "off")
IMAGE_SOURCES = ("labeled-images", "image-text")
"""Sources of images."""
MAX_ROWS = 2000
"""Lines or rows of a file that detection inspects."""


@dataclass
class DetectedData:
    """The data source that fits some files, with its options.

    Args:
        source: Catalog name of the data source, as in ``labeled-text``.
        splits: The files of each split, or those of each class.
        options: Further options of the data source, as YAML.
        reason: What it was detected from.
        size: Bytes of the training files.
        label_type: ``single`` class, ``multiple`` classes, or a ``number``.
        columns: The column of a table that was chosen for each option of the data source.
        alternatives: Other columns that fit an option, the best candidate first.
        remarks: What else a user should know: another possible reading, rows that are skipped, the encoding.
        other_source: Another data source that the files could be meant for; "" = none.
        max_length: Maximum number of tokens of a text, where the default would truncate too many; 0 = the default.
        folder: Folder or archive that the images of a table are relative to; None = that of the table.
        rows: Number of training examples where it is known; 0 = it is estimated from the size.
    """

    source: str
    splits: dict[str, Paths]
    options: dict[str, str] = field(default_factory=dict)
    reason: str = ""
    size: int = 0
    label_type: Literal["single", "multiple", "number"] = "single"
    columns: dict[str, str] = field(default_factory=dict)
    alternatives: dict[str, list[str]] = field(default_factory=dict)
    remarks: list[str] = field(default_factory=list)
    other_source: str = ""
    max_length: int = 0
    folder: str | None = None
    rows: int = 0

    @property
    def task(self) -> str:
        """Name of the task: the data source, or ``multi-label`` or ``regression``, which have an objective of their own."""
        return {"single": self.source, "multiple": "multi-label", "number": "regression"}[self.label_type]

    @property
    def of_images(self) -> bool:
        """Whether the examples have images."""
        return self.source in IMAGE_SOURCES

    def notes(self) -> list[str]:
        """The chosen columns of a table, the other candidates, and the option that chooses one; then the remarks.

        Example:
            >>> detected = DetectedData("labeled-text", {}, columns={"text": "body", "label": "genre"})
            >>> detected.alternatives["label"] = ["language"]
            >>> detected.notes()
            ['columns: text = body, label = genre', 'other candidates for label: language; choose one with data.label=language']
        """
        chosen = ", ".join(f"{option} = {column}" for option, column in self.columns.items())
        notes = [f"columns: {chosen}"] if chosen else []
        for option, others in self.alternatives.items():
            if others:
                choice = shlex.quote(f"data.{option}={others[0]}")
                notes.append(f"other candidates for {option}: {', '.join(others)}; choose one with {choice}")
        return [comment(note) for note in [*notes, *self.remarks]]


def skip_rows(count: int, rows: int, problem: str) -> str:
    """Return the value of the option ``on_bad_row`` that skips rows with a problem, with a comment that counts them."""
    return f"skip                 # {count} of {rows} rows {comment(problem)}"


def comment(text: str) -> str:
    """Return a text as one line, which cannot end the comment of a recipe that it stands in."""
    return printable_line(" ".join(text.split()))


def first_lines(file: str, encoding: str) -> list[str]:
    """Return the first valid lines of a file, or of the first file of a folder."""
    cursor = Cursor(list_files(file)[:1], encoding=encoding)
    return [line for line, problem in islice(cursor.lines(), MAX_ROWS) if not problem]


def files_of(paths: Paths) -> list[str]:
    """Return all files of a split, in the order of the classes."""
    return [file for files in paths.values() for file in files] if isinstance(paths, dict) else paths


def yaml_string(text: str) -> str:
    """Return a string as YAML, quoted where it needs to be."""
    plain = re.fullmatch(r"[A-Za-z_][\w-]*", text) and text.lower() not in _YAML_WORDS
    return text if plain else json.dumps(text, ensure_ascii=not text.isprintable())
