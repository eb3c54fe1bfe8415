"""Parallel text: sources with the targets that are to be made from them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from weft.catalog import Build, block
from weft.choices import Count, File, Share
from weft.data.bpe import BPE
from weft.data.reading import Cursor, Row, find_column, tables
from weft.data.written import BadRows, Overflow, Written
from weft.slots import Tokenizer

Pair = tuple[File, File] | File


@block("parallel-text")
class ParallelText(Written):
    """Pairs of texts: a source, and the target that is to be made from it.

    From two files, line n of one belonging to line n of the other; or from one table (TSV, CSV or JSONL, by its ending) with a
    column each. Pairs with an empty side are dropped, rows of more than ``length`` tokens cut; both are counted. Fields
    ``source`` and ``target``.

    Args:
        train: Two UTF-8 files of equally many lines, source and target; or one table.
        valid: The same for validation; without it, training rows are held out.
        test: The same for the final evaluation.
        source: The column of sources in a table.
        target: The column of targets in a table.
        tokenizer: How text becomes ids; trained on the training rows.
        target_tokenizer: A tokenizer of its own for the target; None = one vocabulary for both sides.
        length: Most tokens of a row, on either side.
        on_overflow: What happens to longer rows: truncate (counted) or error.
        on_bad_row: What happens to a row that cannot be read: error, or skip (counted).
        hold_out: Share of the training rows that is held out where ``valid`` is not given; 0 = none.

    Example:
        >>> data = ParallelText(train=("train.de", "train.en"))
        >>> data.declare()["source"].space, data.declare().target
        ('text', 'target')
    """

    by, target = "source", "target"

    def __init__(
        self,
        *,
        train: Pair,
        valid: Pair | None = None,
        test: Pair | None = None,
        source: str = "source",
        target: str = "target",
        tokenizer: Build[Tokenizer] = BPE,
        target_tokenizer: Build[Tokenizer] | None = None,
        length: Count = 256,
        on_overflow: Overflow = "truncate",
        on_bad_row: BadRows = "error",
        hold_out: Share = 0.05,
    ):
        super().__init__(train, valid, test, tokenizer, length, hold_out, on_bad_row, on_overflow)
        self.target_tokenizer = target_tokenizer
        self.columns = (source, target)

    def texts(self) -> dict[str, str]:
        return {side: "text" if self.target_tokenizer is None else side for side in ("source", "target")}

    def tokenizers(self) -> dict[str, Tokenizer]:
        if self.target_tokenizer is None:
            return {"text": self.tokenizer()}
        return {"source": self.tokenizer(), "target": self.target_tokenizer()}

    def files(self, place: Pair) -> list[list[str]]:
        return [[place]] if isinstance(place, str) else [[file] for file in place]

    def rows(self, cursors: list[Cursor]) -> Iterator[Row]:
        return self._table(cursors[0]) if len(cursors) == 1 else self._side_by_side(*cursors)

    def _table(self, cursor: Cursor) -> Iterator[Row]:
        for row in tables(cursor):
            if row.cells:
                cells = [
                    row.cells[find_column(row, name, (), side)] for name, side in zip(self.columns, self.texts(), strict=True)
                ]
                row = Row(row.where, dict(zip(("source", "target"), cells, strict=True)))
            yield row

    def _side_by_side(self, source: Cursor, target: Cursor) -> Iterator[Row]:
        for _ in source.each_file():
            for _ in target.each_file():
                others = target.lines()
                for text, wrong in source.lines():
                    other, also = next(others, (None, ""))
                    if other is None:
                        raise ValueError(self._uneven(source, target))
                    yield Row(
                        source.where() if wrong or not also else target.where(), {"source": text, "target": other}, wrong or also
                    )
                if next(others, None) is not None:
                    raise ValueError(self._uneven(source, target))

    def _uneven(self, *cursors: Cursor) -> str:
        counts = [sum(chunk.count(b"\n") for chunk in _chunks(c.files[0])) + _torn(c.files[0]) for c in cursors]
        one, two = (c.files[0] for c in cursors)
        return f"{one} has {counts[0]} lines, but {two} has {counts[1]}: line n of one must belong to line n of the other"


def _chunks(file: str) -> Iterator[bytes]:
    with Path(file).open("rb") as stream:
        while chunk := stream.read(2**20):
            yield chunk


def _torn(file: str) -> bool:
    """Whether the last line has no end."""
    with Path(file).open("rb") as stream:
        stream.seek(0, 2)
        if not stream.tell():
            return False
        stream.seek(-1, 2)
        return stream.read(1) != b"\n"
