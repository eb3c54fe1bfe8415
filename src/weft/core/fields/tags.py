"""A class per word of a text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np

from weft.core.example import Targets
from weft.core.fields.base import Columns, Encoding, InvalidCell, StoredColumn, Values, field_kind
from weft.core.fields.class_field import ClassField
from weft.core.ragged_array import RaggedArray

if TYPE_CHECKING:
    from weft.core.fields.info import Info, SyntheticSizes
    from weft.core.fields.text import TextField


@field_kind("tags")
@dataclass(frozen=True)
class TagsField(ClassField):
    """A class for each word of a text, separated by spaces in a cell: ``Targets`` at the first token of each word.

    Args:
        of: The text, which is split into words.

    See ``ClassField`` for the other options.

    Example:
        >>> TagsField("tags", 2, labels=("DET", "NOUN")).to_text([0, 1])
        'DET NOUN'
    """

    noun: ClassVar[str] = "tag"

    of: str = "text"

    @classmethod
    def declare(cls, name: str, labels: Sequence[str], of: str) -> Self:
        return cls(name, max(2, len(labels)), tuple(labels), of)

    @property
    def annotates(self) -> str:
        return self.of

    def synthetic(self, rng: np.random.Generator, sizes: SyntheticSizes) -> Targets:
        size = sizes.tokens[self.of]
        return Targets(self.of, np.arange(size), rng.integers(0, self.classes, size))

    def columns(self) -> dict[str, StoredColumn]:
        return self.class_column(ragged=True)

    def encode(self, rows: Sequence[Mapping[str, str]], encoding: Encoding) -> Columns:
        known = self.ids()
        return {self.name: RaggedArray.of([self._ids(known, row.get(self.name), row[self.of]) for row in rows])}

    def _ids(self, known: Mapping[str, int], cell: str | None, text: str) -> list[int]:
        words = text.count(" ") + 1
        tags = [self.class_id(known, tag) for tag in cell.split(" ")] if cell else [0] * words
        if len(tags) != words:
            raise InvalidCell(f"{words} words, but {len(tags)} tags")
        return tags

    def assemble(self, values: Mapping[str, Any], info: Info) -> Targets:
        words = np.array(values[f"{self.of}/words"], np.int64)
        return Targets(self.of, words, np.array(values[self.name], np.int64))

    def cut(self, values: Values, text: TextField, start: int, stop: int) -> Values:
        first, last = text.words_between(values, start, stop)
        return {self.name: values[self.name][first:last]}

    @classmethod
    def class_names(cls, cell: str) -> list[str]:
        return cell.split(" ") if cell else []

    def to_text(self, prediction: Sequence[int]) -> str:
        return " ".join(map(self.class_name, prediction))

    @classmethod
    def json_value(cls, text: str) -> list[str]:
        return cls.class_names(text)
