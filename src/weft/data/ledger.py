"""Counts of what happened to the rows of a split between its files and the dataset: nothing is dropped or changed silently."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from weft.core.archive import LINKS
from weft.data.sources.cursor import BOM, EMPTY_FILES, WINDOWS
from weft.data.sources.parsing import COMMENTS, DOCUMENTS, NO_WORDS, ParsedRow

SHORT, LONG, REPEATED, SEVERAL = "short rows", "long rows", "duplicate rows", "texts in several classes"
WORDS_LOST = "words lost"
"""Also an extra cell of rows that were truncated after a word."""
OTHER_FILES = "other files"
WITHOUT, WIDENED, BEYOND = "questions without an answer", "answers widened", "answers truncated"
SPACING, CHANGED = "rows whose case or spacing changes", "rows whose characters change"
COUNTS = {
    "rows read": "lines, records, sentences or documents in the files",
    "empty rows": "of these, rows without text; dropped",
    "malformed rows": "of these, rows that cannot be parsed; dropped (on_bad_row: skip)",
    SHORT: "of these, rows with fewer than min_words words; dropped",
    LONG: "of these, rows with more than max_words words or max_length tokens; dropped (on_overflow: drop)",
    REPEATED: "of these, rows whose text occurred before; dropped (duplicates: drop)",
    SEVERAL: "texts that occur in more than one class; kept in each",
    "rows held out for validation": "of these, training rows moved to validation",
    "rows left to training": "of these, rows not held out for validation",
    "split rows": "of these, rows split into several (on_overflow: split)",
    "truncated rows": "of these, rows that lost tokens or words",
    "tokens lost": "tokens removed from truncated rows",
    WORDS_LOST: "words removed from truncated rows, where texts are truncated after a word",
    "rows": "rows in the dataset",
    "tokens": "tokens of all texts in the dataset",
    "unknown tokens": "of these, tokens outside the vocabulary (<unk>)",
    "rows checked by decoding": "rows tokenized and decoded again as a check: the first thousand, then one in a hundred",
    SPACING: "of these, rows whose decoded text differs in case or white space only",
    CHANGED: "of these, rows whose decoded text differs in other characters",
    WITHOUT: "rows whose context does not contain an answer",
    WIDENED: "answers that do not start and end at token boundaries; extended to full tokens",
    BEYOND: "answers in the truncated part of the context; treated as unanswerable",
    EMPTY_FILES: "files without content",
    OTHER_FILES: "files in folders and archives of images that are neither images nor belong to one, by their suffix; not read",
    LINKS: "links and devices in archives, and pipes and broken links in folders, of images; not read",
    COMMENTS: "comment lines (#) between tagged sentences; dropped (comments: true)",
    DOCUMENTS: "-DOCSTART- lines between tagged sentences; dropped",
    NO_WORDS: "lines of CoNLL-U that are no words: multiword tokens (1-2) and empty nodes (8.1); dropped",
    BOM: "byte-order marks at the start of files; dropped",
    WINDOWS: "lines that ended in \\r\\n",
}
"""The counts of a ledger, in order, with their meaning."""
LEFT_OUT = ("empty rows", "malformed rows", SHORT, LONG, REPEATED)
"""Counts of rows that are dropped."""
DUPLICATES = "near-duplicates of training"
"""Rows of validation or test that nearly equal a training row."""
EXAMPLES = 5
"""Maximum number of examples per problem."""
_QUOTED = 80
_CHECKED, _EVERY = 1000, 100


def quote(text: str) -> str:
    """Return the text in quotation marks, truncated to 80 characters."""
    return repr(text if len(text) <= _QUOTED else text[: _QUOTED - 3] + "...")


def _normalized(text: str) -> str:
    """The text without white space, case-folded."""
    return "".join(text.casefold().split())


def _from_first_difference(one: str, other: str) -> tuple[str, str]:
    """Two texts, starting shortly before their first difference."""
    characters = [[(index, c) for index, c in enumerate(text) if not c.isspace()] for text in (one, other)]
    pairs = zip(*characters, strict=False)
    ends = (len(one), len(other))
    first = next(((a, b) for (a, c), (b, d) in pairs if c.casefold() != d.casefold()), ends)
    starts = [max(0, index - _QUOTED // 2) for index in first]
    found = [("..." if start else "") + text[start:] for text, start in zip((one, other), starts, strict=True)]
    return found[0], found[1]


class Ledger:
    """Counts and first examples of malformed and changed rows.

    Files are stored by index, because a cached dataset may be used under different file names.

    Args:
        files: The files of the split.
        state: Result of ``state()``, to resume counting.
    """

    def __init__(self, files: Sequence[str], state: Mapping[str, Any] | None = None):
        self.files = list(files)
        state = state or {}
        self.counts: Counter[str] = Counter(state.get("counts", {}))
        self.malformed: list[list[Any]] = list(state.get("malformed", []))
        self.changed: list[list[Any]] = list(state.get("changed", []))
        self.seen: int = state.get("seen", 0)

    def state(self) -> dict[str, Any]:
        """Return a JSON-serializable state."""
        return {"counts": dict(self.counts), "malformed": self.malformed, "changed": self.changed, "seen": self.seen}

    def reject(self, row: ParsedRow, problem: str) -> None:
        """Count a malformed row."""
        self.counts["malformed rows"] += 1
        self._add_example(self.malformed, row, problem)

    def to_check(self) -> bool:
        """Return whether the next row is checked by decoding; call once for each row."""
        self.seen += 1
        return self.seen <= _CHECKED or self.seen % _EVERY == 0

    def check(self, row: ParsedRow, decoded: Mapping[str, str]) -> None:
        """Record whether the decoded texts of a row (by field) equal the originals."""
        self.counts["rows checked by decoding"] += 1
        changed = {name: text for name, text in decoded.items() if text != row.cells[name]}
        for name, text in changed.items():
            if _normalized(text) != _normalized(row.cells[name]):
                self.counts[CHANGED] += 1
                one, other = _from_first_difference(row.cells[name], text)
                return self._add_example(self.changed, row, f"{quote(one)} is decoded as {quote(other)}")
        self.counts[SPACING] += bool(changed)
        return None

    def _add_example(self, examples: list[list[Any]], row: ParsedRow, what: str) -> None:
        if len(examples) < EXAMPLES:
            examples.append([self.files.index(row.file), row.line, what])

    def report(self) -> dict[str, Any]:
        """Return all counts in order, then the examples with file and line."""
        examples = {"first malformed rows": self.malformed, "first rows whose characters change": self.changed}
        listed = {
            name: [f"{self.files[file]}{f':{line}' if line else ''}: {what}" for file, line, what in rows]
            for name, rows in examples.items()
            if rows
        }
        return {**{name: int(self.counts[name]) for name in COUNTS}, **listed}
