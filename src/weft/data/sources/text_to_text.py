"""Text-to-text: labels, tags and answers of another source as texts to generate."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from weft.core.contracts import Data
from weft.core.fields import SpanField, TagsField, TextField
from weft.core.options import OptionError
from weft.core.registry import Build, block, name_of
from weft.data.ledger import Ledger
from weft.data.sources.cursor import Cursor
from weft.data.sources.parsing import Layout, ParsedRow, TableFormat
from weft.data.sources.text_source import TextSource
from weft.data.sources.training_scan import GROUP

UNANSWERABLE = "unanswerable"
"""The target of a question without an answer."""
_UNIT = "unit"


@block("text-to-text")
class TextToText(TextSource):
    """Another source as pairs of texts, with a prefix that names the task: ``sentiment: a great film`` -> ``positive``.

    The target is the class (several classes: separated by commas), the tags of the words, the answer, or the target text of the
    other source. Several texts are named: ``first: ... second: ...``. The files, the held-out examples, the tokenizer and
    ``max_length`` are those of the other source. Fields: ``source`` and ``target``.

    Raffel et al. 2020 (T5), https://arxiv.org/abs/1910.10683

    Args:
        of: The other source, such as labeled-text, sentence-pairs, tagged-text or parallel-text.
        prefix: Text before the source of each example; empty = none.
        names: Texts that stand for classes or tags: ``{"0": negative, "1": positive}``; None = the names in the data.

    Example:
        >>> from functools import partial
        >>> from weft.data import LabeledText
        >>> data = TextToText(of=partial(LabeledText, train="reviews.tsv"), prefix="sentiment: ")
        >>> list(data.declare().fields)
        ['source', 'target']
    """

    key_field, generated_field = "source", "target"

    def __init__(self, *, of: Build[Data], prefix: str = "", names: dict[str, str] | None = None):
        inner = of()
        if not isinstance(inner, TextSource):
            raise OptionError("of", f"text-to-text reads sources of text files, not {name_of(type(inner))}")
        overflow = inner.on_overflow if inner.on_overflow == "error" else "truncate"
        if inner.stratify:
            raise OptionError("of", "text-to-text has no classes to stratify the held-out examples by; set stratify: false")
        paths = inner.paths
        super().__init__(
            paths["train"], paths["valid"], paths["test"], inner.tokenizer, inner.max_length, inner.hold_out, inner.on_bad_row,
            overflow, inner.encoding,
        )  # fmt: skip
        self.of, self.prefix, self.names, self.inner = of, prefix, names, inner
        texts, targets = inner.text_fields(), inner.target_fields()
        self.target_name = next(iter(targets), "target" if "target" in texts else "")
        self.target_kind = targets[self.target_name].kind if targets else TextField
        self.input_names = [name for name in texts if name != self.target_name]
        if not self.target_name or not self.input_names:
            raise OptionError(
                "of", f"{name_of(type(inner))} has no label, tags, answer or target text to generate; use another source"
            )

    def text_fields(self) -> dict[str, str]:
        return {"source": "text", "target": "text"}

    def rows(self, cursors: list[Cursor]) -> Iterator[ParsedRow]:
        return map(self._as_texts, self.inner.rows(cursors))

    def inputs(self, cursors: list[Cursor]) -> Iterator[ParsedRow]:
        return (
            row._replace(cells={"source": self._source(row.cells)} if row.cells else {}) for row in self.inner.inputs(cursors)
        )

    def usable_rows(self, cursors: list[Cursor], ledger: Ledger) -> Iterator[ParsedRow]:
        return map(self._as_texts, self.inner.usable_rows(cursors, ledger))

    def _as_texts(self, row: ParsedRow) -> ParsedRow:
        """Return a row with the texts of a row of the other source."""
        if not row.cells or row.problem:
            return row
        target = row.cells[self.target_name]
        if self.target_kind is SpanField:  # the first answer is the training target
            target = target.partition("\t")[0] or UNANSWERABLE
        elif self.names is not None and self.target_kind is not TextField:
            between = " " if self.target_kind is TagsField else "\t"
            target = between.join(self.names.get(name, name) for name in target.split(between))
        cells = {"source": self._source(row.cells), "target": target.replace("\t", ", "), _UNIT: self.inner.group_key(row.cells)}
        return row._replace(cells={**cells, **({GROUP: row.cells[GROUP]} if GROUP in row.cells else {})})

    def group_key(self, cells: Mapping[str, str]) -> str:
        return cells[_UNIT]

    def _source(self, cells: Mapping[str, str]) -> str:
        texts = {name: cells[name].replace("\t", "; ") for name in self.input_names}
        named = [f"{name}: {text}" if len(texts) > 1 else text for name, text in texts.items()]
        return self.prefix + " ".join(named)

    def layout(self, file: str) -> Layout:
        """Return how the rows of a file are written."""
        return self.inner.layout(file)

    def table_format(self) -> TableFormat:
        """Return how the columns of a table are separated."""
        return self.inner.table_format()

    def recognizes(self, file: str) -> bool:
        """Return whether a file looks as if it were in the format of the other source."""
        return self.inner.recognizes(file)

    def files(self, paths: Any) -> list[list[str]]:
        return self.inner.files(paths)

    def _identity(self, without: tuple[str, ...] = ()) -> list[Any]:
        return [*super()._identity(("of", *without)), self.inner._identity(without)]
