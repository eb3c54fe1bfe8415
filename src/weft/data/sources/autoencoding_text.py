"""Autoencoding text: each text as encoder input and as decoder target."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, ClassVar, Literal

from weft.core.contracts import Codec, Tokenizer
from weft.core.fields import LabelField, Values
from weft.core.io import list_files
from weft.core.options import Count, Fraction, Natural
from weft.core.registry import Build, block
from weft.data.encoding import encode, rows_of
from weft.data.holdout import HeldOut, HoldOut, fraction_for_all_classes
from weft.data.ledger import LONG, REPEATED, SEVERAL, SHORT, WORDS_LOST, Ledger
from weft.data.prepared import PreparedDataset
from weft.data.sources.class_files import ClassFiles, classes_of, files_by_class
from weft.data.sources.cursor import Cursor
from weft.data.sources.labeled_text import LABEL, TEXT
from weft.data.sources.parallel_text import source_and_target_spaces, source_and_target_tokenizers
from weft.data.sources.parsing import ColumnSpec, ParsedRow, TableFormat, check_delimiter, is_table, table
from weft.data.sources.text_rows import text_rows
from weft.data.sources.text_source import BadRows, TextSource
from weft.data.sources.training_scan import TargetSpec, flatten, hash_text, hash_unit, select_validation
from weft.data.tokenizers.bpe import BPE

_WORD = re.compile(r"\S+")


@block("autoencoding-text")
class AutoencodingText(TextSource):
    """Texts for autoencoders: each text is encoder input (``source``) and decoder target (``target``), with optional classes.

    From files with one text per line, or tables (TSV, CSV or JSON, by file suffix). White space around a text is removed.
    Classes are the keys by which files are given (``{positive: good.txt, negative: bad.txt}``), or a column of the tables.
    Truncation removes the same words on both sides. Fields: ``source``, ``target`` and, with classes, ``label``.

    Separate encoder and decoder tokenizers: Li et al. 2020 (OPTIMUS), https://arxiv.org/abs/2004.04092

    Args:
        train: Files; or the files of each class, by class name.
        valid: Validation files, with all classes; None = hold out a fraction of the training texts.
        test: Test files.
        delimiter: Character between the columns of a table; None = a comma in .csv files, a tab in others.
        quoted: Whether cells may be quoted (``"a cell"``, over several lines if need be); None = in .csv files only.
        text: Column of texts in a table; None = the first of text, sentence, review, content, document, body.
        label: Column of labels in tables; None = no labels, unless files are given by class (tables of other splits then have
            them under a usual name: label, class, category, ...).
        tokenizer: Tokenizer of the encoder, trained on the training texts.
        target_tokenizer: Tokenizer of the decoder; None = the same, with one vocabulary.
        min_words: Minimum number of words, separated by white space. Shorter texts are dropped (counted).
        max_words: Maximum number of words; see ``on_overflow``.
        word_ids: Whether the source is tokenized word by word and each token carries the index of its word (the feature
            ``word``), so that source and target share positions even if a word has several tokens.
        max_length: Maximum number of tokens on either side, without BOS and EOS.
        on_overflow: What happens to texts of more words or tokens: ``drop`` (counted), ``truncate`` (counted) or ``error``.
        duplicates: What happens to a text that occurred before in the same class (after truncation to ``max_words``): ``keep``,
            or ``drop`` (counted).
        on_bad_row: What happens to a malformed row, or one with a class unknown in training: ``error``, or ``skip`` (counted).
        validation_fraction: Fraction of the training texts held out where ``valid`` is None; 0 = no validation.
        fold: Fold that is held out for validation, from 0 (k-fold cross-validation); None = ``validation_fraction``.
        folds: Number of folds.
        split_seed: Seed of the hold-out split; equal texts are on the same side whatever it is.
        encoding: Encoding of the files, by its name in Python: utf-8, latin-1, cp1252, utf-16, gb18030, ...

    Example:
        >>> data = AutoencodingText(train={"positive": "good.txt", "negative": "bad.txt"}, target_tokenizer=BPE)
        >>> {field.name: field.space for field in data.declare().tokenized()}
        {'source': 'source', 'target': 'target'}
        >>> data.declare()["label"].labels
        ('negative', 'positive')
    """

    key_field, generated_field, encoding_options = "source", "target", ("max_length",)
    hints: ClassVar[Mapping[str, str]] = {
        "label": "name the column of labels in the tables (data.label=label), or give the files of each class "
        "(data.train={positive: good.txt, negative: bad.txt})"
    }

    def __init__(
        self,
        *,
        train: ClassFiles,
        valid: ClassFiles | None = None,
        test: ClassFiles | None = None,
        delimiter: str | None = None,
        quoted: bool | None = None,
        text: str | None = None,
        label: str | None = None,
        tokenizer: Build[Tokenizer] = BPE,
        target_tokenizer: Build[Tokenizer] | None = None,
        min_words: Count = 1,
        max_words: Count = 40,
        word_ids: bool = False,
        max_length: Count = 256,
        on_overflow: Literal["drop", "truncate", "error"] = "drop",
        duplicates: Literal["keep", "drop"] = "drop",
        on_bad_row: BadRows = "error",
        validation_fraction: Fraction = 0.05,
        fold: Natural | None = None,
        folds: Count = 5,
        split_seed: Natural = 0,
        encoding: str = "utf-8",
    ):
        if min_words > max_words:
            raise ValueError(f"min_words is {min_words}, more than max_words {max_words}; lower min_words or raise max_words")
        hold_out = HoldOut(validation_fraction, False, None, fold, folds, split_seed)
        super().__init__(train, valid, test, tokenizer, max_length, hold_out, on_bad_row, on_overflow, encoding)
        check_delimiter(delimiter)
        self.delimiter, self.quoted = delimiter, quoted
        self.text, self.label, self.target_tokenizer = text, label, target_tokenizer
        self.min_words, self.max_words, self.word_ids, self.duplicates = min_words, max_words, word_ids, duplicates
        self.pretokenized = ("source",) if word_ids else ()
        self.classes = classes_of(self.paths, label)

    # ------------------------------------------------------------------------------------------------------------- parsing

    def text_fields(self) -> dict[str, str]:
        return source_and_target_spaces(self.target_tokenizer)

    def target_fields(self) -> dict[str, TargetSpec]:
        known = self.classes if isinstance(self.paths["train"], dict) else None
        return {"label": TargetSpec(LabelField, known)} if known or self.label is not None else {}

    def tokenizers(self) -> dict[str, Tokenizer]:
        return source_and_target_tokenizers(self.tokenizer, self.target_tokenizer)

    def files(self, paths: Any) -> list[list[str]]:
        return files_by_class(paths, self.classes)

    def rows(self, cursors: list[Cursor]) -> Iterator[ParsedRow]:
        labels: list[str | None] = [*self.classes] if len(cursors) > 1 else [None]
        for label, cursor in zip(labels, cursors, strict=True):
            for file in cursor.each_file():
                for row in self._table(cursor, label) if is_table(file) else self._lines(cursor, label):
                    yield row._replace(cells=self._cells(row.cells, label))

    def _cells(self, cells: Mapping[str, str], label: str | None) -> dict[str, str]:
        if not cells:
            return {}
        text, label = cells["text"].strip(), cells.get("label", "").strip() if label is None else label
        return self._both_sides(text) | ({"label": label} if label else {})

    def _both_sides(self, text: str) -> dict[str, str]:
        return {"source": " ".join(text.split()) if self.word_ids else text, "target": text}

    def _lines(self, cursor: Cursor, label: str | None) -> Iterator[ParsedRow]:
        if label is None and self.target_fields():
            raise ValueError(
                f"{cursor.file}: the lines have no label; give a table (.tsv, .csv, .jsonl) with a column of labels, or the "
                "files of each class, as in {positive: good.txt, negative: bad.txt}"
            )
        yield from text_rows(cursor, "line")

    def _table(self, cursor: Cursor, label: str | None) -> Iterator[ParsedRow]:
        labels = {"label": ColumnSpec(self.label, LABEL, headerless=False)} if label is None and self.target_fields() else {}
        columns = {"text": ColumnSpec(self.text, TEXT, headerless=False)} | labels
        return table(cursor, columns, TableFormat(None, self.delimiter, self.quoted))

    # ----------------------------------------------------------------------------------------------------- filtering by text

    def usable_rows(self, cursors: list[Cursor], ledger: Ledger) -> Iterator[ParsedRow]:
        positions = [(cursor.number, cursor.line) for cursor in cursors]
        seen: dict[bytes, tuple[str, ...]] = {}
        if any(map(any, positions)) and self.duplicates == "drop":  # resumed: read again what was seen before
            again = [self.cursor(cursor.files) for cursor in cursors]
            for _ in self._filtered(again, Ledger(ledger.files), seen):
                if [(cursor.number, cursor.line) for cursor in again] == positions:
                    break
        return self._filtered(cursors, ledger, seen)

    def _filtered(self, cursors: list[Cursor], ledger: Ledger, seen: dict[bytes, tuple[str, ...]]) -> Iterator[ParsedRow]:
        """Rows with an allowed number of words, each text once per class; ``seen`` has the classes of each text so far."""
        for row in super().usable_rows(cursors, ledger):
            words = len(row.cells["target"].split())
            if words < self.min_words:
                ledger.counts[SHORT] += 1
                continue
            if words > self.max_words:
                if self.on_overflow == "error":
                    raise ValueError(
                        f"{row.where}: the text has {words} words, more than max_words {self.max_words}; raise max_words, "
                        "shorten the row, or set on_overflow to drop or truncate"
                    )
                if self.on_overflow == "drop":
                    ledger.counts[LONG] += 1
                    continue
                text = row.cells["target"]
                kept = self._both_sides(text[: _word_ends(text)[self.max_words - 1]])
                row = row._replace(cells={**row.cells, **kept, WORDS_LOST: str(words - self.max_words)})
            if self.duplicates == "keep" or self._is_new(row, ledger, seen):
                yield row

    def _is_new(self, row: ParsedRow, ledger: Ledger, seen: dict[bytes, tuple[str, ...]]) -> bool:
        """Whether the text is new in its class."""
        text_hash, label = hash_text(row.cells["target"]), row.cells.get("label", "")
        before = seen.get(text_hash, ())
        if label in before:
            ledger.counts[REPEATED] += 1
            return False
        if len(before) == 1:
            ledger.counts[SEVERAL] += 1
        seen[text_hash] = (*before, label)
        return True

    def fit(self, codec: Codec, row: ParsedRow, values: Values, ledger: Ledger) -> list[tuple[Values, dict[str, str]]]:
        """Return the row, complete or truncated after a word, if at least ``min_words`` fit; else nothing."""
        if self.on_overflow == "error" or _fits(codec, values):
            return super().fit(codec, row, values, ledger)
        text = row.cells["target"]
        ends = _word_ends(text)
        fitting = self._fitting_words(codec, text, ends) if self.on_overflow == "truncate" else 0
        if fitting < self.min_words:
            ledger.counts[LONG] += 1
            return []
        lost = int(row.cells.get(WORDS_LOST, 0)) + len(ends) - fitting
        cells = {**row.cells, **self._both_sides(text[: ends[fitting - 1]]), WORDS_LOST: str(lost)}
        return list(zip(rows_of(encode(codec, [cells])), [cells], strict=True))

    def _fitting_words(self, codec: Codec, text: str, ends: list[int]) -> int:
        """The largest number of leading words that fit on both sides, by bisection; all of them do not."""
        fits, too_many = 0, len(ends)
        while too_many - fits > 1:
            middle = (fits + too_many) // 2
            (short,) = rows_of(encode(codec, [self._both_sides(text[: ends[middle - 1]])]))
            fits, too_many = (middle, too_many) if _fits(codec, short) else (fits, middle)
        return fits

    # ------------------------------------------------------------------------------------------------- classes of a split

    def validate_split(self, name: str, rows: PreparedDataset) -> None:
        """Require examples of every class; only a test split without class files may lack some."""
        paths, labels = self.paths[name], rows.info.expect("label", LabelField).labels if self.target_fields() else ()
        if name == "test" and not isinstance(paths, dict):
            return
        present = set(rows.numbers("label").tolist()) if labels else set()
        for index, label in enumerate(labels):
            if index not in present:
                raise ValueError(f"{name} has no example of the class {label!r}: {self._explain_missing(name, label, rows)}")

    def _explain_missing(self, name: str, label: str, rows: PreparedDataset) -> str:
        """Why a split has no example of a class, and what to do."""
        held_out = self.holds_out(name)
        paths = self.paths["train" if held_out else name]
        own = list_files(paths[label]) if isinstance(paths, dict) else []
        if own and not any(line.strip() for file in own for line, _ in self.cursor([file]).lines()):
            blank = "has only blank lines" if any(Path(file).stat().st_size for file in own) else "is empty"
            return f"{', '.join(own[:3])} {blank}"
        usable = self._filtered(*self._from_the_start(self.files(paths)), {})
        found = [(hash_unit(self, row), row.cells["label"]) for row in usable]
        hashes = [text_hash for text_hash, other in found if other == label]
        if not hashes:
            why = self._explain_filtered(label, paths)
            return why or f"add rows of every class ({rows.ledger['counts']['rows']:,} rows are used)"
        units = HeldOut()
        if held_out:
            units = select_validation(self.hold_out, [h for h, _ in found], [], len(found), self.files(paths))
        here = [h for h in hashes if not held_out or (int.from_bytes(h) in units) == (name == "valid")]
        if here:
            cut = "" if self.on_overflow == "truncate" else ", or set on_overflow: truncate"
            return f"all of its texts ({len(here):,}) have more than {self.max_length} tokens; raise max_length{cut}"
        other = fraction_for_all_classes(found, self.validation_fraction)
        hint = "set valid" if other is None else f"set valid, or another fraction (data.validation_fraction={other:g} works)"
        return f"{'none' if name == 'valid' else 'all'} of its texts ({len(hashes):,}) are held out; {hint}"

    def _from_the_start(self, files: list[list[str]]) -> tuple[list[Cursor], Ledger]:
        """New cursors, with a ledger that is discarded."""
        return [self.cursor(group) for group in files], Ledger(flatten(files))

    def _explain_filtered(self, label: str, paths: Any) -> str:
        """Why no text of a class has an allowed number of words; empty if the class has no text at all."""
        well_formed = super().usable_rows(*self._from_the_start(self.files(paths)))
        sizes = [len(row.cells["target"].split()) for row in well_formed if row.cells["label"] == label]
        counts = {
            f"fewer than {self.min_words} words": sum(n < self.min_words for n in sizes),
            f"more than {self.max_words} words": sum(n > self.max_words for n in sizes),
        }
        dropped = " and ".join(f"{count:,} have {what}" for what, count in counts.items() if count)
        cut = ", or set on_overflow: truncate" if max(sizes, default=0) > self.max_words else ""
        return f"all of its texts are dropped ({dropped}); change min_words or max_words{cut}" if dropped else ""


def _fits(codec: Codec, values: Values) -> bool:
    return all(field.longest(values) <= field.max_length for field in codec.info.texts())


def _word_ends(text: str) -> list[int]:
    """Character offset of the end of each word."""
    return [word.end() for word in _WORD.finditer(text)]
