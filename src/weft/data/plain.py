"""Plain text: lines of a file."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import numpy as np

from weft.batch import Field, Info
from weft.catalog import Build, block
from weft.choices import Count, File, Share
from weft.data.bpe import BPE
from weft.data.columns import Column, TokenDataset
from weft.data.table import Table, read_lines, read_splits
from weft.slots import Codec, Corpus, Data, Tokenizer


@block("plain-text")
class PlainText(Data):
    """Lines of a text file, for language models and everything else that needs no more than text.

    A line of more than ``length`` tokens becomes several rows: tokens 0 .. length-1, length .. 2 length-1, and so on. Empty
    lines are dropped. Both are counted. One field, ``text``.

    Args:
        train: A UTF-8 file, one text a line.
        valid: The same for validation; without it, training rows are held out.
        test: The same for the final evaluation.
        tokenizer: How text becomes ids; trained on the training rows.
        length: Most tokens of a row.
        hold_out: Share of the training rows that is held out where ``valid`` is not given; 0 = none.

    Example:
        >>> data = PlainText(train="plays.txt", length=128)
        >>> data.declare()["text"].length
        128
    """

    def __init__(
        self,
        *,
        train: File,
        valid: File | None = None,
        test: File | None = None,
        tokenizer: Build[Tokenizer] = BPE,
        length: Count = 256,
        hold_out: Share = 0.05,
    ):
        self.train, self.valid, self.test = train, valid, test
        self.tokenizer, self.length, self.hold_out = tokenizer, length, hold_out

    def declare(self) -> Info:
        return self._info(self.tokenizer().bound())

    def tokenizers(self) -> dict[str, Tokenizer]:
        return {"text": self.tokenizer()}

    def open(self, codec: Codec | None = None) -> Corpus:
        tables = read_splits(self._read, self.train, self.valid, self.test, self.hold_out, by="text")
        if codec is None:
            tokenizers = self.tokenizers()
            tokenizers["text"].train(tables["train"].columns["text"])
            codec = Codec(self._info(tokenizers["text"].vocab), tokenizers)
        splits = {name: self._dataset(table, codec.tokenizers["text"]) for name, table in tables.items()}
        ledger = {name: {**table.ledger(), "rows": len(splits[name])} for name, table in tables.items()}
        return Corpus(codec, splits, ledger)

    def _info(self, vocab: int) -> Info:
        return Info({"text": Field("text", vocab, length=self.length)}, target="text", data="plain-text")

    def _read(self, file: str) -> Table:
        counts: Counter[str] = Counter()
        lines = read_lines(file, counts)
        return Table({"text": file}, {"text": lines}, list(range(1, len(lines) + 1)), counts).without_empty("text")

    def _dataset(self, table: Table, tokenizer: Tokenizer) -> TokenDataset:
        lines: list[int] = []
        column = table.count_unknown(Column.of(self._pieces(table, tokenizer, lines)))
        pieces = np.bincount(lines, minlength=len(table))

        def raw(row: int) -> dict[str, str]:
            """The line itself, or the text of its piece's tokens."""
            whole = pieces[lines[row]] == 1
            return {"text": table.columns["text"][lines[row]] if whole else tokenizer.decode(column[row].tolist())}

        return TokenDataset({"text": column}, raw)

    def _pieces(self, table: Table, tokenizer: Tokenizer, lines: list[int]) -> Iterator[list[int]]:
        """Rows of at most ``length`` ids; the line that each comes from is appended to ``lines``."""
        for line, text in enumerate(table.columns["text"]):
            ids = tokenizer.encode(text)
            if len(ids) > self.length:
                table.counts[f"lines split at {self.length} tokens"] += 1
            for start in range(0, max(1, len(ids)), self.length):
                lines.append(line)
                yield ids[start : start + self.length]
