"""Short sentences of two classes, split into disjoint parts: the data of the class-conditional generation benchmark.

Sentences are deduplicated and shuffled with one seed; those in both classes are dropped. The parts are files by class under
runs/arms, one sentence per line.
"""

from __future__ import annotations

import random
from dataclasses import dataclass

from benchmarks.arms import FOLDER
from weft.core.io import write_text
from weft.core.options import find_file

Rows = list[tuple[str, str]]
"""Sentences with their classes."""


@dataclass(frozen=True)
class Corpus:
    """Sentences by class, and how they are split.

    Args:
        name: The folder under WEFT_DATA.
        classes: The names of its files.
        words: Minimum and maximum number of words.
        parts: Number of sentences per part, balanced over the classes; the remainder is the part ``rest``.
    """

    name: str
    classes: tuple[str, ...]
    words: tuple[int, int]
    parts: tuple[tuple[str, int], ...]

    def sentences(self) -> Rows:
        found: dict[str, dict[str, None]] = {}
        for name in self.classes:
            lines = find_file(f"{self.name}/{name}.txt").read_text(encoding="utf-8", errors="replace").split("\n")
            own = (line.strip() for line in lines if self.words[0] <= len(line.split()) <= self.words[1] and "\ufffd" not in line)
            found[name] = dict.fromkeys(own)
        rows = [(text, name) for name in self.classes for text in found[name]]
        rows = [(text, name) for text, name in rows if sum(text in own for own in found.values()) == 1]
        random.Random(0).shuffle(rows)
        return rows

    def cut(self) -> dict[str, Rows]:
        """The rows of each part."""
        found: dict[str, Rows] = {}
        rest = self.sentences()
        for part, number in self.parts:
            left = dict.fromkeys(self.classes, number // len(self.classes))
            taken: Rows = []
            after: Rows = []
            for row in rest:
                (taken if left[row[1]] else after).append(row)
                left[row[1]] = max(0, left[row[1]] - 1)
            if any(left.values()):
                raise ValueError(f"{self.name} has too few sentences for {number:,} in {part}")
            found[part], rest = taken, after
        return found | {"rest": rest}

    def files(self, part: str) -> dict[str, str]:
        """The file of each class; written if missing."""
        folder = FOLDER / f"sentences-{self.name}"
        found = {name: folder / f"{part}.{name}.txt" for name in self.classes}
        if not all(file.is_file() for file in found.values()):
            folder.mkdir(parents=True, exist_ok=True)
            for each, rows in self.cut().items():
                for name in self.classes:
                    write_text(folder / f"{each}.{name}.txt", "\n".join(text for text, own in rows if own == name) + "\n")
        return {name: str(file.resolve()) for name, file in found.items()}

    def data(self) -> tuple[str, ...]:
        """Overrides of a recipe that trains on this corpus."""
        return tuple(f"data.{split}={_flow(self.files(split))}" for split in ("train", "valid", "test"))


def _flow(files: dict[str, str]) -> str:
    return "{" + ", ".join(f"{name}: {file}" for name, file in files.items()) + "}"


def apart(rows: Rows) -> tuple[list[str], list[str]]:
    """The sentences, and their classes."""
    return [text for text, _ in rows], [label for _, label in rows]


YELP = Corpus("yelp", ("negative", "positive"), (4, 15), (("test", 1000), ("valid", 2000), ("oracle", 60_000), ("train", 40_000)))
"""The remaining 60,000 sentences train the language model that measures perplexity."""
STYLE = Corpus(
    "flickrstyle", ("humorous", "romantic"), (4, 20), (("test", 800), ("valid", 800), ("oracle", 3000), ("train", 7000))
)
