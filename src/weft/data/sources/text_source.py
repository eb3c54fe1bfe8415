"""Data written in files: from rows of text to prepared numbers, with everything counted on the way.

A source says what its rows are; the rest is here, once: what is held out for validation, how tokenizers are trained, what
happens to rows that are bad or too long, and what is kept of all this.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np

from weft.core.contracts import Codec, Corpus, Data, ProgressCallback, Tokenizer
from weft.core.fields import Field, Info, pack_pieces
from weft.core.io import list_files, read_json, write_json
from weft.core.registry import Build, choices, name_of
from weft.data import cache, fingerprints, prepared
from weft.data.encoding import Columns, Values, columns_from, encode, longest, rows_of, shorten, split, tags_of
from weft.data.holdout import below
from weft.data.ledger import BEYOND, DUPLICATES, LONG, SHORT, WIDENED, WITHOUT, WORDS_LOST, Ledger, short
from weft.data.near_duplicates import near_duplicates
from weft.data.prepared import Prepared, Writer, is_done
from weft.data.ragged_array import Lists
from weft.data.sources.parsing import Cursor, Row
from weft.data.tokenizers.word_cache import Recall

FORMAT = 2
"""Raised when the same files and options give other rows than before: what was kept is then made anew."""
SAMPLE = 100_000_000
"""Tokenizers are trained on at most so many bytes of the training rows, drawn evenly from all of them."""
EXACT = 1_000_000
"""Of up to so many rows, exactly the share that is asked for is held out; of more, nearly."""
SPLITS = ("train", "valid", "test")
_ROWS, _SIGNS, _NOTE = 8192, 1 << 21, 1 << 25
_CLASSLESS = ("number", "span")
_GOLDEN = 0x9E3779B97F4A7C15
_BLANK = hashlib.blake2b(digest_size=8)
BadRows = Literal["error", "skip"]
Overflow = Literal["error", "truncate"]


@dataclass
class Answer:
    """A field that is to be predicted: its kind (see ``Field``), its classes (None = those of the training files), its text."""

    kind: str
    labels: tuple[str, ...] | None = None
    over: str = ""


@dataclass
class Study:
    """What one look at the training files told: the classes of each answer, and which rows are held out."""

    labels: dict[str, list[str]]
    below: int
    """Rows whose text hashes below this are held out for validation; 0 = none."""


class Sample:
    """Training rows that tokenizers learn from, in a file, so that their number does not matter to the memory.

    Args:
        path: The file.
        places: Where in a row the texts stand that are wanted; each place has a list of them.
        below: Rows that hash below this are held out, and left out here.
    """

    def __init__(self, path: Path, places: Sequence[int], below: int):
        self.path, self.places, self.below = path, places, below

    def __iter__(self) -> Iterator[str]:
        with self.path.open(encoding="utf-8") as lines:
            for line in lines:
                where, *texts = json.loads(line)
                if where >= self.below:
                    yield from (text for place in self.places for text in texts[place])


class Written(Data):
    """What all sources of files share. A source calls ``__init__`` with its choices, and writes ``rows``, ``texts``, ``answers``.

    It keeps each of its options under the option's name: all of them are part of the key under which prepared rows are kept.
    """

    in_words: tuple[str, ...] = ()
    """Fields whose texts are given as words with spaces between them: each word is encoded by itself."""
    max_words = 0
    """Most words of such a text; 0 = as many as fit."""
    by = "text"
    """Rows that have the same text in this field stay together when some are held out (see ``same``)."""
    compared: tuple[str, ...] = ()
    """The fields by which rows are compared with training; none = ``by`` alone."""
    generated = "text"
    """The field that is to be generated."""
    several: tuple[str, ...] = ()
    """Fields of which a row has several texts; the cell has them with tabs between them."""
    beside: tuple[str, ...] = ()
    """Further cells of a row that are kept as they were written."""
    later: tuple[str, ...] = ("length", "on_overflow")
    """Options that matter only when the tokenizers have learned."""

    def __init__(
        self,
        train: Any,
        valid: Any,
        test: Any,
        tokenizer: Build[Tokenizer],
        length: int,
        hold_out: float,
        on_bad_row: BadRows,
        on_overflow: str,
    ):
        super().__init__()
        self.places = {"train": train, "valid": valid, "test": test}
        self.tokenizer, self.length, self.hold_out = tokenizer, length, hold_out
        self.on_bad_row, self.on_overflow = on_bad_row, on_overflow

    # ------------------------------------------------------------------------------------------------ what a source says

    def rows(self, cursors: list[Cursor]) -> Iterator[Row]:
        """The rows from where the cursors stand; a bad one has its problem, an empty one no cells."""
        raise TypeError(f"{type(self).__name__} has no rows")

    def usable(self, cursors: list[Cursor], ledger: Ledger) -> Iterator[Row]:
        """Of these rows the good ones. A source may leave out or change some of them, and counts that."""
        return self._good(cursors, ledger)

    def accept(self, name: str, rows: Prepared) -> None:
        """Raise ValueError where something is wrong with a split as a whole."""

    def same(self, cells: Mapping[str, str]) -> str:
        """What rows have in common that stay together when some are held out."""
        return cells[self.by]

    def files(self, place: Any) -> list[list[str]]:
        """The files of a split, a list for each cursor."""
        return [list_files(place)]

    def texts(self) -> dict[str, str]:
        """Fields of text, with the id space of each."""
        return {"text": "text"}

    def answers(self) -> dict[str, Answer]:
        """Fields to be predicted."""
        return {}

    def tokenizers(self) -> dict[str, Tokenizer]:
        return {space: self.tokenizer() for space in dict.fromkeys(self.texts().values())}

    # ------------------------------------------------------------------------------------------------------- the contract

    def declare(self) -> Info:
        tokenizers = self.tokenizers()
        sizes = {space: tokenizer.bound() for space, tokenizer in tokenizers.items()}
        return self._info(tokenizers, sizes, {name: list(a.labels or ()) for name, a in self.answers().items()})

    def open(
        self,
        codec: Codec | None = None,
        *,
        known: Mapping[str, Tokenizer] | None = None,
        only: Sequence[str] = (),
        tell: ProgressCallback | None = None,
    ) -> Corpus:
        tell = tell or _silent
        there = [s for s in SPLITS if self.places[s] is not None or self._holds_out(s)]
        wanted = [s for s in there if not only or s in only]
        if not wanted:
            raise ValueError(f"there is no split {' or '.join(map(repr, only))} in the data (there is: {', '.join(there)})")
        study = None
        if codec is None or any(self._holds_out(s) for s in wanted):
            study, codec = self._study(codec, known or {}, tell)
        fingerprint = fingerprints.of_codec(codec)
        keys: dict[str, str] = {}
        splits: dict[str, Prepared] = {}
        ledgers: dict[str, dict[str, Any]] = {}
        for name in wanted:
            keys[name], splits[name], ledgers[name] = self._prepare(name, codec, fingerprint, study, tell)
            self.accept(name, splits[name])
        for name in wanted:
            if name != "train" and "train" in splits:
                ledgers[name] |= self._duplicates(name, keys, splits, tell)
        return Corpus(codec, splits, ledgers)

    def _holds_out(self, name: str) -> bool:
        return name != "test" and self.places["valid"] is None and self.hold_out > 0

    def _info(self, tokenizers: dict[str, Tokenizer], sizes: dict[str, int], labels: dict[str, list[str]]) -> Info:
        fields: dict[str, Field] = {}
        for name, space in self.texts().items():
            tokenizer = tokenizers[space]
            fields[name] = Field(
                name,
                sizes[space],
                kind="texts" if name in self.several else "text",
                length=self.length,
                space=space,
                special=tokenizer.special,
                words=name in self.in_words,
                max_words=self.max_words if name in self.in_words else 0,
                letters=tokenizer.letters,
                frame=tokenizer.frame,
                pieces=pack_pieces(tokenizer.continues()),
                sentence_ends=tuple(tokenizer.sentence_ends()),
                sentinel_count=tokenizer.sentinel_count,
                start=tokenizer.start,
            )
        for name, answer in self.answers().items():
            classes = tuple(labels[name])
            size = 1 if answer.kind == "number" else max(2, len(classes))
            fields[name] = Field(name, size, kind=answer.kind, length=1, space=answer.over or name, labels=classes)
        return Info(fields, target=self.generated, data=name_of(type(self)), hints=self.hints)

    # ---------------------------------------------------------------------------------------------------------------- keys

    def _identity(self, without: tuple[str, ...] = ()) -> list[Any]:
        """Everything that the rows depend on, apart from the content of the files and what tokenizers have learned."""
        left_out = {*SPLITS, *without}
        chosen = {name: fingerprints.of_option(getattr(self, name)) for name in choices(type(self)) if name not in left_out}
        return [FORMAT, prepared.FORMAT, name_of(type(self)), chosen, *self.compared]

    def _there(self, name: str) -> list[list[str]]:
        """The files of a split; they must exist."""
        files = self.files(self.places[name])
        if not all(files):
            raise ValueError(f"{self.places[name]}: there are no files in this folder")
        for file in _flat(files):
            if not Path(file).exists():
                raise ValueError(f"{file}: there is no such file")
        return files

    def _study(self, codec: Codec | None, known: Mapping[str, Tokenizer], tell: ProgressCallback) -> tuple[Study, Codec]:
        """One look at the training files, and tokenizers that learned from them: from the cache, or now."""
        learns = codec is None and not known.keys() >= set(self.texts().values())
        files = self._there("train")
        tell("hashing the files", 0, 0)
        chosen = self._identity(without=self.later)
        key = cache.key_of("study", chosen, self._holds_out("train"), fingerprints.of_files(files))
        with cache.entry(key, lambda: tell("waiting for another process that prepares this data", 0, 0)) as folder:
            try:
                study = Study(**read_json(folder / "study.json"))
                learned = self._load(folder) if learns else {}
                return study, codec or self._codec(study, {**learned, **known})
            except (OSError, ValueError, TypeError):  # not there yet, not finished, or damaged
                (folder / "trained.json").unlink(missing_ok=True)
            sample = folder / "sample.jsonl" if learns else None
            study = self._look(files, sample, tell)
            write_json(folder / "study.json", asdict(study))
            learned = {}
            if sample:
                learned = self._train(study, sample, tell)
                for space, tokenizer in learned.items():
                    tokenizer.save(folder / f"tokenizer-{space}.json")
                write_json(folder / "trained.json", {"format": FORMAT})
                sample.unlink()
            return study, codec or self._codec(study, {**learned, **known})

    def _load(self, folder: Path) -> dict[str, Tokenizer]:
        read_json(folder / "trained.json")
        tokenizers = self.tokenizers()
        for space, tokenizer in tokenizers.items():
            tokenizer.load(folder / f"tokenizer-{space}.json")
        return tokenizers

    def _codec(self, study: Study, found: Mapping[str, Tokenizer]) -> Codec:
        tokenizers = {space: found[space] for space in dict.fromkeys(self.texts().values())}
        return Codec(self._info(tokenizers, {s: t.vocab for s, t in tokenizers.items()}, study.labels), tokenizers)

    # ------------------------------------------------------------------------------------- one look at the training files

    def _look(self, files: list[list[str]], sample: Path | None, tell: ProgressCallback) -> Study:
        cursors, ledger = [Cursor(some) for some in files], Ledger(_flat(files))
        total = sum(cursor.total for cursor in cursors)
        part, most = int(min(1.0, SAMPLE / max(total, 1)) * 2**64), SAMPLE
        names, answers, holds_out = list(self.texts()), self.answers(), self._holds_out("train")
        found: dict[str, dict[str, None]] = {name: {} for name in answers}
        hashes: list[bytes] = []
        number = -1
        with (sample or Path(os.devnull)).open("w", encoding="utf-8") as stream:
            for number, row in enumerate(self.usable(cursors, ledger)):
                where = hash_of(self.same(row.cells))
                if holds_out and number <= EXACT:
                    hashes.append(where)
                for name, answer in answers.items():
                    if answer.kind not in _CLASSLESS:
                        found[name].update(dict.fromkeys(_classes(answer.kind, row.cells[name])))
                if sample and number * _GOLDEN % 2**64 < part and most > 0:
                    texts = [row.cells[name] for name in names]
                    most -= sum(map(len, texts))
                    parts = [
                        text.split("\t") if name in self.several else [text] for name, text in zip(names, texts, strict=True)
                    ]
                    stream.write(json.dumps([int.from_bytes(where), *parts]) + "\n")
                if number % _ROWS == 0:
                    tell("looking at the data", sum(cursor.read() for cursor in cursors), total)
        if number < 0:
            raise ValueError(_nothing("train", files, ledger))
        labels = {name: self._labels(name, answer, found[name]) for name, answer in answers.items()}
        return Study(labels, self._threshold(hashes, number + 1, files) if holds_out else 0)

    def _threshold(self, hashes: list[bytes], rows: int, files: list[list[str]]) -> int:
        """The hash below which rows are held out."""
        if rows > EXACT:
            return min(int(self.hold_out * 2**64), 2**64 - 1)
        edge = below(hashes, self.hold_out)
        if edge is None:
            raise ValueError(
                f"{', '.join(_flat(files)[:3])}: holding out {self.hold_out:g} of {rows} rows ({len(set(hashes))} different "
                "ones) for validation leaves none to train on: give valid, or a smaller hold_out (0 for no validation)"
            )
        return edge

    def _labels(self, name: str, answer: Answer, found: Iterable[str]) -> list[str]:
        if answer.labels is not None or answer.kind in _CLASSLESS:
            return list(answer.labels or ())
        labels = sort_labels(found)
        if len(labels) < 2:
            shown, kind = ", ".join(_flat(self.files(self.places["train"]))[:3]), answer.kind.rstrip("s")
            raise ValueError(f"{shown}: all rows have the {kind} {', '.join(labels)!r}; two are needed")
        return labels

    def _train(self, study: Study, sample: Path, tell: ProgressCallback) -> dict[str, Tokenizer]:
        tokenizers, spaces = self.tokenizers(), list(self.texts().values())
        for space, tokenizer in tokenizers.items():
            tell(f"training the tokenizer of {space}", 0, 0)
            tokenizer.train(Sample(sample, [place for place, own in enumerate(spaces) if own == space], study.below))
        return tokenizers

    # ---------------------------------------------------------------------------------------------------------- preparing

    def _prepare(
        self, name: str, codec: Codec, fingerprint: list[Any], study: Study | None, tell: ProgressCallback
    ) -> tuple[str, Prepared, dict[str, Any]]:
        """The rows of a split, from the cache or made now; with their key, and what the ledger says of them."""
        keep: Callable[[str], bool] | None = None
        side: list[Any] = []
        files = self._there("train" if self._holds_out(name) else name)
        if self._holds_out(name):
            assert study is not None
            below, held = study.below.to_bytes(8), name == "valid"
            keep = lambda text: (hash_of(text) < below) == held  # noqa: E731
            side = [name, study.below]
        tell("hashing the files", 0, 0)
        key = cache.key_of("rows", self._identity(without=("hold_out",)), side, fingerprints.of_files(files), fingerprint)
        with cache.entry(key, lambda: tell("waiting for another process that prepares this data", 0, 0)) as folder:
            if not is_done(folder):
                self._write(folder, name, files, codec, keep, tell)
            rows = Prepared(folder, codec.info)
        return key, rows, Ledger(_flat(files), rows.ledger).shown()

    def _write(
        self,
        folder: Path,
        name: str,
        files: list[list[str]],
        codec: Codec,
        keep: Callable[[str], bool] | None,
        tell: ProgressCallback,
    ) -> None:
        writer = Writer(folder, codec.info, list(dict.fromkeys([*self.texts(), *self.answers(), *self.beside, self.by])))
        state = writer.state or {"marks": [(0, 0, 0)] * len(files), "ledger": None}
        ledger = Ledger(_flat(files), state["ledger"])
        cursors = [Cursor(some, tuple(mark), ledger.counts) for some, mark in zip(files, state["marks"], strict=True)]
        recall = {space: Recall(tokenizer) for space, tokenizer in codec.tokenizers.items()}
        noted, total = sum(cursor.read() for cursor in cursors), sum(cursor.total for cursor in cursors)
        other = "rows held out for validation" if name == "train" else "rows left to training"
        waiting: list[Row] = []
        signs = 0
        try:
            tell(f"preparing {name}", noted, total)
            for number, row in enumerate(self.usable(cursors, ledger), 1):
                same = self.same(row.cells)
                if keep is None or keep(same):
                    waiting.append(row)
                    signs += len(same)
                else:
                    ledger.counts[other] += 1
                if number % _ROWS and signs < _SIGNS:
                    continue
                self._add(writer, codec, recall, waiting, ledger)
                waiting, signs = [], 0
                read = sum(cursor.read() for cursor in cursors)
                tell(f"preparing {name}", read, total)
                if read - noted >= _NOTE:
                    noted = read
                    writer.note({"marks": [cursor.mark() for cursor in cursors], "ledger": ledger.state()})
            self._add(writer, codec, recall, waiting, ledger)
            if not ledger.counts["rows"]:
                raise ValueError(_nothing(name, files, ledger))
            writer.done(ledger.state())
        finally:
            writer.close()

    def _good(self, cursors: list[Cursor], ledger: Ledger) -> Iterator[Row]:
        """Rows that can be used; what is wrong with the others is said or counted."""
        counts, texts = ledger.counts, list(dict.fromkeys([*self.texts(), self.by]))
        needed = [name for name, answer in self.answers().items() if answer.kind not in ("labels", "span")]
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
                    problem = f"the row has no {missing[0]}"
            if problem:
                self._refuse(row, problem, ledger)

    def _refuse(self, row: Row, problem: str, ledger: Ledger) -> None:
        if self.on_bad_row == "error":
            raise ValueError(f"{row.where}: {problem}. Mend the row, or leave out such rows with on_bad_row: skip")
        ledger.refuse(row, problem)

    def _add(self, writer: Writer, codec: Codec, recall: dict[str, Recall], rows: list[Row], ledger: Ledger) -> None:
        """Encode rows and write them."""
        if not rows:
            return
        rows, columns = self._encoded(codec, recall, rows, ledger)
        for row in rows:
            if ledger.to_check():
                self._check(codec, row, ledger)
        raws: list[Any] = [row.cells for row in rows]
        self._count_spans(codec.info, columns, ledger)
        if any(_sizes(columns, field).max(initial=0) > field.length for field in codec.info.tokenized()):
            fitted = [
                piece
                for row, values in zip(rows, rows_of(columns), strict=True)
                for piece in self._fit(codec, row, values, ledger)
            ]
            columns = columns_from(codec.info, [values for values, _ in fitted])
            raws = [raw for _, raw in fitted]
        ledger.counts["rows"] += len(raws)
        if cut := [int(raw[WORDS_LOST]) for raw in raws if WORDS_LOST in raw]:
            ledger.counts["truncated rows"] += len(cut)
            ledger.counts[WORDS_LOST] += sum(cut)
        for field in codec.info.tokenized():
            column = columns[field.name]
            assert isinstance(column, Lists)
            ledger.counts["tokens"] += len(column.flat)
            ledger.counts["unknown tokens"] += int(np.count_nonzero(column.flat == field.special.unk))
        writer.add(columns, raws)

    def _count_spans(self, info: Info, columns: Columns, ledger: Ledger) -> None:
        for field in info.fields.values():
            if field.kind == "span":
                spans = columns[field.name]
                assert isinstance(spans, Lists)
                ledger.counts[WITHOUT] += int(np.count_nonzero(spans.sizes == 0))
                ledger.counts[WIDENED] += int(np.count_nonzero(columns[f"{field.name}/widened"]))

    def _encoded(self, codec: Codec, recall: dict[str, Recall], rows: list[Row], ledger: Ledger) -> tuple[list[Row], Columns]:
        try:
            return rows, encode(codec, [row.cells for row in rows], recall)
        except ValueError:  # find out which rows it is
            good: list[Row] = []
            for row in rows:
                try:
                    encode(codec, [row.cells], recall)
                    good.append(row)
                except ValueError as error:
                    self._refuse(row, str(error), ledger)
            return good, encode(codec, [row.cells for row in good], recall)

    def _check(self, codec: Codec, row: Row, ledger: Ledger) -> None:
        """Do the texts come back from their ids?"""
        decoded: dict[str, str] = {}
        for name, space in self.texts().items():
            tokenizer = codec.tokenizers[space]
            parts = row.cells[name].split("\t") if name in self.several else [row.cells[name]]
            decoded[name] = "\t".join(tokenizer.decode(tokenizer.encode(part)) for part in parts)
        ledger.check(row, decoded)

    def _fit(self, codec: Codec, row: Row, values: Values, ledger: Ledger) -> list[tuple[Values, dict[str, str]]]:
        """The row with no text longer than allowed: whole, cut, or in pieces; and the pieces as a person would write them."""
        info = codec.info
        field = next((f for f in info.tokenized() if longest(values, f) > f.length), None)
        if field is None:
            return [(values, dict(row.cells))]
        size = longest(values, field)
        if self.on_overflow == "error":
            raise ValueError(
                f"{row.where}: {field.name} has {size} tokens, but length is {field.length}: raise length, shorten the row, or "
                "set on_overflow to truncate"
            )
        if self.on_overflow == "split":
            ledger.counts["split rows"] += 1
            pieces, lost = split(info, values, field)
        else:
            short_one, lost = shorten(info, values)
            pieces = [short_one]
        if lost:
            ledger.counts["truncated rows"] += 1
            ledger.counts["tokens lost"] += lost
            for name in (f.name for f in info.fields.values() if f.kind == "span"):
                ledger.counts[BEYOND] += len(values[name]) > 0 and not any(len(piece[name]) for piece in pieces)
        return list(zip(pieces, self._spelled_out(codec, row, field, pieces), strict=True))

    def _spelled_out(self, codec: Codec, row: Row, field: Field, pieces: list[Values]) -> Iterator[dict[str, str]]:
        """The cells of each piece. A text that was cut keeps its end there: it is what was asked, or what should be answered."""
        if not field.words:
            for piece in pieces:
                cut = {field.name: codec.decode(field.name, piece[field.name].tolist())} if len(pieces) > 1 else {}
                yield {**row.cells, **cut}
            return
        first = 0
        columns = {name: row.cells[name].split(" ") for name in (field.name, *tags_of(codec.info, field))}
        for piece in pieces:
            last = first + len(piece[f"{field.name}/words"])
            yield {**row.cells, **{name: " ".join(cells[first:last]) for name, cells in columns.items()}}
            first = last

    # ------------------------------------------------------------------------------------------------------ near-duplicates

    def _compared(self, rows: Prepared) -> Sequence[str]:
        """The texts by which rows are compared."""
        columns = [rows.cells[name] for name in self.compared or (self.by,)]
        return columns[0] if len(columns) == 1 else _Joined(columns)

    def _duplicates(self, name: str, keys: dict[str, str], splits: dict[str, Prepared], tell: ProgressCallback) -> dict[str, Any]:
        """How many rows of a split are, but for a few words, rows of training too; found once, then kept."""
        with cache.entry(cache.key_of("duplicates", FORMAT, keys["train"], keys[name], self.compared or self.by)) as folder:
            file = folder / "duplicates.json"
            try:
                return read_json(file)
            except (OSError, ValueError):
                tell(f"looking for rows of training in {name}", 0, 0)
            train, rows = (self._compared(splits[split]) for split in ("train", name))
            found = near_duplicates(train, rows)
            examples = [
                f"{name} row {pair.valid_row} {short(rows[pair.valid_row])} is like training row {pair.train_row} "
                f"{short(train[pair.train_row])} ({pair.similarity:.2f})"
                for pair in found.examples
            ]
            said: dict[str, Any] = {DUPLICATES: found.count}
            if examples or found.note:
                said[f"first {DUPLICATES}"] = [*examples, *filter(None, [found.note])]
            write_json(file, said)
            return said


class _Joined(Sequence[str]):
    """The cells of several columns as one text a row, read when they are asked for."""

    def __init__(self, columns: Sequence[Sequence[str]]):
        self.columns = columns

    def __len__(self) -> int:
        return len(self.columns[0])

    def __getitem__(self, index: Any) -> Any:
        found: list[Any] = [column[index] for column in self.columns]
        return [" ".join(cells) for cells in zip(*found, strict=True)] if isinstance(index, slice) else " ".join(found)

    def __iter__(self) -> Iterator[str]:
        return map(" ".join, zip(*self.columns, strict=True))


def sort_labels(labels: Iterable[str]) -> list[str]:
    """By number where all are numbers (9 before 10), else by name."""
    names = list(labels)
    numeric = all(label.isdecimal() for label in names)
    return sorted(names, key=(lambda label: (int(label), label)) if numeric else None)


def _classes(kind: str, cell: str) -> list[str]:
    if not cell:
        return []
    return cell.split("\t") if kind == "labels" else cell.split(" ") if kind == "tags" else [cell]


def hash_of(text: str) -> bytes:
    """Eight bytes that say nearly as much."""
    state = _BLANK.copy()  # faster than a new one
    state.update(text.encode())
    return state.digest()


def _flat(files: list[list[str]]) -> list[str]:
    return [file for some in files for file in some]


def _sizes(columns: Columns, field: Field) -> np.ndarray:
    """Tokens of each text."""
    column = columns[field.name if field.kind == "text" else f"{field.name}/sizes"]
    assert isinstance(column, Lists)
    return column.sizes if field.kind == "text" else column.flat


def _nothing(name: str, files: list[list[str]], ledger: Ledger) -> str:
    """Why there are no rows."""
    names, counts = ", ".join(_flat(files)[:3]), ledger.counts
    if not any(Path(file).stat().st_size for file in _flat(files)):
        return f"{names}: the file is empty"
    if bad := counts["malformed rows"]:
        return f"{names}: no row can be used: {bad} are malformed, the first: {ledger.shown()['first malformed rows'][0]}"
    if left := [f"{counts[what]} {what}" for what in (SHORT, LONG) if counts[what]]:
        return f"{names}: no row is left for {name}: of {counts['rows read']} there are {' and '.join(left)}, which are left out"
    if counts["rows held out for validation"] or counts["rows left to training"]:
        return f"{names}: no row is left for {name}: give valid, or another hold_out"
    if not counts["rows read"]:
        return f"{names}: no row has any text: there is no line, or none below a header (lines end with \\n, not with \\r alone)"
    return f"{names}: no row has any text ({counts['rows read']} rows are empty)"


def _silent(text: str, done: int, total: int) -> None:
    pass
