"""Parallel text: two files, line by line."""

from __future__ import annotations

from collections import Counter

from weft.batch import Field, Info
from weft.catalog import Build, block
from weft.choices import Count, File, Share
from weft.data.bpe import BPE
from weft.data.columns import TokenDataset
from weft.data.table import Overflow, Table, read_lines, read_splits
from weft.slots import Codec, Corpus, Data, Tokenizer

Files = tuple[File, File]


@block("parallel-text")
class ParallelText(Data):
    """Pairs of lines from two files: a source, and the target that is to be made from it.

    Line n of one file belongs to line n of the other. Pairs with an empty side are dropped, rows of more than ``length``
    tokens cut; both are counted. Fields ``source`` and ``target``.

    Args:
        train: Two UTF-8 files of equally many lines: source, target.
        valid: The same for validation; without it, training rows are held out.
        test: The same for the final evaluation.
        tokenizer: How text becomes ids; trained on the training rows.
        target_tokenizer: A tokenizer of its own for the target; None = one vocabulary for both sides.
        length: Most tokens of a row, on either side.
        on_overflow: What happens to longer rows: ``truncate`` (counted) or ``error``.
        hold_out: Share of the training rows that is held out where ``valid`` is not given; 0 = none.

    Example:
        >>> data = ParallelText(train=("train.de", "train.en"))
        >>> data.declare()["source"].space, data.declare().target
        ('text', 'target')
    """

    def __init__(
        self,
        *,
        train: Files,
        valid: Files | None = None,
        test: Files | None = None,
        tokenizer: Build[Tokenizer] = BPE,
        target_tokenizer: Build[Tokenizer] | None = None,
        length: Count = 256,
        on_overflow: Overflow = "truncate",
        hold_out: Share = 0.05,
    ):
        for name, files in (("train", train), ("valid", valid), ("test", test)):
            if files is not None and (isinstance(files, str) or len(files) != 2):
                raise ValueError(f"{name} must be two files, [source, target], not {files!r}")
        self.train, self.valid, self.test = train, valid, test
        self.tokenizer, self.target_tokenizer = tokenizer, target_tokenizer
        self.length, self.hold_out = length, hold_out
        self.on_overflow: Overflow = on_overflow

    def declare(self) -> Info:
        return self._info({space: tokenizer.bound() for space, tokenizer in self.tokenizers().items()})

    def tokenizers(self) -> dict[str, Tokenizer]:
        if self.target_tokenizer is None:
            return {"text": self.tokenizer()}
        return {"source": self.tokenizer(), "target": self.target_tokenizer()}

    def open(self, codec: Codec | None = None) -> Corpus:
        tables = read_splits(self._read, self.train, self.valid, self.test, self.hold_out, by="source")
        codec = codec or self._train(tables["train"])
        splits = {name: self._dataset(table, codec) for name, table in tables.items()}
        return Corpus(codec, splits, {name: table.ledger() for name, table in tables.items()})

    def _space(self, side: str) -> str:
        return "text" if self.target_tokenizer is None else side

    def _info(self, vocabs: dict[str, int]) -> Info:
        spaces = {side: self._space(side) for side in ("source", "target")}
        fields = {side: Field(side, vocabs[space], length=self.length, space=space) for side, space in spaces.items()}
        return Info(fields, target="target", data="parallel-text")

    def _train(self, table: Table) -> Codec:
        tokenizers = self.tokenizers()
        for space, tokenizer in tokenizers.items():
            tokenizer.train([text for side, texts in table.columns.items() if self._space(side) == space for text in texts])
        return Codec(self._info({space: tokenizer.vocab for space, tokenizer in tokenizers.items()}), tokenizers)

    def _read(self, files: Files) -> Table:
        source, target = files
        counts: Counter[str] = Counter()
        sources, targets = read_lines(source, counts), read_lines(target, counts)
        if len(sources) != len(targets):
            raise ValueError(
                f"{source} has {len(sources)} lines, but {target} has {len(targets)}: "
                "line n of one must belong to line n of the other"
            )
        columns = {"source": sources, "target": targets}
        table = Table({"source": source, "target": target}, columns, list(range(1, len(sources) + 1)), counts)
        return table.without_empty("source", "target")

    def _dataset(self, table: Table, codec: Codec) -> TokenDataset:
        tokenizers = {side: codec.tokenizers[codec.info[side].space] for side in table.columns}
        columns = {side: table.encode(side, tokenizer, self.length, self.on_overflow) for side, tokenizer in tokenizers.items()}
        return TokenDataset(columns, table.raw)
