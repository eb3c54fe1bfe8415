"""Labelled text: a table with a column of texts and a column of classes."""

from __future__ import annotations

from collections import Counter

import numpy as np

from weft.batch import Field, Info
from weft.catalog import Build, block
from weft.choices import Count, File, Share
from weft.data.bpe import BPE
from weft.data.columns import TokenDataset
from weft.data.table import Overflow, Table, read_lines, read_splits
from weft.slots import Codec, Corpus, Data, Tokenizer

_TEXT = ("text", "sentence")


@block("labelled-text")
class LabelledText(Data):
    """Texts with a class each, from tab-separated files with a header line.

    Lines are split at tabs and nowhere else: quotation marks are characters like any other. Rows without text are dropped,
    rows of more than ``length`` tokens cut; both are counted. Fields ``text`` and ``label``.

    Args:
        train: A UTF-8 file, tab-separated, whose first line names the columns.
        valid: The same for validation; without it, training rows are held out.
        test: The same for the final evaluation.
        text: The column of texts; None = the one named ``text`` or ``sentence``.
        label: The column of classes.
        labels: The classes, in the order of their numbers; None = those of the training file, sorted. Before the file is
            read, two are assumed.
        tokenizer: How text becomes ids; trained on the training rows.
        length: Most tokens of a row.
        on_overflow: What happens to longer rows: ``truncate`` (counted) or ``error``.
        hold_out: Share of the training rows that is held out where ``valid`` is not given; 0 = none.

    Example:
        >>> data = LabelledText(train="reviews.tsv", labels=("bad", "good", "mixed"))
        >>> data.declare()["label"].vocab
        3
    """

    def __init__(
        self,
        *,
        train: File,
        valid: File | None = None,
        test: File | None = None,
        text: str | None = None,
        label: str = "label",
        labels: tuple[str, ...] | None = None,
        tokenizer: Build[Tokenizer] = BPE,
        length: Count = 256,
        on_overflow: Overflow = "truncate",
        hold_out: Share = 0.05,
    ):
        if labels is not None and (len(labels) < 2 or len(set(labels)) < len(labels)):
            raise ValueError(f"labels must be at least two different names, not {list(labels)}")
        self.train, self.valid, self.test = train, valid, test
        self.text, self.label, self.labels = text, label, None if labels is None else tuple(labels)
        self.tokenizer, self.length, self.hold_out = tokenizer, length, hold_out
        self.on_overflow: Overflow = on_overflow

    def declare(self) -> Info:
        classes = 2 if self.labels is None else len(self.labels)
        return self._info(self.tokenizer().bound(), self.labels or (), classes)

    def tokenizers(self) -> dict[str, Tokenizer]:
        return {"text": self.tokenizer()}

    def open(self, codec: Codec | None = None) -> Corpus:
        tables = read_splits(self._read, self.train, self.valid, self.test, self.hold_out, by="text")
        codec = codec or self._train(tables)
        splits = {name: self._dataset(table, codec) for name, table in tables.items()}
        return Corpus(codec, splits, {name: table.ledger() for name, table in tables.items()})

    def _info(self, vocab: int, labels: tuple[str, ...], classes: int) -> Info:
        text = Field("text", vocab, length=self.length)
        label = Field("label", classes, kind="label", length=1, space="label", labels=labels)
        return Info({"text": text, "label": label}, target="text", data="labelled-text")

    def _train(self, tables: dict[str, Table]) -> Codec:
        labels = self.labels
        if labels is None:
            # rows that were held out are of the training file too, so a rare class cannot get lost among them
            known = ["train", "valid"] if self.valid is None and "valid" in tables else ["train"]
            found = {label for name in known for label in tables[name].columns["label"]}
            if len(found) < 2:
                raise ValueError(f"{self.train}: all rows have the label {found.pop()!r}; two classes are needed")
            labels = _sorted(found)
        tokenizers = self.tokenizers()
        tokenizers["text"].train(tables["train"].columns["text"])
        return Codec(self._info(tokenizers["text"].vocab, labels, len(labels)), tokenizers)

    def _read(self, file: str) -> Table:
        counts: Counter[str] = Counter()
        lines = read_lines(file, counts)
        header = lines[0].split("\t")
        text, label = self._find(file, header, self.text), self._find(file, header, self.label)
        table = Table({"text": file, "label": file}, {"text": [], "label": []}, [], counts)
        for number, line in enumerate(lines[1:], 2):
            cells = line.split("\t")
            if not line.strip():
                counts["empty rows dropped"] += 1
                continue
            if len(cells) != len(header):
                raise ValueError(f"{file}:{number}: {len(cells)} columns, but the header has {len(header)} ({', '.join(header)})")
            table.columns["text"].append(cells[text])
            table.columns["label"].append(cells[label].strip())
            table.lines.append(number)
            if not table.columns["label"][-1]:
                raise ValueError(f"{file}:{number}: the column {self.label!r} is empty")
        return table.without_empty("text")

    def _find(self, file: str, header: list[str], name: str | None) -> int:
        if name is None:
            name = next((column for column in _TEXT if column in header), None)
        if name is None or header.count(name) != 1:
            wanted = f"{header.count(name)} columns {name!r}" if name else f"no column {' or '.join(map(repr, _TEXT))}"
            raise ValueError(f"{file}:1: {wanted}; the header has: {', '.join(header)}. Say which with text and label")
        return header.index(name)

    def _dataset(self, table: Table, codec: Codec) -> TokenDataset:
        labels = codec.info["label"].labels
        number = {label: n for n, label in enumerate(labels)}
        for row, label in enumerate(table.columns["label"]):
            if label not in number:
                raise ValueError(
                    f"{table.where('label', row)}: the label {label!r} is unknown; "
                    f"{'labels has' if self.labels else 'the training file has'}: {', '.join(labels)}"
                )
        numbers = np.array([number[label] for label in table.columns["label"]])
        text = table.encode("text", codec.tokenizers["text"], self.length, self.on_overflow)
        return TokenDataset({"text": text}, table.raw, {"label": numbers})


def _sorted(labels: set[str]) -> tuple[str, ...]:
    """By number where all are numbers (9 before 10), else by name."""
    numeric = all(label.isdecimal() for label in labels)
    return tuple(sorted(labels, key=(lambda label: (int(label), label)) if numeric else None))
