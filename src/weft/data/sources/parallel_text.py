"""Parallel text: sources with the targets that are to be made from them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from weft.core.contracts import Tokenizer
from weft.core.options import Count, File, Share
from weft.core.registry import Build, block
from weft.data.sources.parsing import Cursor, Row, Wanted, tables
from weft.data.sources.text_source import BadRows, Overflow, Written
from weft.data.tokenizers.bpe import BPE

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
        header: The names of a table's columns, where its first line is already a row; None = the first line has them.
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

    by, generated = "source", "target"

    def __init__(
        self,
        *,
        train: Pair,
        valid: Pair | None = None,
        test: Pair | None = None,
        header: tuple[str, ...] | None = None,
        source: str = "source",
        target: str = "target",
        tokenizer: Build[Tokenizer] = BPE,
        target_tokenizer: Build[Tokenizer] | None = None,
        length: Count = 256,
        on_overflow: Overflow = "truncate",
        on_bad_row: BadRows = "error",
        hold_out: Share = 0.05,
    ):
        for name, place in (("train", train), ("valid", valid), ("test", test)):
            if not (place is None or isinstance(place, str) or len(place) == 2):
                raise ValueError(f"{name} must be two files, [source, target], or one table, not {len(place)} files")
        super().__init__(train, valid, test, tokenizer, length, hold_out, on_bad_row, on_overflow)
        self.target_tokenizer = target_tokenizer
        self.header = None if header is None else tuple(header)
        self.source, self.target = source, target

    def texts(self) -> dict[str, str]:
        return {side: "text" if self.target_tokenizer is None else side for side in ("source", "target")}

    def tokenizers(self) -> dict[str, Tokenizer]:
        if self.target_tokenizer is None:
            return {"text": self.tokenizer()}
        return {"source": self.tokenizer(), "target": self.target_tokenizer()}

    def files(self, place: Pair) -> list[list[str]]:
        return [[place]] if isinstance(place, str) else [[file] for file in place]

    def rows(self, cursors: list[Cursor]) -> Iterator[Row]:
        if len(cursors) == 1:
            return tables(cursors[0], {"source": Wanted(self.source), "target": Wanted(self.target)}, self.header)
        return self._side_by_side(*cursors)

    def _side_by_side(self, source: Cursor, target: Cursor) -> Iterator[Row]:
        for _ in source.each_file():
            for _ in target.each_file():
                others = target.lines()
                for text, wrong in source.lines():
                    other, also = next(others, (None, ""))
                    if other is None:
                        raise ValueError(_uneven(source.file, target.file))
                    at = target if also and not wrong else source
                    yield Row(at.file, at.line, {"source": text, "target": other}, wrong or also)
                if next(others, None) is not None:
                    raise ValueError(_uneven(source.file, target.file))


def _uneven(one: str, two: str) -> str:
    counts = f"{one} has {_count_lines(one)} lines, but {two} has {_count_lines(two)}"
    return f"{counts}: line n of one must belong to line n of the other"


def _count_lines(file: str) -> int:
    """Also the last one, if it has no end."""
    lines, last = 0, b"\n"
    with Path(file).open("rb") as stream:
        while chunk := stream.read(2**20):
            lines += chunk.count(b"\n")
            last = chunk[-1:]
    return lines + (last != b"\n")
