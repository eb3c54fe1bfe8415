"""Encoding a split into a ``PreparedDataset``: batched tokenization, truncation and splitting, decoding checks, counts."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from weft.core.contracts import Codec, ProgressCallback
from weft.core.fields import Columns, SpanField, TextField, TokenizedField, Values
from weft.core.ragged_array import RaggedArray
from weft.data.encoding import columns_from, columns_of, cut_cells, encode, rows_of, truncate
from weft.data.ledger import BEYOND, WIDENED, WITHOUT, WORDS_LOST, Ledger
from weft.data.prepared import DatasetWriter
from weft.data.sources.parsing import ParsedRow
from weft.data.sources.training_scan import PROGRESS_ROWS, explain_no_rows, flatten
from weft.data.tokenizers.word_cache import WordCache

if TYPE_CHECKING:
    from weft.data.sources.text_source import TextSource

_BATCH_CHARACTERS = 1 << 21
"""Rows are encoded in batches of at most this many characters."""
_BATCH_BYTES = 1 << 25
"""And of at most this many bytes of columns of fixed size, such as images."""
_COMMIT_BYTES = 1 << 25
"""Bytes read between two commits, from which an interrupted preparation resumes."""


def write_split(
    source: TextSource,
    folder: Path,
    name: str,
    files: list[list[str]],
    codec: Codec,
    keep: Callable[[ParsedRow], bool] | None,
    progress: ProgressCallback,
) -> None:
    """Encode the rows of a split and write them to ``folder``, resuming from the last commit.

    Args:
        source: Parses the rows and decides what happens to long and malformed ones.
        folder: Where the dataset is written.
        name: ``train``, ``valid`` or ``test``.
        files: Files of each cursor.
        codec: Fields and tokenizers.
        keep: For a split that shares its files with another: whether a row belongs to it.
        progress: Progress callback.
    """
    cells = list(
        dict.fromkeys(
            [*source.text_fields(), *source.input_fields(), *source.target_fields(), *source.extra_cells, source.key_field]
        )
    )
    writer = DatasetWriter(folder, codec.info, cells)
    state = writer.state or {"marks": [(0, 0, 0)] * len(files), "ledger": None}
    ledger = Ledger(flatten(files), state["ledger"])
    cursors = [source.cursor(group, tuple(mark), ledger.counts) for group, mark in zip(files, state["marks"], strict=True)]
    encoder = _BatchEncoder(source, codec, writer, ledger)
    committed, total = sum(cursor.read() for cursor in cursors), sum(cursor.total for cursor in cursors)
    other = "rows held out for validation" if name == "train" else "rows left to training"
    batch: list[ParsedRow] = []
    characters, row_bytes = 0, sum(column.row_bytes for column in columns_of(codec.info).values())
    try:
        progress(f"preparing {name}", committed, total)
        for number, row in enumerate(source.usable_rows(cursors, ledger), 1):
            if keep is None or keep(row):
                batch.append(row)
                characters += len(source.group_key(row.cells))
            else:
                ledger.counts[other] += 1
            if number % PROGRESS_ROWS and characters < _BATCH_CHARACTERS and len(batch) * row_bytes < _BATCH_BYTES:
                continue
            encoder.add(batch)
            batch, characters = [], 0
            read = sum(cursor.read() for cursor in cursors)
            progress(f"preparing {name}", read, total)
            if read - committed >= _COMMIT_BYTES:
                committed = read
                writer.commit({"marks": [cursor.mark() for cursor in cursors], "ledger": ledger.state()})
        encoder.add(batch)
        if not ledger.counts["rows"]:
            raise ValueError(explain_no_rows(name, files, ledger))
        progress(f"preparing {name}", total, total)
        writer.done(ledger.state())
    finally:
        writer.close()


class _BatchEncoder:
    """Encodes batches of rows, applies ``on_overflow``, counts, and writes them."""

    def __init__(self, source: TextSource, codec: Codec, writer: DatasetWriter, ledger: Ledger):
        self.source, self.codec, self.writer, self.ledger = source, codec, writer, ledger
        self.caches = {space: WordCache(tokenizer) for space, tokenizer in codec.tokenizers.items()}

    def add(self, rows: list[ParsedRow]) -> None:
        if not rows:
            return
        info, counts = self.codec.info, self.ledger.counts
        long: dict[int, ParsedRow] = {}
        if self.source.on_overflow == "truncate" and not any(map(info.annotations, info.tokenized())):
            short = [row._replace(cells=cut_cells(info, row.cells)) for row in rows]
            long = {id(new): row for row, new in zip(rows, short, strict=True) if new.cells is not row.cells}
            rows = short
        rows, columns = self._encode(rows)
        for row in rows:
            if self.ledger.to_check():
                self._check_decoding(row)
        raws: list[Any] = [long.get(id(row), row).cells for row in rows]
        self._count_spans(columns)
        cut = [values for row, values in zip(rows, rows_of(columns) if long else [], strict=False) if id(row) in long]
        counts["truncated rows"] += sum(all(f.longest(values) <= f.max_length for f in info.tokenized()) for values in cut)
        if any(field.token_counts(columns).max(initial=0) > field.max_length for field in info.tokenized()):
            fitted = [
                piece
                for row, values in zip(rows, rows_of(columns), strict=True)
                for piece in self.source.fit(self.codec, long.get(id(row), row), values, self.ledger)
            ]
            columns = columns_from(info, [values for values, _ in fitted])
            raws = [raw for _, raw in fitted]
        counts["rows"] += len(raws)
        if words_lost := [int(raw[WORDS_LOST]) for raw in raws if WORDS_LOST in raw]:
            counts["truncated rows"] += len(words_lost)
            counts[WORDS_LOST] += sum(words_lost)
        for field in info.tokenized():
            column = columns[field.name]
            assert isinstance(column, RaggedArray)
            counts["tokens"] += len(column.flat)
            counts["unknown tokens"] += int(np.count_nonzero(column.flat == field.special.unk))
        self.writer.add(columns, raws)

    def _encode(self, rows: list[ParsedRow]) -> tuple[list[ParsedRow], Columns]:
        try:
            return rows, encode(self.codec, [row.cells for row in rows], self.caches)
        except ValueError:  # encode one by one to find the invalid rows
            valid: list[ParsedRow] = []
            for row in rows:
                try:
                    encode(self.codec, [row.cells], self.caches)
                    valid.append(row)
                except ValueError as error:
                    self.source.reject(row, str(error), self.ledger)
            return valid, encode(self.codec, [row.cells for row in valid], self.caches)

    def _check_decoding(self, row: ParsedRow) -> None:
        """Encode and decode the texts of a row and record whether they are unchanged."""
        decoded: dict[str, str] = {}
        for name, space in self.source.text_fields().items():
            tokenizer = self.codec.tokenizers[space]
            parts = row.cells[name].split("\t") if name in self.source.list_fields else [row.cells[name]]
            decoded[name] = "\t".join(tokenizer.decode(tokenizer.encode(part)) for part in parts)
        self.ledger.check(row, decoded)

    def _count_spans(self, columns: Columns) -> None:
        for field in self.codec.info.of_kind(SpanField):
            spans = columns[field.name]
            assert isinstance(spans, RaggedArray)
            self.ledger.counts[WITHOUT] += int(np.count_nonzero(spans.sizes == 0))
            self.ledger.counts[WIDENED] += int(np.count_nonzero(columns[f"{field.name}/widened"]))


def fit_row(
    codec: Codec, row: ParsedRow, values: Values, ledger: Ledger, on_overflow: str
) -> list[tuple[Values, dict[str, str]]]:
    """Apply ``on_overflow`` to a row: return it unchanged, truncated, or split, each with its raw cells.

    Args:
        codec: Fields with their ``max_length``.
        row: The parsed row.
        values: The encoded row.
        ledger: Counts truncated and split rows.
        on_overflow: ``error``, ``truncate`` or ``split``.
    """
    info = codec.info
    field = next((f for f in info.tokenized() if f.longest(values) > f.max_length), None)
    if field is None:
        return [(values, dict(row.cells))]
    if on_overflow == "error":
        raise ValueError(
            f"{row.where}: {field.name} has {field.longest(values)} tokens, more than max_length {field.max_length}; raise "
            "max_length, shorten the row, or set on_overflow: truncate"
        )
    if on_overflow == "split" and isinstance(field, TextField):
        ledger.counts["split rows"] += 1
        pieces, lost = field.split(info, values)
    else:
        truncated, lost = truncate(info, values)
        pieces = [truncated]
    if lost:
        ledger.counts["truncated rows"] += 1
        ledger.counts["tokens lost"] += lost
        for name in (f.name for f in info.of_kind(SpanField)):
            ledger.counts[BEYOND] += len(values[name]) > 0 and not any(len(piece[name]) for piece in pieces)
    return list(zip(pieces, _raw_cells(codec, row, field, pieces), strict=True))


def _raw_cells(codec: Codec, row: ParsedRow, field: TokenizedField, pieces: list[Values]) -> Iterator[dict[str, str]]:
    """The raw cells of each piece. A truncated text keeps its full raw text: it is the request, or the reference."""
    if not isinstance(field, TextField) or not field.words:
        for piece in pieces:
            cut = {field.name: codec.decode(field.name, piece[field.name].tolist())} if len(pieces) > 1 else {}
            yield {**row.cells, **cut}
        return
    first = 0
    columns = {name: row.cells[name].split(" ") for name in (field.name, *(tags.name for tags in codec.info.tags_of(field)))}
    for piece in pieces:
        last = first + len(piece[f"{field.name}/words"])
        yield {**row.cells, **{name: " ".join(cells[first:last]) for name, cells in columns.items()}}
        first = last
