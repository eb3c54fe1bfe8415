"""Several texts per example: the choices of a question, the sentences of a report."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from weft.core.example import CHOICE_LABELS, MarkedIds, Sequences
from weft.core.fields.base import OFFSETS, Columns, Encoding, InvalidCell, StoredColumn, Values, field_kind
from weft.core.fields.tokenized import TokenizedField
from weft.core.ragged_array import RaggedArray

if TYPE_CHECKING:
    from weft.core.fields.info import Info, SyntheticSizes


@field_kind("texts")
@dataclass(frozen=True)
class TextsField(TokenizedField):
    """Several texts (``Sequences``), separated by tabs in a cell; a label may be the index of one of them.

    Stored as the ids of all and the number of tokens of each (``/sizes``). See ``TokenizedField`` for the options.

    Example:
        >>> TextsField("choices", vocab=100).parts("a b\\tc")
        ['a b', 'c']
    """

    takes_rest: ClassVar[bool] = True

    def describe(self) -> str:
        return f"texts, up to {self.vocab:,} ids"

    def parts(self, cell: str) -> list[str]:
        return cell.split("\t")

    def synthetic(self, rng: np.random.Generator, sizes: SyntheticSizes) -> Sequences:
        lengths = rng.integers(1, sizes.tokens[self.name] + 1, sizes.choices).tolist()
        return Sequences(tuple(self.synthetic_text(rng, size) for size in lengths))

    def lengths(self, value: Sequences) -> dict[str, int]:
        return {self.name: value.tokens, f"{self.name}/sizes": len(value)}

    # ------------------------------------------------------------------------------------------------ prepared data

    def columns(self) -> dict[str, StoredColumn]:
        return {self.name: self.id_column(), f"{self.name}/sizes": StoredColumn(OFFSETS, counted=True)} | self.character_columns()

    def encode(self, rows: Sequence[Mapping[str, str]], encoding: Encoding) -> Columns:
        texts = [self.parts(row.get(self.name, "")) for row in rows]
        ids = encoding.ids(self.space, list(chain.from_iterable(texts)))
        counts = np.fromiter(map(len, texts), np.int64, len(texts))
        first = np.cumsum(counts) - counts
        total = np.add.reduceat(ids.sizes, first) if len(texts) else counts
        found: Columns = {
            self.name: RaggedArray(ids.flat, total),
            f"{self.name}/sizes": RaggedArray(ids.sizes.astype(np.uint32), counts),
        }
        if self.characters:
            tokenizer = encoding.tokenizers[self.space]
            found[f"{self.name}/characters"] = RaggedArray.of([self.character_ids(tokenizer, parts, []) for parts in texts])
        return found

    def assemble(self, values: Mapping[str, Any], info: Info) -> Sequences:
        ids = np.array(values[self.name], np.int64)
        ends = np.cumsum(values[f"{self.name}/sizes"], dtype=np.int64).tolist()
        marks = self.with_characters(ids, values)
        joined = MarkedIds(ids, marks) if marks else ids
        return Sequences(tuple(joined[start:stop] for start, stop in zip([0, *ends], ends, strict=False)))

    # ------------------------------------------------------------------------------------------------ texts too long

    def token_counts(self, columns: Columns) -> np.ndarray:
        column = columns[f"{self.name}/sizes"]
        assert isinstance(column, RaggedArray)
        return column.flat

    def longest(self, values: Values) -> int:
        return int(values[f"{self.name}/sizes"].max(initial=0))

    def truncate(self, info: Info, values: Values) -> tuple[Values, int]:
        sizes = np.asarray(values[f"{self.name}/sizes"], np.int64)
        kept = np.minimum(sizes, self.max_length)
        if (kept == sizes).all():
            return {}, 0
        start = np.repeat(np.cumsum(sizes) - sizes, sizes)
        is_kept = np.arange(len(start)) - start < self.max_length
        truncated: Values = {self.name: values[self.name][is_kept], f"{self.name}/sizes": kept.astype(np.uint32)}
        if self.characters:
            characters = np.asarray(values[f"{self.name}/characters"])
            token = np.cumsum(characters == 0) - (characters == 0)
            truncated[f"{self.name}/characters"] = characters[is_kept[token]]
        return truncated, int((sizes - kept).sum())

    # ------------------------------------------------------------------------------------------------------- requests

    @property
    def request_name(self) -> str:
        return f"two {self.name} or more"

    def request_cell(self, value: str | Sequence[str]) -> str:
        cell = super().request_cell(value)
        count = len(self.parts(cell))
        if count < 2:
            raise InvalidCell(f"fewer than two {self.name}")
        if count > len(CHOICE_LABELS):
            raise InvalidCell(f"{count} {self.name}; at most {len(CHOICE_LABELS)} are allowed, remove some")
        return cell
