"""Reading text files strictly: UTF-8 or an error with its place; what was dropped or cut is counted."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, TypeVar

import numpy as np

from weft.batch import Special
from weft.data.columns import Column
from weft.data.order import permute
from weft.keys import key
from weft.slots import Tokenizer

Overflow = Literal["error", "truncate"]
F = TypeVar("F")


def read_lines(file: str, counts: Counter[str]) -> list[str]:
    """The lines of a UTF-8 file. A byte-order mark and Windows line ends are taken off and counted."""
    try:
        data = Path(file).read_bytes()
    except FileNotFoundError:
        raise ValueError(f"{file}: there is no such file") from None
    except OSError as error:
        raise ValueError(f"{file}: cannot be read: {error.strerror}") from None
    if data.startswith(b"\xef\xbb\xbf"):
        counts["byte-order marks removed"] += 1
        data = data[3:]
    if not data.strip():
        raise ValueError(f"{file}: the file {'has only blank lines' if data else 'is empty'}")
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise ValueError(
            f"{file}:{line}: byte 0x{data[error.start]:02x} is not valid UTF-8; save the file as UTF-8, or repair the line"
        ) from None
    lines = text.removesuffix("\n").split("\n")
    windows = sum(line.endswith("\r") for line in lines)
    if windows:
        counts["Windows line ends removed"] += windows
        lines = [line.removesuffix("\r") for line in lines]
    return lines


@dataclass
class Table:
    """Rows of texts with the place each came from.

    Args:
        files: The file of each column.
        columns: Texts by the name of the field, all equally many.
        lines: The line of each row in its file, counted from 1.
        counts: What was dropped, cut or repaired: for the ledger.
    """

    files: dict[str, str]
    columns: dict[str, list[str]]
    lines: list[int]
    counts: Counter[str] = field(default_factory=Counter)

    def __len__(self) -> int:
        return len(self.lines)

    def where(self, column: str, row: int) -> str:
        return f"{self.files[column]}:{self.lines[row]}"

    def take(self, rows: np.ndarray) -> Table:
        columns = {name: [texts[r] for r in rows] for name, texts in self.columns.items()}
        return Table(self.files, columns, [self.lines[r] for r in rows], Counter(self.counts))

    def raw(self, row: int) -> dict[str, str]:
        return {name: texts[row] for name, texts in self.columns.items()}

    def without_empty(self, *columns: str) -> Table:
        """Only rows that have something in all these columns; the others are counted."""
        full = [r for r in range(len(self)) if all(self.columns[c][r].strip() for c in columns)]
        if not full:
            raise ValueError(f"{', '.join(dict.fromkeys(self.files.values()))}: no row has any text")
        if len(full) == len(self):
            return self
        kept = self.take(np.array(full))
        kept.counts["empty rows dropped"] += len(self) - len(full)
        return kept

    def encode(self, column: str, tokenizer: Tokenizer, length: int, on_overflow: Overflow) -> Column:
        """The column as ids, at most ``length`` a row; what is longer is cut and counted, or an error."""
        return self.count_unknown(Column.of(self._cut(column, tokenizer, length, on_overflow)))

    def _cut(self, column: str, tokenizer: Tokenizer, length: int, on_overflow: Overflow) -> Iterator[list[int]]:
        for row, text in enumerate(self.columns[column]):
            ids = tokenizer.encode(text)
            if len(ids) > length:
                if on_overflow == "error":
                    raise ValueError(
                        f"{self.where(column, row)}: {column} has {len(ids)} tokens, but length is {length}: "
                        "raise length, shorten the row, or set on_overflow to truncate"
                    )
                self.counts[f"rows cut to {length} tokens ({column})"] += 1
            yield ids[:length]

    def count_unknown(self, column: Column) -> Column:
        ids = column.store.read(0, len(column.store))
        self.counts["tokens"] += len(ids)
        if unknown := int((ids == Special.unk).sum()):
            self.counts["unknown tokens"] += unknown
        return column

    def ledger(self) -> dict[str, int]:
        return {"rows": len(self), **self.counts}


def read_splits(
    read: Callable[[F], Table], train: F, valid: F | None, test: F | None, hold_out: float, by: str
) -> dict[str, Table]:
    """A table for each split. Without ``valid``, a share of the training rows is held out, the same rows every time."""
    tables = {"train": read(train)}
    if valid is not None:
        tables["valid"] = read(valid)
    elif hold_out > 0:
        whole = tables["train"]
        tables["train"], tables["valid"] = _hold_out(whole, hold_out, by)
        tables["train"].counts["rows held out for validation"] = len(tables["valid"])
    if test is not None:
        tables["test"] = read(test)
    return tables


def _hold_out(table: Table, share: float, by: str) -> tuple[Table, Table]:
    """Rows with the same text go to the same side, so that none is both trained on and validated with."""
    groups: dict[str, list[int]] = {}
    for row, text in enumerate(table.columns[by]):
        groups.setdefault(text, []).append(row)
    members = list(groups.values())
    wanted = max(1, round(share * len(table)))
    held: list[int] = []
    for place in permute(np.arange(len(members)), len(members), key("hold out", len(members))):
        if len(held) + len(members[place]) <= wanted:
            held += members[place]
    held = sorted(held or min(members, key=len))
    if len(held) == len(table):
        raise ValueError(
            f"{table.files[by]}: holding out {share:g} of {len(table)} rows ({len(members)} different ones) for validation "
            "leaves none to train on: give valid, or a smaller hold_out (0 for no validation)"
        )
    rest = np.setdiff1d(np.arange(len(table)), held)
    # what reading repaired is counted once, with the training rows
    valid = table.take(np.array(held))
    valid.counts = Counter()
    return table.take(rest), valid
