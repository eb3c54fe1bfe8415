"""A span of a text: the answer to a question."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np

from weft.core.fields.base import OFFSETS, Columns, Encoding, Field, InvalidCell, StoredColumn, Values, field_kind
from weft.core.ragged_array import RaggedArray

if TYPE_CHECKING:
    from weft.core.fields.info import Info, SyntheticSizes
    from weft.core.fields.text import TextField

START = "start"
"""The cell with the character offset of the answer of a span; offsets of several answers are separated by tabs."""


@field_kind("span")
@dataclass(frozen=True)
class SpanField(Field):
    """First and last token of an answer in a text, or empty: two ints or none.

    Args:
        name: ``answer``.
        of: The text that has the answer.

    Example:
        >>> SpanField("answer", of="context").outputs  # a token is a start, and it is an end
        2
    """

    may_be_empty: ClassVar[bool] = True

    of: str = "context"

    @classmethod
    def declare(cls, name: str, labels: Sequence[str], of: str) -> Self:
        return cls(name, of)

    @property
    def outputs(self) -> int:
        return 2

    @property
    def annotates(self) -> str:
        return self.of

    def describe(self) -> str:
        return f"span of {self.of}"

    def synthetic(self, rng: np.random.Generator, sizes: SyntheticSizes) -> np.ndarray:
        size = sizes.tokens[self.of]
        first = int(rng.integers(size))
        last = int(rng.integers(first, size))
        return np.array([first, last] if rng.random() < 0.8 else [], np.int64)

    def columns(self) -> dict[str, StoredColumn]:
        return {self.name: StoredColumn(OFFSETS)}

    def encode(self, rows: Sequence[Mapping[str, str]], encoding: Encoding) -> Columns:
        """First and last token that overlap the first answer; and whether they cover more than it (``/widened``, not stored)."""
        tokenizer = encoding.tokenizers[encoding.info.text(self.of).space]
        known: dict[str, np.ndarray] = {}
        spans: list[list[int]] = []
        widened: list[bool] = []
        for row in rows:
            answer, start = (row.get(cell, "").split("\t")[0] for cell in (self.name, START))
            if not answer or not start:
                spans.append([])
                widened.append(False)
                continue
            text = row[self.of]
            if text not in known:
                known[text] = np.array(tokenizer.offsets(text), np.int64).reshape(-1, 2)
            first, last = int(start), int(start) + len(answer)
            inside = np.flatnonzero((known[text][:, 1] > first) & (known[text][:, 0] < last))
            if not len(inside):
                raise InvalidCell(f"no token overlaps the answer {answer[:80]!r} at character {first}")
            spans.append([int(inside[0]), int(inside[-1])])
            begin, end = int(known[text][inside[0], 0]), int(known[text][inside[-1], 1])
            widened.append(text[begin:end].strip() != text[first:last].strip())
        return {self.name: RaggedArray.of(spans), f"{self.name}/widened": np.array(widened, bool)}

    def assemble(self, values: Mapping[str, Any], info: Info) -> np.ndarray:
        return np.array(values[self.name], np.int64)

    def cut(self, values: Values, text: TextField, start: int, stop: int) -> Values:
        """A span that is not completely inside becomes empty."""
        span = values[self.name]
        return {self.name: span - start if len(span) and start <= span[0] and span[-1] < stop else span[:0]}
