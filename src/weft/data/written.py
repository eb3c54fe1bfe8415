"""Data written in files: from rows of text to prepared numbers, with everything counted on the way.

A source says what its rows are; the rest is here, once: what is held out for validation, how tokenizers are trained, what
happens to rows that are bad or too long, what is kept of all this, and the ledger.
"""

from __future__ import annotations

import hashlib
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np

from weft.batch import Field, Info
from weft.catalog import Build, identity, name_of
from weft.data import cache
from weft.data.codec import load_codec, save_codec
from weft.data.encoding import cut, encode, shorten
from weft.data.prepared import Prepared, Writer, is_done
from weft.data.reading import Cursor, Row
from weft.data.vocabulary import survives
from weft.files import content_hash, list_files, read_json, write_json
from weft.slots import Codec, Corpus, Data, Tell, Tokenizer

FORMAT = 1
SAMPLE = 100_000_000
"""Tokenizers are trained on at most so many bytes of the training rows, drawn evenly from all of them."""
EXAMPLES = 5
"""So many bad rows are shown in the ledger; the others are counted."""
_ROWS, _NOTE = 1000, 2**24
BadRows = Literal["error", "skip"]
Overflow = Literal["error", "truncate"]
Splits = Literal["train", "valid", "test"]


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


class Written(Data):
    """What all sources of files share. A source calls ``__init__`` with its choices; it writes ``rows``, ``texts``, ``answers``."""

    words = False
    """Whether the texts are given as words with spaces between them."""
    by = "text"
    """Rows that have the same text in this field stay together when some are held out."""
    target = "text"

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

    def open(self, codec: Codec | None = None, *, only: Sequence[str] = (), tell: Tell | None = None) -> Corpus:
        tell = tell or _silent
        wanted = [s for s in ("train", "valid", "test") if (not only or s in only) and (self.places[s] or self._holds_out(s))]
        if only and not wanted:
            raise ValueError(f"there is no split {' or '.join(only)} in the data")
        study = None
        if codec is None or any(self._holds_out(split) for split in wanted):
            study, codec = self._study(codec, tell)
        assert codec is not None
        splits = {split: self._prepare(split, codec, study, tell) for split in wanted}
        return Corpus(codec, splits, {name: dataset.ledger for name, dataset in splits.items()})

    def _holds_out(self, split: str) -> bool:
        return split != "test" and self.places["valid"] is None and self.hold_out > 0

    def _info(self, tokenizers: dict[str, Tokenizer], sizes: dict[str, int], labels: dict[str, list[str]]) -> Info:
        fields: dict[str, Field] = {}
        for name, space in self.texts().items():
            tokenizer = tokenizers[space]
            fields[name] = Field(
                name,
                sizes[space],
                length=self.length,
                space=space,
                special=tokenizer.special,
                words=self.words,
                letters=tokenizer.letters,
            )
        for name, answer in self.answers().items():
            classes, single = tuple(labels[name]), answer.kind == "number"
            size = 1 if single else max(2, len(classes))
            fields[name] = Field(name, size, kind=answer.kind, length=1, space=answer.over or name, labels=classes)
        return Info(fields, target=self.target, data=name_of(type(self)))

    # ------------------------------------------------------------------------------------- one look at the training files

    def _identity(self) -> list[Any]:
        """Everything that the rows depend on, apart from the content of the files and the tokenizers."""
        plain = {n: v for n, v in vars(self).items() if isinstance(v, int | float | str | tuple | list | None) and n != "places"}
        return [FORMAT, name_of(type(self)), plain]

    def _study(self, codec: Codec | None, tell: Tell) -> tuple[Study, Codec]:
        files = self.files(self.places["train"])
        tokenizers = [identity(v) for v in vars(self).values() if callable(v)]
        hashes = [[content_hash(file) for file in some] for some in files]
        with cache.entry(cache.key_of("study", self._identity(), tokenizers, hashes)) as folder:
            if (folder / ("fields.json" if codec is None else "study.json")).is_file():
                study = Study(**read_json(folder / "study.json"))
                return study, codec or load_codec(self, folder)
            study, texts = self._look(files, tell)
            write_json(folder / "study.json", asdict(study))
            if codec is None:
                codec = self._train(study, texts, tell)
                save_codec(codec, folder)
            return study, codec

    def _look(self, files: list[list[str]], tell: Tell) -> tuple[Study, dict[str, list[str]]]:
        cursors = [Cursor(some) for some in files]
        total = sum(cursor.total() for cursor in cursors)
        part = min(1.0, SAMPLE / max(total, 1))
        spaces, answers = self.texts(), self.answers()
        found: dict[str, dict[str, None]] = {name: {} for name in answers}
        hashes: list[np.ndarray] = []
        sample: list[tuple[int, dict[str, str]]] = []
        block: list[int] = []
        for number, row in enumerate(self._good(cursors, Counter(), [])):
            where = _hash(row.cells[self.by])
            block.append(where)
            for name, answer in answers.items():
                for label in _labels(answer.kind, row.cells.get(name, "")):
                    found[name].setdefault(label)
            if part == 1.0 or _hash(str(number)) < part * 2**64:
                sample.append((where, {name: row.cells[name] for name in spaces}))
            if len(block) == 100_000:
                hashes.append(np.array(block, np.uint64))
                block = []
            if number % _ROWS == 0:
                tell("looking at the data", sum(cursor.read() for cursor in cursors), total)
        all_hashes = np.concatenate([*hashes, np.array(block, np.uint64)])
        below = self._threshold(all_hashes, files) if self._holds_out("train") else 0
        texts: dict[str, list[str]] = {space: [] for space in spaces.values()}
        for where, cells in sample:
            if where >= below:
                for name, space in spaces.items():
                    texts[space].append(cells[name])
        return Study({name: self._classes(name, answer, found[name]) for name, answer in answers.items()}, below), texts

    def _threshold(self, hashes: np.ndarray, files: list[list[str]]) -> int:
        """The hash below which a share of the rows lies, at least one and not all; equal texts have equal hashes."""
        names, sizes = np.unique(hashes, return_counts=True)
        wanted = max(1, round(self.hold_out * len(hashes)))
        held = max(1, int(np.searchsorted(np.cumsum(sizes), wanted, side="right")))
        if held >= len(names):
            raise ValueError(
                f"{', '.join(file for some in files for file in some)}: holding out {self.hold_out:g} of {len(hashes)} rows "
                f"({len(names)} different ones) for validation leaves none to train on: give valid, or a smaller hold_out "
                "(0 for no validation)"
            )
        return int(names[held])

    def _classes(self, name: str, answer: Answer, found: dict[str, None]) -> list[str]:
        if answer.labels is not None or answer.kind == "number":
            return list(answer.labels or ())
        if len(found) < 2:
            raise ValueError(
                f"{self._shown('train')}: all rows have the {answer.kind.rstrip('s')} {next(iter(found), '')!r}; two are needed"
            )
        return sort_labels(found)

    def _train(self, study: Study, texts: dict[str, list[str]], tell: Tell) -> Codec:
        tokenizers = self.tokenizers()
        for space, tokenizer in tokenizers.items():
            tell(f"training the tokenizer of {space}", 0, 0)
            tokenizer.train(texts[space])
        return Codec(self._info(tokenizers, {s: t.vocab for s, t in tokenizers.items()}, study.labels), tokenizers)

    # ---------------------------------------------------------------------------------------------------------- preparing

    def _shown(self, split: str) -> str:
        return ", ".join(file for some in self.files(self.places[split]) for file in some[:3])

    def _prepare(self, split: str, codec: Codec, study: Study | None, tell: Tell) -> Prepared:
        """The rows of a split: from the cache, or made now."""
        source = "train" if self._holds_out(split) else split
        keep: Callable[[str], bool] | None = None
        side: list[Any] = []
        if self._holds_out(split):
            assert study is not None
            below, held = study.below, split == "valid"
            side = [split, below]
            keep = lambda text: (_hash(text) < below) == held  # noqa: E731
        files = self.files(self.places[source])
        hashes = [[content_hash(file) for file in some] for some in files]
        with cache.entry(cache.key_of("rows", self._identity(), side, hashes, _fingerprint(codec))) as folder:
            if not is_done(folder):
                self._write(folder, split, files, codec, keep, tell)
            return Prepared(folder, codec.info)

    def _write(
        self,
        folder: Path,
        split: str,
        files: list[list[str]],
        codec: Codec,
        keep: Callable[[str], bool] | None,
        tell: Tell,
    ) -> None:
        writer = Writer(folder, codec.info)
        state = writer.state or {"marks": [(0, 0, 0)] * len(files), "counts": {}, "bad": []}
        cursors = [Cursor(some, tuple(mark)) for some, mark in zip(files, state["marks"], strict=True)]
        counts, bad, total = Counter(state["counts"]), list(state["bad"]), sum(cursor.total() for cursor in cursors)
        noted = sum(cursor.read() for cursor in cursors)
        waiting: list[Row] = []

        def flush() -> None:
            self._add(writer, codec, waiting, counts, bad)
            waiting.clear()

        for row in self._good(cursors, counts, bad):
            if keep is not None and not keep(row.cells[self.by]):
                counts["held out" if split == "train" else "of the training file"] += 1
                continue
            waiting.append(row)
            if len(waiting) < _ROWS:
                continue
            flush()
            read = sum(cursor.read() for cursor in cursors)
            tell(f"preparing {split}", read, total)
            if read - noted >= _NOTE:
                noted = read
                writer.note({"marks": [cursor.mark() for cursor in cursors], "counts": counts, "bad": bad})
        flush()
        for cursor in cursors:
            counts.update(cursor.counts)
        if not counts["rows"]:
            raise ValueError(self._nothing(split, files, counts))
        writer.done({**counts, **({"malformed rows": bad} if bad else {})})

    def _nothing(self, split: str, files: list[list[str]], counts: Counter[str]) -> str:
        names = ", ".join(file for some in files for file in some[:3])
        if not any(Path(file).stat().st_size for some in files for file in some):
            return f"{names}: the file is empty"
        if counts["malformed"]:
            return f"{names}: all {counts['malformed']} rows are malformed"
        if counts["of the training file"]:
            return f"{names}: no row is left for {split}"
        return f"{names}: no row has any text"

    def _good(self, cursors: list[Cursor], counts: Counter[str], bad: list[str]) -> Iterator[Row]:
        """Rows that can be used; what is wrong with the others is said or counted."""
        for row in self.rows(cursors):
            counts["rows read"] += 1
            problem = row.problem
            if not problem and not all(row.cells.get(name, "").strip() for name in self.texts()):
                counts["empty"] += 1
                continue
            if not problem:
                missing = [
                    name for name, a in self.answers().items() if a.kind != "labels" and not row.cells.get(name, "").strip()
                ]
                problem = f"the column {missing[0]!r} is empty" if missing else ""
            if problem:
                self._refuse(row, problem, counts, bad)
            else:
                yield row

    def _refuse(self, row: Row, problem: str, counts: Counter[str], bad: list[str]) -> None:
        if self.on_bad_row == "error":
            raise ValueError(f"{row.where}: {problem}. Mend the row, or leave out such rows with on_bad_row: skip")
        counts["malformed"] += 1
        if len(bad) < EXAMPLES:
            bad.append(f"{row.where}: {problem}")

    def _add(self, writer: Writer, codec: Codec, rows: list[Row], counts: Counter[str], bad: list[str]) -> None:
        """Encode rows and write them."""
        made: list[dict[str, Any]] = []
        raws: list[dict[str, str]] = []
        for row, values in self._encoded(codec, rows, counts, bad):
            for piece, raw in self._fitted(codec, row, values, counts):
                made.append(piece)
                raws.append(raw)
        counts["rows"] += len(made)
        for field in codec.info.texts():
            counts["tokens"] += sum(len(values[field.name]) for values in made)
            if unknown := sum(values[field.name].count(field.special.unk) for values in made):
                counts["unknown tokens"] += unknown
        writer.add(made, raws)

    def _encoded(
        self, codec: Codec, rows: list[Row], counts: Counter[str], bad: list[str]
    ) -> Iterator[tuple[Row, dict[str, Any]]]:
        try:
            together = encode(codec, [row.cells for row in rows])
            yield from zip(rows, together, strict=True)
        except ValueError:  # find out which row it is
            for row in rows:
                try:
                    yield row, encode(codec, [row.cells])[0]
                except ValueError as error:
                    self._refuse(row, str(error), counts, bad)

    def _fitted(
        self, codec: Codec, row: Row, values: dict[str, Any], counts: Counter[str]
    ) -> Iterator[tuple[dict[str, Any], dict[str, str]]]:
        """The row with no text longer than allowed: whole, cut, or in pieces."""
        self._check_survival(codec, row, counts)
        info = codec.info
        short, lost = shorten(info, values)
        if not lost:
            yield values, row.cells
            return
        field = next(f for f in info.texts() if len(values[f.name]) > f.length)
        size = len(values[field.name])
        if self.on_overflow == "error":
            raise ValueError(
                f"{row.where}: {field.name} has {size} tokens, but length is {field.length}: raise length, shorten the row, or "
                "set on_overflow to truncate"
            )
        if self.on_overflow == "truncate":
            counts["truncated"] += 1
            counts["tokens lost"] += lost
            yield short, row.cells
            return
        counts["split"] += 1
        for start in range(0, size, field.length):
            piece = values | cut(info, values, field, start, start + field.length)
            yield piece, row.cells | self._written(codec, field, piece)

    def _written(self, codec: Codec, field: Field, piece: dict[str, Any]) -> dict[str, str]:
        """A piece of a text as text, with its tags."""
        tags = [n for n, f in codec.info.fields.items() if f.kind == "tags" and f.space == field.name]
        text = {field.name: codec.decode(field.name, piece[field.name])}
        return text | {name: " ".join(codec.info[name].labels[i] for i in piece[name]) for name in tags}

    def _check_survival(self, codec: Codec, row: Row, counts: Counter[str]) -> None:
        """Of the first thousand rows and every hundredth after them: does the text come back from its ids?"""
        counts["seen"] += 1
        if counts["seen"] > _ROWS and counts["seen"] % 100:
            return
        counts["texts decoded again"] += 1
        for name, space in self.texts().items():
            if not survives(codec.tokenizers[space], row.cells[name]):
                counts["of these not as before"] += 1
                return


def sort_labels(labels: Any) -> list[str]:
    """By number where all are numbers (9 before 10), else by name."""
    names = list(labels)
    numeric = all(label.isdecimal() for label in names)
    return sorted(names, key=(lambda label: (int(label), label)) if numeric else None)


def _labels(kind: str, cell: str) -> list[str]:
    if kind == "number" or not cell:
        return []
    return cell.split("\t") if kind == "labels" else cell.split(" ") if kind == "tags" else [cell]


def _hash(text: str) -> int:
    return int.from_bytes(hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).digest(), "little")


def _fingerprint(codec: Codec) -> list[Any]:
    """What the numbers depend on besides the rows: fields and vocabularies."""
    with tempfile.TemporaryDirectory() as folder:
        save_codec(codec, Path(folder))
        return [[path.name, content_hash(str(path))] for path in sorted(Path(folder).iterdir())]


def _silent(text: str, done: int, total: int) -> None:
    pass
