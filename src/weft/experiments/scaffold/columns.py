"""Scores of a table's columns: which of them hold text, class labels or numbers."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from weft.data.sources.labeled_text import LABEL, TEXT
from weft.data.sources.sentence_pairs import FIRST, SECOND

NUMBER = re.compile(r"[-+]?\d+(\.\d+)?([eE][-+]?\d+)?")
_IDEOGRAPHS = re.compile("[\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff]")
_SOUTHEAST_ASIAN = re.compile("[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff]")
_DIGIT = re.compile(r"\d")
_MAX_CLASSES = 100
_LABEL_NAMES = (*LABEL, "gold_label", "sentiment", "polarity", "topic", "intent", "emotion", "stars", "similarity", "y")
"""Names of label columns in lowercase, the most specific first."""
_ORDINAL = re.compile(r"\d+|(?<![a-z])[ab](?![a-z])")
_POSITION = re.compile(r"column\d+")
_TITLES = ("title", "subject")
_TITLED = 3
"""How many times as long as its title a text is, at least."""
_NO_LABELS = ("", "id", "split")
"""Names of columns with few distinct values that are no labels."""


def count_words(text: str) -> float:
    """Return the number of words; in scripts without spaces, their mean length (2 or 4 characters) is assumed.

    Example:
        >>> count_words("it is good"), count_words("这部电影很好"), count_words("หนังเรื่องนี้สนุก")
        (3, 3.0, 4.25)
    """
    short, long = len(_IDEOGRAPHS.findall(text)), len(_SOUTHEAST_ASIAN.findall(text))
    if not short and not long:
        return len(text.split())
    return short / 2 + long / 4 + len(_SOUTHEAST_ASIAN.sub(" ", _IDEOGRAPHS.sub(" ", text)).split())


@dataclass
class TableColumn:
    """A column of a table with its non-empty cells."""

    name: str
    cells: list[str]

    @property
    def key(self) -> str:
        """The name in lower case; of a value in nested objects, the last part of its path."""
        return self.name.lower().rpartition(".")[2]

    @property
    def mean_words(self) -> float:
        """Mean number of words per cell."""
        return sum(map(count_words, self.cells)) / max(1, len(self.cells))

    @property
    def distinct(self) -> int:
        """Number of distinct values."""
        return len(set(self.cells))

    @property
    def is_numeric(self) -> bool:
        """Whether every cell is a number."""
        return all(map(NUMBER.fullmatch, self.cells))

    @property
    def is_continuous(self) -> bool:
        """Whether the cells are regression targets: numbers with a decimal point.

        A few distinct integral values are classes, even if written as 0.0 and 1.0.
        """
        if not self.is_numeric or not any("." in cell for cell in self.cells):
            return False
        return not (self.is_label and all(float(cell) % 1 == 0 for cell in self.cells))

    @property
    def is_label(self) -> bool:
        """Whether the cells are class labels: short, with few distinct values, or lists of classes."""
        max_classes = max(2, min(_MAX_CLASSES, len(self.cells) // 4))
        return bool(self.separator) or (self.mean_words < 3 and self.distinct <= max_classes)

    @property
    def is_text(self) -> bool:
        """Whether the cells are texts: at least three words on average, or a column with a usual name."""
        return (self.mean_words >= 3 and not self.is_label) or self.key in TEXT

    @property
    def is_numbered(self) -> bool:
        """Whether nearly every cell has a digit, as dates, addresses and references have: less likely a text than others."""
        return sum(bool(_DIGIT.search(cell)) for cell in self.cells) > 0.95 * len(self.cells)

    @cached_property
    def separator(self) -> str:
        """The separator of a multi-label column, "" for any other column.

        At least 5% of the cells contain it, there are at most 100 classes, and 90% of the classes in these cells occur more than
        once. Commas and semicolons occur in texts too, so at least one class must also occur alone in a cell.
        """
        for separator in ("\t", "|", ";", ","):
            multiple = [[part.strip() for part in cell.split(separator)] for cell in self.cells if separator in cell]
            counts = Counter(part.strip() for cell in self.cells for part in cell.split(separator))
            repeated = [counts[part] > 1 for cell in multiple for part in cell]
            if separator in ";," and not {part for cell in multiple for part in cell} & {cell.strip() for cell in self.cells}:
                continue
            frequent = len(multiple) >= max(1, 0.05 * len(self.cells))
            if frequent and len(counts) <= _MAX_CLASSES and sum(repeated) > 0.9 * len(repeated):
                return separator
        return ""


@dataclass
class ColumnRoles:
    """The columns that a task uses.

    Args:
        texts: Up to two text columns, in the order of the table.
        label: The column of the label, if there is one.
        other_texts: Further columns of texts, those with the most words first.
        other_labels: Further columns that could be the label, the best candidate first.
    """

    texts: list[TableColumn]
    label: TableColumn | None
    other_texts: list[TableColumn]
    other_labels: list[TableColumn]


def assign_roles(columns: Sequence[TableColumn], texts: Sequence[str] = (), label: str | None = None) -> ColumnRoles:
    """Choose text and label columns, except those that are given by name.

    The texts are the two columns with the most words; beside a label the one with the most, unless they look like a pair. Columns
    with digits in nearly every cell come last.
    The label is the column with a usual name (``label``, ``class``, ...), or else the label column with the fewest distinct
    values; a column of real numbers without such a name is used if no other column is a label. The first column of the table
    wins ties.
    """
    named = {column.name: column for column in columns}
    if missing := [name for name in (*texts, *([label] if label else [])) if name not in named]:
        raise ValueError(f"there is no column {missing[0]!r}; the columns are: {', '.join(named)}")
    candidates = [column for column in columns if column.is_text and column.name != label]
    longest = sorted(candidates, key=lambda column: (column.is_numbered and column.key not in TEXT, -column.mean_words))
    chosen = [named[name] for name in texts] or [column for column in columns if column in longest[:2]]
    labels = [column for column in columns if column not in chosen and column.distinct > 1]
    labels = [column for column in labels if column.is_continuous or column.is_label]
    labels = sorted((column for column in labels if column.key not in _NO_LABELS), key=_label_rank)
    labels = labels if label is None else [named[label]]
    if (
        not texts
        and labels
        and len(chosen) == 2
        and not _are_pair(chosen[0], chosen[1], [c for c in columns if c not in (*chosen, labels[0])])
    ):
        chosen = longest[:1]
    return ColumnRoles(chosen, labels[0] if labels else None, [] if texts else longest[len(chosen) :], labels[1:])


def _are_pair(first: TableColumn, second: TableColumn, others: Sequence[TableColumn]) -> bool:
    """Whether two texts with a label belong together: by their names, or because the table has nothing else but identifiers.

    Names are usual ones (premise and hypothesis), or equal but for a number or a letter (question1 and question2). A title and
    its text are no pair; without names, a text that is several times as long as the other is taken for that.
    """
    if {first.key, second.key} <= {*FIRST, *SECOND}:
        return True
    stems = {_ORDINAL.sub("", column.key) for column in (first, second)}
    if len(stems) == 1 and not _POSITION.fullmatch(first.key):
        return True
    lengths = sorted((first.mean_words, second.mean_words))
    if first.key in _TITLES or (_POSITION.fullmatch(first.key) and lengths[1] > _TITLED * lengths[0]):
        return False
    return all(column.is_numeric or column.key in _NO_LABELS for column in others)


def _label_rank(column: TableColumn) -> tuple[int, bool, int]:
    """The rank of a candidate for the label, the best one lowest."""
    usual = _LABEL_NAMES.index(column.key) if column.key in _LABEL_NAMES else len(_LABEL_NAMES)
    return usual, column.is_continuous, column.distinct
