"""Near-duplicates between the training split and another split of one source."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from weft.core.contracts import ProgressCallback
from weft.core.io import read_json, write_json
from weft.data import cache
from weft.data.ledger import DUPLICATES, quote
from weft.data.near_duplicates import near_duplicates
from weft.data.prepared import PreparedDataset


def count_train_overlap(
    name: str,
    keys: Sequence[Any],
    train: PreparedDataset,
    other: PreparedDataset,
    fields: Sequence[str],
    progress: ProgressCallback,
) -> dict[str, Any]:
    """Return ledger entries with the near-duplicates of training in another split; computed once, then cached.

    Args:
        name: The other split.
        keys: What the cache entry depends on.
        train: The training split.
        other: The other split.
        fields: Texts that are compared, joined by a space.
        progress: Progress callback.
    """
    with cache.entry(cache.key_of("duplicates", *keys)) as folder:
        file = folder / "duplicates.json"
        try:
            return read_json(file)
        except (OSError, ValueError):
            progress(f"searching {name} for near-duplicates of training", 0, 0)
        train_texts, texts = (_joined_cells(rows, fields) for rows in (train, other))
        found = near_duplicates(train_texts, texts)
        examples = [
            f"{name} row {pair.valid_row} {quote(texts[pair.valid_row])} is like training row {pair.train_row} "
            f"{quote(train_texts[pair.train_row])} ({pair.similarity:.2f})"
            for pair in found.examples
        ]
        entries: dict[str, Any] = {DUPLICATES: found.count}
        if examples or found.note:
            entries[f"first {DUPLICATES}"] = [*examples, *filter(None, [found.note])]
        write_json(file, entries)
        return entries


def _joined_cells(rows: PreparedDataset, fields: Sequence[str]) -> Sequence[str]:
    columns = [rows.cells[name] for name in fields]
    return columns[0] if len(columns) == 1 else _JoinedColumns(columns)


class _JoinedColumns(Sequence[str]):
    """Several columns as one text per row, read lazily."""

    def __init__(self, columns: Sequence[Sequence[str]]):
        self.columns = columns

    def __len__(self) -> int:
        return len(self.columns[0])

    def __getitem__(self, index: Any) -> Any:
        found: list[Any] = [column[index] for column in self.columns]
        return [" ".join(cells) for cells in zip(*found, strict=True)] if isinstance(index, slice) else " ".join(found)

    def __iter__(self) -> Iterator[str]:
        return map(" ".join, zip(*self.columns, strict=True))
