"""What happened to the rows of a split on the way from its files to the network: nothing is dropped, cut or changed silently."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from weft.data.sources.parsing import BOM, COMMENTS, EMPTY_FILES, WINDOWS, Row

SHORT, LONG, REPEATED, SEVERAL = "short rows", "long rows", "repeated rows", "texts of several classes"
WORDS_LOST = "words lost"
"""Also a cell of rows that were cut after a word."""
WITHOUT, WIDENED, BEYOND = "questions without an answer", "answers widened", "answers cut off"
SPACING, CHANGED = "rows decoded in other case or spacing", "rows decoded differently"
COUNTS = {
    "rows read": "lines, records, sentences or documents that the files have",
    "empty rows": "of these, how many have no text; left out",
    "malformed rows": "of these, how many cannot be understood; left out (on_bad_row: skip)",
    SHORT: "of these, how many have fewer words than a text needs; left out",
    LONG: "of these, how many have more words or tokens than a text may have; left out (on_overflow: leave-out)",
    REPEATED: "of these, how many have a text that came before; left out (repeats: drop)",
    SEVERAL: "texts that stand in more than one class; kept in each",
    "rows held out for validation": "of these, how many were taken from training",
    "rows left to training": "of these, how many validation did not take",
    "split rows": "of these, how many became several (on_overflow: split)",
    "truncated rows": "of these, how many lost tokens or words",
    "tokens lost": "how many tokens that were",
    WORDS_LOST: "how many words that were, where texts are cut after a word",
    "rows": "what is left, and used",
    "tokens": "how many they have, all texts together",
    "unknown tokens": "of these, how many stand for something that the vocabulary does not have",
    "rows checked by decoding": "rows whose texts were encoded and decoded to see: the first thousand, then one in a hundred",
    SPACING: "of these, how many came back with other capitals or blanks, and with every sign",
    CHANGED: "of these, how many came back with other signs",
    WITHOUT: "rows whose text does not have the answer that is asked for",
    WIDENED: "answers that did not begin and end where tokens do; all tokens that they touch are taken",
    BEYOND: "answers in what was cut from their text; such rows have none",
    EMPTY_FILES: "files without any content",
    COMMENTS: "lines between tagged sentences that begin with #; left out",
    BOM: "at the beginning of files",
    WINDOWS: "lines that ended in \\r\\n",
}
"""The counts of a ledger, in order, and what they mean."""
DUPLICATES = "near-duplicates of training"
"""Rows of validation or test that are, but for a few words, in training too."""
EXAMPLES = 5
"""So many of the rows that something happened to are shown; the others are counted."""
_SHOWN = 80
_CHECKED, _EVERY = 1000, 100


def short(text: str) -> str:
    """A text in quotation marks, its end left out where it is long."""
    return repr(text if len(text) <= _SHOWN else text[: _SHOWN - 3] + "...")


def _signs(text: str) -> str:
    return "".join(text.casefold().split())


def _around(one: str, other: str) -> tuple[str, str]:
    """Two texts, from a little before the place where they begin to differ."""
    signs = [[(place, sign) for place, sign in enumerate(text) if not sign.isspace()] for text in (one, other)]
    pairs = zip(*signs, strict=False)
    ends = (len(one), len(other))
    places = next(((a, b) for (a, sign), (b, its) in pairs if sign.casefold() != its.casefold()), ends)
    starts = [max(0, place - _SHOWN // 2) for place in places]
    found = [("..." if start else "") + text[start:] for text, start in zip((one, other), starts, strict=True)]
    return found[0], found[1]


class Ledger:
    """Counts, and the first examples of what was malformed or changed.

    Files are known by number, because the same content may be prepared once and used under another name.

    Args:
        files: The files of the split.
        state: What ``state`` gave, to go on from there.
    """

    def __init__(self, files: Sequence[str], state: Mapping[str, Any] | None = None):
        self.files = list(files)
        state = state or {}
        self.counts: Counter[str] = Counter(state.get("counts", {}))
        self.malformed: list[list[Any]] = list(state.get("malformed", []))
        self.changed: list[list[Any]] = list(state.get("changed", []))
        self.seen: int = state.get("seen", 0)

    def state(self) -> dict[str, Any]:
        return {"counts": dict(self.counts), "malformed": self.malformed, "changed": self.changed, "seen": self.seen}

    def refuse(self, row: Row, problem: str) -> None:
        self.counts["malformed rows"] += 1
        self._show(self.malformed, row, problem)

    def to_check(self) -> bool:
        """For each row once: whether its texts are to be decoded again."""
        self.seen += 1
        return self.seen <= _CHECKED or self.seen % _EVERY == 0

    def check(self, row: Row, decoded: Mapping[str, str]) -> None:
        """Note whether the texts of a row (by field) came back as they were."""
        self.counts["rows checked by decoding"] += 1
        changed = {name: text for name, text in decoded.items() if text != row.cells[name]}
        for name, text in changed.items():
            if _signs(text) != _signs(row.cells[name]):
                self.counts[CHANGED] += 1
                one, other = _around(row.cells[name], text)
                return self._show(self.changed, row, f"{short(one)} comes back as {short(other)}")
        self.counts[SPACING] += bool(changed)
        return None

    def _show(self, examples: list[list[Any]], row: Row, what: str) -> None:
        if len(examples) < EXAMPLES:
            examples.append([self.files.index(row.file), row.line, what])

    def shown(self) -> dict[str, Any]:
        """For people: all counts in order, then examples with file and line, where there are any."""
        examples = {"first malformed rows": self.malformed, "first rows decoded differently": self.changed}
        listed = {
            name: [f"{self.files[file]}:{line}: {what}" for file, line, what in rows] for name, rows in examples.items() if rows
        }
        return {**{name: int(self.counts[name]) for name in COUNTS}, **listed}
