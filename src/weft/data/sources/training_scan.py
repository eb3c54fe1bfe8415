"""One pass over the training files: label names, the hold-out threshold and a sample of text to train tokenizers on."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from weft.core.contracts import ProgressCallback, Tokenizer
from weft.core.fields import ClassField, Field
from weft.core.io import parse_json
from weft.data.holdout import HeldOut, HoldOut, hold_out_hashes, hold_out_units
from weft.data.ledger import LONG, SHORT, Ledger
from weft.data.sources.parsing import ParsedRow

if TYPE_CHECKING:
    from weft.data.sources.text_source import TextSource

SAMPLE_BYTES = 100_000_000
"""Tokenizers are trained on at most this many bytes of the training text, sampled evenly over the files."""
EXACT_ROWS = 1_000_000
"""Up to this many training rows, the validation rows are counted exactly; beyond that, their number is met in expectation."""
_SAMPLE_CHARACTERS = 1 << 20
"""Of a longer text, tokenizers are trained on its first part."""
PROGRESS_ROWS = 8192
"""Rows between two progress reports."""
GROUP = "group"
"""The cell with the value of the group column, where rows are held out by group."""
_GOLDEN_RATIO = 0x9E3779B97F4A7C15
_EMPTY_HASH = hashlib.blake2b(digest_size=8)


@dataclass
class TargetSpec:
    """A field that is no text; most of them are predicted.

    Args:
        kind: The class of the field (see ``weft.core.fields``).
        labels: Class names in the order of their ids; None = collected from the training files.
        over: The text field that tags or spans refer to.
        declared: The field itself, where it has sizes of its own; None = as ``kind`` declares it.
    """

    kind: type[Field]
    labels: tuple[str, ...] | None = None
    over: str = ""
    declared: Field | None = None

    def field(self, name: str, labels: Sequence[str]) -> Field:
        """The field, with the class names that are known."""
        return self.declared or self.kind.declare(name, labels, self.over)

    @property
    def class_kind(self) -> type[ClassField] | None:
        """The class of a field with classes; None for others."""
        return self.kind if issubclass(self.kind, ClassField) else None


@dataclass
class TrainingScan:
    """Result of the pass over the training files.

    Args:
        labels: Class names of every target field.
        held_out: The units that are held out for validation.
    """

    labels: dict[str, list[str]]
    held_out: HeldOut

    @classmethod
    def from_document(cls, document: dict[str, Any]) -> TrainingScan:
        """The scan that was stored as JSON."""
        return cls(document["labels"], HeldOut(**document["held_out"]))


class TrainingSample:
    """Texts to train a tokenizer on, streamed from a file so that memory stays constant.

    Args:
        path: JSON Lines file: each line has the hash of a row's unit, then the texts of each text field.
        columns: Indices of the text fields to return.
        held_out: The units that are held out for validation, and skipped.
    """

    def __init__(self, path: Path, columns: Sequence[int], held_out: HeldOut):
        self.path, self.columns, self.held_out = path, columns, held_out

    def __iter__(self) -> Iterator[str]:
        with self.path.open(encoding="utf-8") as lines:
            for line in lines:
                row_hash, *texts = parse_json(line)
                if row_hash not in self.held_out:
                    yield from (text for column in self.columns for text in texts[column])


class _SampleWriter:
    """Writes an evenly spaced sample of at most ``SAMPLE_BYTES`` of the training text."""

    def __init__(self, path: Path | None, source: TextSource, total_bytes: int):
        self.path, self.names, self.list_fields = path, list(source.text_fields()), source.list_fields
        self.fraction = int(min(1.0, SAMPLE_BYTES / max(total_bytes, 1)) * 2**64)
        self.remaining = SAMPLE_BYTES
        self.stream = (path or Path(os.devnull)).open("w", encoding="utf-8")

    def add(self, index: int, row: ParsedRow, row_hash: bytes) -> None:
        if self.path is None or index * _GOLDEN_RATIO % 2**64 >= self.fraction or self.remaining <= 0:
            return
        texts = [row.cells[name][:_SAMPLE_CHARACTERS] for name in self.names]
        self.remaining -= sum(map(len, texts))
        parts = [text.split("\t") if name in self.list_fields else [text] for name, text in zip(self.names, texts, strict=True)]
        self.stream.write(json.dumps([int.from_bytes(row_hash), *parts]) + "\n")


def scan_training_files(
    source: TextSource, files: list[list[str]], sample: Path | None, progress: ProgressCallback
) -> TrainingScan:
    """Read the training files once.

    Args:
        source: Parses the rows and declares the fields.
        files: Files of each cursor.
        sample: Where to write the tokenizer sample; None = no tokenizer is trained.
        progress: Progress callback.
    """
    cursors, ledger = [source.cursor(group) for group in files], Ledger(flatten(files))
    total = sum(cursor.total for cursor in cursors)
    targets, holds_out = source.target_fields(), source.holds_out("train")
    found: dict[str, dict[str, None]] = {name: {} for name in targets}
    hashes: list[bytes] = []
    classes: list[str] = []
    spec, index = source.hold_out, -1
    writer = _SampleWriter(sample, source, total)
    with writer.stream:
        for index, row in enumerate(source.usable_rows(cursors, ledger)):
            row_hash = hash_unit(source, row)
            if holds_out and index <= EXACT_ROWS:
                hashes.append(row_hash)
                if spec.stratify:
                    classes.append(row.cells[next(iter(targets))])
            for name, target in targets.items():
                if target.class_kind is not None:
                    found[name].update(dict.fromkeys(target.class_kind.class_names(row.cells[name])))
            writer.add(index, row, row_hash)
            if index % PROGRESS_ROWS == 0:
                progress("scanning the training files", sum(cursor.read() for cursor in cursors), total)
    if index < 0:
        raise ValueError(explain_no_rows("train", files, ledger))
    progress("scanning the training files", total, total)
    labels = {name: _labels(target, found[name], files) for name, target in targets.items()}
    held_out = select_validation(spec, hashes, classes, index + 1, files) if holds_out else HeldOut()
    return TrainingScan(labels, held_out)


def select_validation(spec: HoldOut, hashes: list[bytes], classes: list[str], rows: int, files: list[list[str]]) -> HeldOut:
    """Return the units that are held out for validation.

    Args:
        spec: What to hold out.
        hashes: Hash of the unit of each row, up to ``EXACT_ROWS`` + 1.
        classes: Class of each of them, where needed.
        rows: Number of rows.
        files: The training files, for messages.
    """
    if rows > EXACT_ROWS:
        return hold_out_hashes(spec)
    held_out = hold_out_units(spec, hashes, classes)
    if held_out is not None:
        return held_out
    names, distinct = ", ".join(flatten(files)[:3]), len(set(hashes))
    units = "distinct texts" if spec.group is None else f"values of {spec.group!r}"
    if spec.fold is not None:
        raise ValueError(f"{names}: {rows} rows with {distinct} {units} leave one of {spec.folds} folds empty; set fewer folds")
    if not spec.is_plain:
        raise ValueError(
            f"{names}: validation_fraction {spec.fraction:g} of {rows} rows with {distinct} {units} leaves no row for training "
            "or validation; set valid, or another validation_fraction (0 = no validation)"
        )
    raise ValueError(
        f"{names}: validation_fraction {spec.fraction:g} of {rows} rows ({distinct} distinct) "
        "leaves no training rows; set valid, or a smaller validation_fraction (0 = no validation)"
    )


def train_tokenizers(source: TextSource, scan: TrainingScan, sample: Path, progress: ProgressCallback) -> dict[str, Tokenizer]:
    """Train one tokenizer per id space on the sample."""
    tokenizers, samples = source.tokenizers(), training_samples(source, scan, sample)
    for space, tokenizer in tokenizers.items():
        progress(f"training the tokenizer of {space}", 0, 0)
        tokenizer.train(samples[space])
    return tokenizers


def training_samples(source: TextSource, scan: TrainingScan, sample: Path) -> dict[str, Iterable[str]]:
    """Return the sampled texts of each id space."""
    spaces = list(source.text_fields().values())
    columns = {space: [index for index, other in enumerate(spaces) if other == space] for space in spaces}
    return {space: TrainingSample(sample, of_space, scan.held_out) for space, of_space in columns.items()}


def _labels(target: TargetSpec, found: Iterable[str], files: list[list[str]]) -> list[str]:
    if target.labels is not None or target.class_kind is None:
        return list(target.labels or ())
    labels = sort_labels(found)
    if len(labels) < 2:
        shown = ", ".join(flatten(files)[:3])
        noun = target.class_kind.noun
        raise ValueError(f"{shown}: every row has the {noun} {', '.join(labels)!r}; at least two classes are needed")
    return labels


def sort_labels(labels: Iterable[str]) -> list[str]:
    """Sort class names: numerically if all are integers (9 before 10), else alphabetically."""
    names = list(labels)
    numeric = all(label.isascii() and label.isdecimal() for label in names)
    return sorted(names, key=(lambda label: (int(label), label)) if numeric else None)


def hash_text(text: str) -> bytes:
    """Return a 64-bit BLAKE2b hash of the text."""
    state = _EMPTY_HASH.copy()  # faster than a new one
    state.update(text.encode())
    return state.digest()


def hash_unit(source: TextSource, row: ParsedRow) -> bytes:
    """Return the hash of what is not divided between training and validation: the text of a row, or its group."""
    spec = source.hold_out
    unit = source.group_key(row.cells)
    if spec.group is not None:
        if GROUP not in row.cells:
            raise ValueError(f"{row.where}: no column {spec.group!r}, which the option group names")
        unit = row.cells[GROUP].strip() or unit
    return hash_text(f"{spec.split_seed}\t{unit}" if spec.split_seed else unit)


def flatten(files: list[list[str]]) -> list[str]:
    """Return the files of all cursors as one list."""
    return [file for group in files for file in group]


def explain_no_rows(split: str, files: list[list[str]], ledger: Ledger) -> str:
    """Return the error message for a split without rows."""
    names, counts = ", ".join(flatten(files)[:3]), ledger.counts
    if not any(Path(file).stat().st_size for file in flatten(files)):
        return f"{names}: the file is empty"
    if malformed := counts["malformed rows"]:
        return f"{names}: no usable row: {malformed} malformed, the first: {ledger.report()['first malformed rows'][0]}"
    if dropped := [f"{counts[what]} {what}" for what in (SHORT, LONG) if counts[what]]:
        return f"{names}: no row left for {split}: of {counts['rows read']} rows, {' and '.join(dropped)} were dropped"
    if counts["rows held out for validation"] or counts["rows left to training"]:
        return f"{names}: no row left for {split}; set valid, or another validation_fraction"
    if not counts["rows read"]:
        return f"{names}: no row has text: no lines, or none below the header (lines must end with \\n, not \\r alone)"
    return f"{names}: no row has text ({counts['rows read']} rows are empty)"
