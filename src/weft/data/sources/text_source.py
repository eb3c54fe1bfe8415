"""Base class of sources that read text files: from rows of text to an encoded, cached dataset.

A subclass parses its rows; validation splits, tokenizer training, malformed and long rows, caching and counting are shared.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, Literal

from weft.core.contracts import Codec, Corpus, Data, Dataset, ProgressCallback, Tokenizer
from weft.core.fields import Field, Info, TextField, Values, pack_continuations
from weft.core.io import list_files, read_json, write_json
from weft.core.options import OptionError
from weft.core.registry import Build, name_of, option_parameters
from weft.core.text_stream import check_encoding
from weft.data import cache, fingerprints, prepared
from weft.data.holdout import HoldOut
from weft.data.hub_rows import local_file
from weft.data.ledger import Ledger
from weft.data.prepared import PreparedDataset, is_done
from weft.data.sources.cursor import Cursor, CursorMark
from weft.data.sources.detect_encoding import check_file_encoding
from weft.data.sources.parsing import ColumnSpec, Layout, ParsedRow, TableFormat, table_layout
from weft.data.sources.split_preparation import fit_row, write_split
from weft.data.sources.train_overlap import count_train_overlap
from weft.data.sources.training_scan import (
    GROUP,
    TargetSpec,
    TrainingScan,
    flatten,
    hash_unit,
    scan_training_files,
    train_tokenizers,
    training_samples,
)

FORMAT = 4
"""Raised when the same files and options give different rows than before; cached rows are then prepared again."""
SPLITS = ("train", "valid", "test")
_CHECKED_FILES = 500
_WAITING = "waiting for another process that prepares this data"
BadRows = Literal["error", "skip"]
Overflow = Literal["error", "truncate"]


class TextSource(Data):
    """Base class of sources that read text files.

    A subclass passes the shared options to ``__init__`` and overrides ``rows``, and where needed ``text_fields`` and
    ``target_fields``. It stores every option in an attribute of the same name: all of them enter the cache key.

    Args:
        train: Training files.
        valid: Validation files; None = a fraction of the training rows is held out.
        test: Test files.
        tokenizer: Builds the tokenizer of each id space.
        max_length: Maximum number of tokens per text.
        hold_out: Which of the training rows are held out where ``valid`` is None.
        on_bad_row: ``error`` or ``skip``.
        on_overflow: What happens to texts of more than ``max_length`` tokens.
        encoding: Encoding of the files.
    """

    pretokenized: tuple[str, ...] = ()
    """Text fields that are split into words by spaces; each word is tokenized separately."""
    max_words = 0
    """Maximum number of words of a pretokenized text; 0 = limited by ``max_length`` alone."""
    key_field = "text"
    """Rows with equal text in this field stay in the same split when rows are held out (see ``group_key``)."""
    duplicate_fields: tuple[str, ...] | None = ()
    """Fields that are compared to find near-duplicates; empty = ``key_field``; None = none is a text."""
    generated_field = "text"
    """The field that generation produces."""
    list_fields: tuple[str, ...] = ()
    """Fields with several texts per row, separated by tabs in the cell."""
    classes: tuple[str, ...] = ()
    """Classes by which files are given (see ``classes_of``)."""
    extra_cells: tuple[str, ...] = ()
    """Further raw cells that are stored with a row."""
    encoding_options: tuple[str, ...] = ("max_length", "on_overflow")
    """Options that do not affect tokenizer training."""
    reading_options: tuple[str, ...] = ()
    """Options that do not affect what is stored, but how examples are made of it."""

    def __init__(
        self,
        train: Any,
        valid: Any,
        test: Any,
        tokenizer: Build[Tokenizer],
        max_length: int,
        hold_out: HoldOut,
        on_bad_row: BadRows,
        on_overflow: str,
        encoding: str,
    ):
        super().__init__()
        self.paths = {"train": train, "valid": valid, "test": test}
        self.tokenizer, self.max_length = tokenizer, max_length
        self.on_bad_row: BadRows = on_bad_row
        self.on_overflow, self.encoding = on_overflow, encoding
        self.hold_out, self.validation_fraction = hold_out, hold_out.fraction
        self.stratify, self.group, self.fold = self.hold_out.stratify, self.hold_out.group, self.hold_out.fold
        self.folds, self.split_seed = self.hold_out.folds, self.hold_out.split_seed
        if self.fold is not None and valid is not None:
            raise ValueError(f"fold {self.fold} of train is held out for validation, but valid is given too; remove one of them")
        try:
            check_encoding(encoding)
        except ValueError as error:
            raise OptionError("encoding", str(error)) from None

    # ----------------------------------------------------------------------------------------- overridden by subclasses

    def rows(self, cursors: list[Cursor]) -> Iterator[ParsedRow]:
        """Parse rows from the cursors' positions; a malformed row has a ``problem``, an empty one no cells."""
        raise TypeError(f"{type(self).__name__} does not implement rows(cursors)")

    def inputs(self, cursors: list[Cursor]) -> Iterator[ParsedRow]:
        """Parse rows as ``rows`` does, for prediction: what is to be predicted is neither needed nor returned."""
        inputs = {**self.text_fields(), **self.input_fields()}
        for row in self.rows(cursors):
            yield row._replace(cells={name: cell for name, cell in row.cells.items() if name in inputs})

    def layout(self, file: str) -> Layout:
        """Return how the rows of a file are written."""
        return table_layout(file)

    def table_format(self) -> TableFormat:
        """Return how the columns of a table are separated: the options of sources that have them."""
        return TableFormat(*(getattr(self, option, None) for option in TableFormat._fields))

    def recognizes(self, file: str) -> bool:
        """Return whether a file looks as if it were in the format of this source: its first row can be parsed."""
        try:
            row = next(self.inputs([self.cursor([file])]), None)
        except ValueError:
            return False
        return row is not None and not row.problem

    def usable_rows(self, cursors: list[Cursor], ledger: Ledger) -> Iterator[ParsedRow]:
        """Yield the rows that are used. A subclass may filter or change rows, and counts that in the ledger."""
        return self._well_formed(cursors, ledger)

    def validate_split(self, name: str, rows: PreparedDataset) -> None:
        """Raise ValueError if a prepared split cannot be used."""

    def group_key(self, cells: Mapping[str, str]) -> str:
        """Rows with the same key stay in the same split when rows are held out."""
        return cells[self.key_field]

    def group_column(self) -> dict[str, ColumnSpec]:
        """The column by whose values rows are held out, if any; files that are not divided need not have it."""
        return {} if self.group is None else {GROUP: ColumnSpec(self.group, required=False)}

    def files(self, paths: Any) -> list[list[str]]:
        """The files of a split, one list for each cursor."""
        return [list_files(paths)]

    def cursor(self, files: Sequence[str], mark: CursorMark = (0, 0, 0), counts: Counter[str] | None = None) -> Cursor:
        """Return a cursor on files of this source."""
        return Cursor(files, mark, counts, self.encoding)

    def text_fields(self) -> dict[str, str]:
        """Text fields with the id space of each."""
        return {"text": "text"}

    def target_fields(self) -> dict[str, TargetSpec]:
        """Fields to predict."""
        return {}

    def input_fields(self) -> dict[str, TargetSpec]:
        """Inputs that are no texts."""
        return {}

    def fingerprint(self, files: list[list[str]]) -> list[Any]:
        """What the rows of files depend on: their contents."""
        return fingerprints.of_files(files)

    def measured(self, codec: Codec, train: Callable[[], PreparedDataset]) -> Codec:
        """Return the codec of new data with what is measured on the training split. ``train`` prepares it."""
        return codec

    def examples(self, split: str, rows: PreparedDataset) -> Dataset:
        """The examples of a prepared split."""
        return rows

    def tokenizers(self) -> dict[str, Tokenizer]:
        return {space: self.tokenizer() for space in dict.fromkeys(self.text_fields().values())}

    def fit(self, codec: Codec, row: ParsedRow, values: Values, ledger: Ledger) -> list[tuple[Values, dict[str, str]]]:
        """Apply ``on_overflow`` to an encoded row; return the rows it becomes, each with its raw cells."""
        return fit_row(codec, row, values, ledger, self.on_overflow)

    # ------------------------------------------------------------------------------------------------------- the contract

    def declare(self) -> Info:
        tokenizers = self.tokenizers()
        sizes = {space: tokenizer.max_vocab() for space, tokenizer in tokenizers.items()}
        labels = {name: list(target.labels or ()) for name, target in self.target_fields().items()}
        return self._info(tokenizers, sizes, labels)

    def check_files(self) -> None:
        """Raise OptionError if a file is in another encoding."""
        for paths in (self.paths[split] for split in SPLITS if self.on_bad_row == "error" and self.paths[split] is not None):
            for file in flatten(self.files(paths))[:_CHECKED_FILES]:
                try:
                    check_file_encoding(file, self.encoding)
                except ValueError as error:
                    raise OptionError("encoding", str(error)) from None
                except OSError:
                    continue  # reported when it is read

    def open(
        self,
        codec: Codec | None = None,
        *,
        tokenizers: Mapping[str, Tokenizer] | None = None,
        splits: Sequence[str] = (),
        progress: ProgressCallback | None = None,
    ) -> Corpus:
        progress = progress or _silent
        available = [split for split in SPLITS if self.paths[split] is not None or self.holds_out(split)]
        wanted = select_splits(available, splits)
        scan, given = None, codec
        if codec is None or any(self.holds_out(split) for split in wanted):
            scan, codec = self._scan(codec, tokenizers or {}, progress)
        fields = {name: field.stored() for name, field in codec.info.fields.items()}
        fingerprint = fingerprints.of_codec(replace(codec, info=replace(codec.info, fields=fields)))
        if given is None:
            unmeasured = codec
            codec = self.measured(codec, lambda: self._prepare("train", unmeasured, fingerprint, scan, progress)[1])
        keys: dict[str, str] = {}
        datasets: dict[str, PreparedDataset] = {}
        ledgers: dict[str, dict[str, Any]] = {}
        for name in wanted:
            keys[name], datasets[name], ledgers[name] = self._prepare(name, codec, fingerprint, scan, progress)
            self.validate_split(name, datasets[name])
        compared = self.duplicate_fields or (self.key_field,)
        for name in wanted:
            if name != "train" and "train" in datasets and self.duplicate_fields is not None:
                key = [FORMAT, keys["train"], keys[name], compared]
                ledgers[name] |= count_train_overlap(name, key, datasets["train"], datasets[name], compared, progress)
        return Corpus(codec, {name: self.examples(name, rows) for name, rows in datasets.items()}, ledgers)

    def training_key(self) -> Any:
        files = self.fingerprint(self._existing_files("train"))
        return [self._identity(without=self.encoding_options), self.holds_out("train"), files]

    def training_texts(self, folder: Path, progress: ProgressCallback | None = None) -> dict[str, Iterable[str]]:
        sample = folder / "sample.jsonl"
        scan = scan_training_files(self, self._existing_files("train"), sample, progress or _silent)
        return training_samples(self, scan, sample)

    def holds_out(self, split: str) -> bool:
        """Whether this split shares the training files because validation rows are held out."""
        return split != "test" and self.paths["valid"] is None and (self.fold is not None or self.validation_fraction > 0)

    def _info(self, tokenizers: dict[str, Tokenizer], sizes: dict[str, int], labels: dict[str, list[str]]) -> Info:
        fields: dict[str, Field] = {}
        for name, space in self.text_fields().items():
            tokenizer = tokenizers[space]
            text = TextField(
                name,
                sizes[space],
                max_length=self.max_length,
                space=space,
                special=tokenizer.special,
                words=name in self.pretokenized,
                max_words=self.max_words if name in self.pretokenized else 0,
                characters=tokenizer.character_vocab,
                frame=tokenizer.frame,
                continuations=pack_continuations(tokenizer.continues()),
                sentence_ends=tuple(tokenizer.sentence_ends()),
                sentinel_count=tokenizer.sentinel_count,
                decoder_start=tokenizer.decoder_start,
            )
            fields[name] = text.several(name) if name in self.list_fields else text
        for name, target in {**self.input_fields(), **self.target_fields()}.items():
            fields[name] = target.field(name, labels.get(name, ()))
        return Info(fields, target=self.generated_field, data=name_of(type(self)), hints=self.hints)

    # -------------------------------------------------------------------------------------------------------- cached steps

    def _identity(self, without: tuple[str, ...] = ()) -> list[Any]:
        """What the rows depend on besides the content of the files and the trained tokenizers."""
        left_out = {*SPLITS, *self.reading_options, *without}
        chosen = {
            name: fingerprints.of_option(getattr(self, name)) for name in option_parameters(type(self)) if name not in left_out
        }
        return [FORMAT, prepared.FORMAT, name_of(type(self)), chosen, *(self.duplicate_fields or ()), *self.classes]

    def _existing_files(self, name: str) -> list[list[str]]:
        files = [[local_file(file) for file in group] for group in self.files(self.paths[name])]
        if not all(files):
            raise ValueError(f"{self.paths[name]}: the folder has no files; data.{name} needs at least one")
        for file in flatten(files):
            if not Path(file).exists():
                raise ValueError(f"{file}: file not found; set data.{name} to an existing file")
        return files

    def _scan(
        self, codec: Codec | None, existing: Mapping[str, Tokenizer], progress: ProgressCallback
    ) -> tuple[TrainingScan, Codec]:
        """Scan the training files and train the tokenizers, or load both from the cache."""
        trains = codec is None and not existing.keys() >= set(self.text_fields().values())
        files = self._existing_files("train")
        progress("hashing the files", 0, 0)
        options = self._identity(without=self.encoding_options)
        key = cache.key_of("scan", options, self.holds_out("train"), self.fingerprint(files))
        with cache.entry(key, lambda: progress(_WAITING, 0, 0)) as folder:
            try:
                scan = TrainingScan.from_document(read_json(folder / "scan.json"))
                trained = self._load_tokenizers(folder) if trains else {}
                return scan, codec or self._codec(scan, {**trained, **existing})
            except (OSError, ValueError, TypeError, KeyError):  # missing, unfinished or damaged
                (folder / "trained.json").unlink(missing_ok=True)
            sample = folder / "sample.jsonl" if trains else None
            scan = scan_training_files(self, files, sample, progress)
            write_json(folder / "scan.json", asdict(scan))
            trained = {}
            if sample:
                trained = train_tokenizers(self, scan, sample, progress)
                for space, tokenizer in trained.items():
                    tokenizer.save(folder / f"tokenizer-{space}.json")
                write_json(folder / "trained.json", {"format": FORMAT})
                sample.unlink()
            return scan, codec or self._codec(scan, {**trained, **existing})

    def _load_tokenizers(self, folder: Path) -> dict[str, Tokenizer]:
        read_json(folder / "trained.json")
        tokenizers = self.tokenizers()
        for space, tokenizer in tokenizers.items():
            tokenizer.load(folder / f"tokenizer-{space}.json")
        return tokenizers

    def _codec(self, scan: TrainingScan, trained: Mapping[str, Tokenizer]) -> Codec:
        tokenizers = {space: trained[space] for space in dict.fromkeys(self.text_fields().values())}
        return Codec(self._info(tokenizers, {s: t.vocab for s, t in tokenizers.items()}, scan.labels), tokenizers)

    def _prepare(
        self, name: str, codec: Codec, fingerprint: list[Any], scan: TrainingScan | None, progress: ProgressCallback
    ) -> tuple[str, PreparedDataset, dict[str, Any]]:
        """Return a split from the cache, or prepare it; with its cache key and its ledger."""
        keep: Callable[[ParsedRow], bool] | None = None
        side: list[Any] = []
        files = self._existing_files("train" if self.holds_out(name) else name)
        if self.holds_out(name):
            assert scan is not None
            held_out, validates = scan.held_out, name == "valid"
            keep = lambda row: (int.from_bytes(hash_unit(self, row)) in held_out) == validates  # noqa: E731
            side = [name, self.split_seed, self.group, asdict(held_out)]
        progress("hashing the files", 0, 0)
        options = self._identity(without=("validation_fraction", "stratify", "group", "fold", "folds", "split_seed"))
        key = cache.key_of("rows", options, side, self.fingerprint(files), fingerprint)
        with cache.entry(key, lambda: progress(_WAITING, 0, 0)) as folder:
            if not is_done(folder):
                write_split(self, folder, name, files, codec, keep, progress)
            rows = PreparedDataset(folder, codec.info)
        return key, rows, Ledger(flatten(files), rows.ledger).report()

    # ------------------------------------------------------------------------------------------------------ malformed rows

    def _well_formed(self, cursors: list[Cursor], ledger: Ledger) -> Iterator[ParsedRow]:
        """Yield rows with text and targets; reject malformed ones and count empty ones."""
        counts, texts = ledger.counts, list(dict.fromkeys([*self.text_fields(), *self.input_fields(), self.key_field]))
        needed = [name for name, target in self.target_fields().items() if not target.kind.may_be_empty]
        for row in self.rows(cursors):
            counts["rows read"] += 1
            cells, problem = row.cells, row.problem
            if not problem:
                for name in texts:
                    text = cells.get(name)
                    if not text or text.isspace():
                        counts["empty rows"] += 1
                        break
                else:
                    missing = [name for name in needed if not cells.get(name)] if needed else needed
                    if not missing:
                        yield row
                        continue
                    problem = f"{missing[0]} is empty"
            if problem:
                self.reject(row, problem, ledger)

    def reject(self, row: ParsedRow, problem: str, ledger: Ledger) -> None:
        """Raise ValueError for a malformed row, or count it (``on_bad_row: skip``)."""
        if self.on_bad_row == "error":
            raise ValueError(f"{row.where}: {problem}; fix the row, or set on_bad_row: skip to leave such rows out")
        ledger.reject(row, problem)


class MissingSplitError(ValueError):
    """The data has none of the requested splits."""


def select_splits(available: Sequence[str], requested: Sequence[str]) -> list[str]:
    """Return the requested splits; raise ValueError if the data has none of them."""
    wanted = [split for split in available if not requested or split in requested]
    if not wanted:
        raise MissingSplitError(f"the data has no split {' or '.join(map(repr, requested))}; available: {', '.join(available)}")
    return wanted


def _silent(text: str, done: int, total: int) -> None:
    pass
