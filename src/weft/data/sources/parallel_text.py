"""Parallel text: source and target texts for sequence-to-sequence models."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from weft.core.contracts import Tokenizer
from weft.core.options import Count, File, Fraction, Natural
from weft.core.registry import Build, block
from weft.data.holdout import HoldOut
from weft.data.sources.cursor import Cursor
from weft.data.sources.parsing import ColumnSpec, ParsedRow, tables
from weft.data.sources.text_source import BadRows, Overflow, TextSource
from weft.data.tokenizers.bpe import BPE

FilePair = tuple[File, File] | File


@block("parallel-text")
class ParallelText(TextSource):
    """Pairs of a source text and a target text: translation, summarization, and other sequence-to-sequence tasks.

    From two files aligned by line, or from one table (TSV, CSV or JSON Lines, by file suffix) with a column for each. Pairs with
    an empty side are dropped, texts of more than ``max_length`` tokens are truncated; both are counted. Fields: ``source`` and
    ``target``.

    Args:
        train: Two UTF-8 files with the same number of lines, source and target; or one table.
        valid: Validation files; None = hold out a fraction of the training pairs.
        test: Test files.
        column_names: Column names of a table without a header; None = the first line is the header.
        source: Column of source texts in a table.
        target: Column of target texts in a table.
        tokenizer: Tokenizer, trained on the training pairs.
        target_tokenizer: Separate tokenizer of the target; None = one vocabulary for both sides.
        max_length: Maximum number of tokens of each text.
        on_overflow: What happens to longer texts: ``truncate`` (counted) or ``error``.
        on_bad_row: What happens to a malformed row: ``error``, or ``skip`` (counted).
        validation_fraction: Fraction of the training pairs held out where ``valid`` is None; 0 = no validation.
        fold: Fold that is held out for validation, from 0 (k-fold cross-validation); None = ``validation_fraction``.
        folds: Number of folds.
        split_seed: Seed of the hold-out split; equal texts are on the same side whatever it is.

    Example:
        >>> data = ParallelText(train=("train.de", "train.en"))
        >>> data.declare()["source"].space, data.declare().target
        ('text', 'target')
    """

    key_field, generated_field = "source", "target"

    def __init__(
        self,
        *,
        train: FilePair,
        valid: FilePair | None = None,
        test: FilePair | None = None,
        column_names: tuple[str, ...] | None = None,
        source: str = "source",
        target: str = "target",
        tokenizer: Build[Tokenizer] = BPE,
        target_tokenizer: Build[Tokenizer] | None = None,
        max_length: Count = 256,
        on_overflow: Overflow = "truncate",
        on_bad_row: BadRows = "error",
        validation_fraction: Fraction = 0.05,
        fold: Natural | None = None,
        folds: Count = 5,
        split_seed: Natural = 0,
    ):
        for name, files in (("train", train), ("valid", valid), ("test", test)):
            if not (files is None or isinstance(files, str) or len(files) == 2):
                raise ValueError(f"{name} must be two files, [source, target], or one table, not {len(files)} files")
        hold_out = HoldOut(validation_fraction, False, None, fold, folds, split_seed)
        super().__init__(train, valid, test, tokenizer, max_length, validation_fraction, on_bad_row, on_overflow, hold_out)
        self.target_tokenizer = target_tokenizer
        self.column_names = None if column_names is None else tuple(column_names)
        self.source, self.target = source, target

    def text_fields(self) -> dict[str, str]:
        return source_and_target_spaces(self.target_tokenizer)

    def tokenizers(self) -> dict[str, Tokenizer]:
        return source_and_target_tokenizers(self.tokenizer, self.target_tokenizer)

    def files(self, paths: FilePair) -> list[list[str]]:
        return [[paths]] if isinstance(paths, str) else [[file] for file in paths]

    def rows(self, cursors: list[Cursor]) -> Iterator[ParsedRow]:
        if len(cursors) == 1:
            return tables(cursors[0], {"source": ColumnSpec(self.source), "target": ColumnSpec(self.target)}, self.column_names)
        return self._aligned_lines(*cursors)

    def inputs(self, cursors: list[Cursor]) -> Iterator[ParsedRow]:
        return tables(cursors[0], {"source": ColumnSpec(self.source)}, self.column_names)

    def _aligned_lines(self, source: Cursor, target: Cursor) -> Iterator[ParsedRow]:
        for _ in source.each_file():
            for _ in target.each_file():
                target_lines = target.lines()
                for text, problem in source.lines():
                    other, other_problem = next(target_lines, (None, ""))
                    if other is None:
                        raise ValueError(_different_line_counts(source.file, target.file))
                    at = target if other_problem and not problem else source
                    yield ParsedRow(at.file, at.line, {"source": text, "target": other}, problem or other_problem)
                if next(target_lines, None) is not None:
                    raise ValueError(_different_line_counts(source.file, target.file))


def source_and_target_spaces(target_tokenizer: Build[Tokenizer] | None) -> dict[str, str]:
    """Return the id spaces of the fields ``source`` and ``target``: one, or two if the target has its own tokenizer."""
    return {side: "text" if target_tokenizer is None else side for side in ("source", "target")}


def source_and_target_tokenizers(tokenizer: Build[Tokenizer], target_tokenizer: Build[Tokenizer] | None) -> dict[str, Tokenizer]:
    """Return untrained tokenizers by id space; see ``source_and_target_spaces``."""
    if target_tokenizer is None:
        return {"text": tokenizer()}
    return {"source": tokenizer(), "target": target_tokenizer()}


def _different_line_counts(source: str, target: str) -> str:
    counts = f"{source} has {_count_lines(source)} lines, but {target} has {_count_lines(target)}"
    return f"{counts}; line n of the source must correspond to line n of the target"


def _count_lines(file: str) -> int:
    """Number of lines, including a last one without a line feed."""
    lines, last = 0, b"\n"
    with Path(file).open("rb") as stream:
        while chunk := stream.read(2**20):
            lines += chunk.count(b"\n")
            last = chunk[-1:]
    return lines + (last != b"\n")
