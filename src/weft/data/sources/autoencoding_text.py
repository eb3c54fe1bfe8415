"""Mirrored text: each text twice, as it is read and as it is written, for autoencoders."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, ClassVar, Literal

from weft.core.contracts import Codec, Tokenizer
from weft.core.io import list_files
from weft.core.options import Count, File, Share
from weft.core.registry import Build, block
from weft.data.encoding import Values, encode, longest, rows_of
from weft.data.holdout import share_for_all
from weft.data.ledger import LONG, REPEATED, SEVERAL, SHORT, WORDS_LOST, Ledger
from weft.data.prepared import Prepared
from weft.data.sources.labeled_text import LABEL, TEXT
from weft.data.sources.parsing import Cursor, Row, Wanted, is_json_lines, table
from weft.data.sources.text_source import Answer, BadRows, Written, hash_of, sort_labels
from weft.data.tokenizers.bpe import BPE

Files = File | list[File]
Sorted = Files | dict[str, Files]
"""Files; or those of each class, by its name."""
_WORD = re.compile(r"\S+")


@block("autoencoding-text")
class AutoencodingText(Written):
    """Each text twice, as it is read (``source``) and as it is written (``target``), by tokenizers that may differ.

    From files with a text a line, or tables (TSV, CSV or JSONL, by the file's ending). Blanks around a text are taken off. The
    classes, if there are any, are the names that the files are given by (``{positive: good.txt, negative: bad.txt}``), or a
    column of the tables. What is cut is cut after the same word on both sides. Fields ``source``, ``target`` and, where there are
    classes, ``label``.

    Two tokenizers: Li et al. 2020 (OPTIMUS), https://arxiv.org/abs/2004.04092

    Args:
        train: UTF-8 files; or the files of each class, by its name.
        valid: The same for validation, with all classes; without it, training texts are held out.
        test: The same for the final evaluation.
        text: The column of texts in a table; None = the first that is called text, sentence, review, content, document or body.
        label: The column of classes in tables; None = there are none, unless files are given by class (then tables among the
            others have it under its usual name: label, class, category, ...).
        tokenizer: How text is read; trained on the training texts.
        target_tokenizer: How it is written; None = the same, with one vocabulary for both sides.
        words: Fewest and most words of a text, with blanks between them. Texts with fewer are left out (counted).
        by_word: Whether what is read is encoded word by word, and each token says which word it is of (the mark ``word``), so
            that both sides have places in common though a word may be several tokens.
        length: Most tokens of a text, on either side, without begin and end.
        on_overflow: What happens to texts of more words or tokens: leave-out (counted), truncate (counted), or error.
        repeats: What happens to a text that came before in the same class (as it is after ``words``): keep, or drop (counted).
        on_bad_row: What happens to a row that cannot be read, or whose class training does not know: error, or skip (counted).
        hold_out: Share of the training texts that is held out where ``valid`` is not given; 0 = none.

    Example:
        >>> data = MirroredText(train={"positive": "good.txt", "negative": "bad.txt"}, target_tokenizer=BPE)
        >>> {field.name: field.space for field in data.declare().fields.values()}
        {'source': 'source', 'target': 'target', 'label': 'label'}
        >>> data.declare()["label"].labels
        ('negative', 'positive')
    """

    by, generated, later = "source", "target", ("length",)
    hints: ClassVar[Mapping[str, str]] = {
        "label": "name the column of classes in the tables (data.label=label), or give the files of each class by its name "
        "(data.train={positive: good.txt, negative: bad.txt})"
    }

    def __init__(
        self,
        *,
        train: Sorted,
        valid: Sorted | None = None,
        test: Sorted | None = None,
        text: str | None = None,
        label: str | None = None,
        tokenizer: Build[Tokenizer] = BPE,
        target_tokenizer: Build[Tokenizer] | None = None,
        words: tuple[Count, Count] = (1, 40),
        by_word: bool = False,
        length: Count = 256,
        on_overflow: Literal["leave-out", "truncate", "error"] = "leave-out",
        repeats: Literal["keep", "drop"] = "drop",
        on_bad_row: BadRows = "error",
        hold_out: Share = 0.05,
    ):
        if words[0] > words[1]:
            raise ValueError(f"words is the fewest and the most, but {words[0]} is more than {words[1]}: turn them round")
        super().__init__(train, valid, test, tokenizer, length, hold_out, on_bad_row, on_overflow)
        self.text, self.label, self.target_tokenizer = text, label, target_tokenizer
        self.words, self.by_word, self.repeats = (words[0], words[1]), by_word, repeats
        self.in_words, self.max_words = ("source",) if by_word else (), words[1]
        self.classes = self._classes()

    def _classes(self) -> tuple[str, ...]:
        """The classes by which files are given, the same in every split; none = no files are given so."""
        found = {name: place for name, place in self.places.items() if isinstance(place, dict)}
        for name, place in found.items():
            if len(place) < 2:
                one = f"one class ({', '.join(place)})" if place else "no class"
                raise ValueError(f"{name} has {one}: give the files of two or more, or without any class {name}: [file, ...]")
            for label, files in place.items():
                if not isinstance(label, str) or not label.strip():
                    raise ValueError(f"{name} has a class {label!r}: the name of a class is a text that is not blank")
                if label != label.strip():
                    raise ValueError(f"{name} has a class {label!r}: take the blanks around its name off")
                if not files:
                    raise ValueError(f"{name} has no files for the class {label!r}")
                if label == "type":  # what an override of one class makes of a file that stood there alone
                    raise ValueError(f"{name} has a class 'type': give all classes at once, {name}: {{one: file, another: file}}")
            there = {label: {str(Path(file).resolve()) for file in list_files(files)} for label, files in place.items()}
            for one, other in itertools.combinations(place, 2):
                if both := there[one] & there[other]:
                    raise ValueError(f"{name} has {min(both)} for the class {one!r} and for {other!r}: a file is of one class")
        first = next(iter(found), "")
        for name in found:
            if (own := set(found[name])) != (wanted := set(found[first])):
                here, there = (", ".join(sort_labels(classes)) for classes in (own, wanted))
                raise ValueError(f"{name} has files for the classes {here}, but {first} for {there}: they must be the same")
        if found and "train" not in found and self.label is None:
            raise ValueError(f"{first} has files by class, but train has no classes: give its files by class too, or name the "
                             "column of classes in its tables with label")  # fmt: skip
        return tuple(sort_labels(found[first])) if found else ()

    # ------------------------------------------------------------------------------------------------ what a source says

    def texts(self) -> dict[str, str]:
        return {side: "text" if self.target_tokenizer is None else side for side in ("source", "target")}

    def answers(self) -> dict[str, Answer]:
        known = self.classes if isinstance(self.places["train"], dict) else None
        return {"label": Answer("label", known)} if known or self.label is not None else {}

    def tokenizers(self) -> dict[str, Tokenizer]:
        if self.target_tokenizer is None:
            return {"text": self.tokenizer()}
        return {"source": self.tokenizer(), "target": self.target_tokenizer()}

    def files(self, place: Any) -> list[list[str]]:
        return [list_files(place[label]) for label in self.classes] if isinstance(place, dict) else [list_files(place)]

    def rows(self, cursors: list[Cursor]) -> Iterator[Row]:
        labels: list[str | None] = [*self.classes] if len(cursors) > 1 else [None]
        for label, cursor in zip(labels, cursors, strict=True):
            for file in cursor.each_file():
                for row in self._table(cursor, label) if _is_table(file) else self._lines(cursor, label):
                    yield row._replace(cells=self._mirrored(row.cells, label))

    def _mirrored(self, cells: Mapping[str, str], label: str | None) -> dict[str, str]:
        """The cells of a row that was read; of an empty one, none."""
        if not cells:
            return {}
        text, label = cells["text"].strip(), cells.get("label", "").strip() if label is None else label
        return self._twice(text) | ({"label": label} if label else {})

    def _twice(self, text: str) -> dict[str, str]:
        return {"source": " ".join(text.split()) if self.by_word else text, "target": text}

    def _lines(self, cursor: Cursor, label: str | None) -> Iterator[Row]:
        if label is None and self.answers():
            raise ValueError(
                f"{cursor.file}: its lines have no class: give a table (.tsv, .csv, .jsonl) with a column of classes, or the "
                "files of each class by its name, as in {positive: good.txt, negative: bad.txt}"
            )
        for line, problem in cursor.lines():
            yield Row(cursor.file, cursor.line, {"text": line}, problem)

    def _table(self, cursor: Cursor, label: str | None) -> Iterator[Row]:
        column = {"label": Wanted(self.label, LABEL)} if label is None and self.answers() else {}
        return table(cursor, {"text": Wanted(self.text, TEXT)} | column)

    def _identity(self, without: tuple[str, ...] = ()) -> list[Any]:
        return [*super()._identity(without), *self.classes]

    # ------------------------------------------------------------------------------------------------ which rows are used

    def usable(self, cursors: list[Cursor], ledger: Ledger) -> Iterator[Row]:
        places = [(cursor.number, cursor.line) for cursor in cursors]
        seen: dict[bytes, tuple[str, ...]] = {}
        if any(map(any, places)) and self.repeats == "drop":  # what a preparation that was killed had seen is read again
            again = [Cursor(cursor.files) for cursor in cursors]
            for _ in self._sifted(again, Ledger(ledger.files), seen):
                if [(cursor.number, cursor.line) for cursor in again] == places:
                    break
        return self._sifted(cursors, ledger, seen)

    def _sifted(self, cursors: list[Cursor], ledger: Ledger, seen: dict[bytes, tuple[str, ...]]) -> Iterator[Row]:
        """Rows of the right number of words, each text once in a class; ``seen`` are the classes in which each text stood."""
        least, most = self.words
        for row in super().usable(cursors, ledger):
            text, label = row.cells["target"], row.cells.get("label", "")
            words = len(text.split())
            if words < least:
                ledger.counts[SHORT] += 1
                continue
            if words > most:
                if self.on_overflow == "error":
                    raise ValueError(
                        f"{row.where}: the text has {words} words, but words allows {most}: raise it, shorten the row, or set "
                        "on_overflow to leave-out or truncate"
                    )
                if self.on_overflow == "leave-out":
                    ledger.counts[LONG] += 1
                    continue
                text = text[: _ends(text)[most - 1]]
                row = row._replace(cells={**row.cells, **self._twice(text), WORDS_LOST: str(words - most)})
            if self.repeats == "drop":
                known = hash_of(text)
                before = seen.get(known, ())
                if label in before:
                    ledger.counts[REPEATED] += 1
                    continue
                if len(before) == 1:
                    ledger.counts[SEVERAL] += 1
                seen[known] = (*before, label)
            yield row

    def _fit(self, codec: Codec, row: Row, values: Values, ledger: Ledger) -> list[tuple[Values, dict[str, str]]]:
        """The row, whole or cut after a word, if at least so many words as are needed fit; else nothing."""
        if self.on_overflow == "error" or _fits(codec, values):
            return super()._fit(codec, row, values, ledger)
        text = row.cells["target"]
        ends = _ends(text)
        fits = self._fitting(codec, text, ends) if self.on_overflow == "truncate" else 0
        if fits < self.words[0]:
            ledger.counts[LONG] += 1
            return []
        lost = int(row.cells.get(WORDS_LOST, 0)) + len(ends) - fits
        cells = {**row.cells, **self._twice(text[: ends[fits - 1]]), WORDS_LOST: str(lost)}
        return list(zip(rows_of(encode(codec, [cells])), [cells], strict=True))

    def _fitting(self, codec: Codec, text: str, ends: list[int]) -> int:
        """How many of the first words fit on both sides, when one more does not; all of them do not."""
        fits, too_many = 0, len(ends)
        while too_many - fits > 1:
            middle = (fits + too_many) // 2
            (short,) = rows_of(encode(codec, [self._twice(text[: ends[middle - 1]])]))
            fits, too_many = (middle, too_many) if _fits(codec, short) else (fits, middle)
        return fits

    def accept(self, name: str, rows: Prepared) -> None:
        """Every class needs examples; only other files that a run is judged by may lack some."""
        place, labels = self.places[name], rows.info["label"].labels if self.answers() else ()
        if name == "test" and not isinstance(place, dict):
            return
        there = set(rows.numbers("label").tolist()) if labels else set()
        for number, label in enumerate(labels):
            if number not in there:
                raise ValueError(f"{name} has no example of the class {label!r}: {self._why(name, label, rows)}")

    def _why(self, name: str, label: str, rows: Prepared) -> str:
        held = self._holds_out(name)
        place = self.places["train" if held else name]
        own = list_files(place[label]) if isinstance(place, dict) else []
        if own and not any(map(_says_something, own)):
            blank = "has only blank lines" if any(Path(file).stat().st_size for file in own) else "is empty"
            return f"{', '.join(own[:3])} {blank}"
        usable = self._sifted(*_from_the_start(self.files(place)), {})
        found = [(hash_of(self.same(row.cells)), row.cells["label"]) for row in usable]
        texts = [where for where, one in found if one == label]
        if not texts:
            why = self._unused(label, place)
            return why or f"give it rows of every class ({rows.ledger['counts']['rows']:,} rows are used)"
        edge = self._threshold([where for where, _ in found], len(found), self.files(place)) if held else 0
        here = [where for where in texts if not held or (int.from_bytes(where) < edge) == (name == "valid")]
        if here:
            cut = "" if self.on_overflow == "truncate" else ", or set on_overflow: truncate"
            return f"all of its texts ({len(here):,}) are longer than {self.length} tokens: raise length{cut}"
        other = share_for_all(found, self.hold_out)
        hint = "give valid" if other is None else f"give valid, or another hold_out (data.hold_out={other:g} would do)"
        return f"{'none' if name == 'valid' else 'all'} of its texts ({len(texts):,}) are held out: {hint}"

    def _unused(self, label: str, place: Any) -> str:
        """Why no text of a class has the right number of words; nothing where there is no text of it."""
        least, most = self.words
        good = super().usable(*_from_the_start(self.files(place)))
        sizes = [len(row.cells["target"].split()) for row in good if row.cells["label"] == label]
        counts = {f"{least} words or more": sum(n < least for n in sizes), f"{most} words or fewer": sum(n > most for n in sizes)}
        left = " and ".join(f"{count:,} have not {what}" for what, count in counts.items() if count)
        cut = ", or set on_overflow: truncate" if max(sizes, default=0) > most else ""
        return f"all of its texts are left out ({left}): change words{cut}" if left else ""


def _from_the_start(files: list[list[str]]) -> tuple[list[Cursor], Ledger]:
    """To read files again, with a ledger that nobody looks at."""
    return [Cursor(some) for some in files], Ledger(list(itertools.chain.from_iterable(files)))


def _is_table(file: str) -> bool:
    return is_json_lines(file) or Path(file).suffix.lower() in (".tsv", ".csv")


def _fits(codec: Codec, values: Values) -> bool:
    return all(longest(values, field) <= field.length for field in codec.info.texts())


def _ends(text: str) -> list[int]:
    """Where its words end."""
    return [word.end() for word in _WORD.finditer(text)]


def _says_something(file: str) -> bool:
    with Path(file).open(encoding="utf-8", errors="replace") as lines:
        return any(line.strip() for line in lines)
