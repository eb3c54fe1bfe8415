"""The tree of a recipe: nodes that know where they were written, and the mistakes found in them."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

COMMAND_LINE = "command line"
"""Location of a value that was given as an override, in place of file and line."""
MOST_NODES = 50_000
MOST_DEPTH = 60
MOST_PROBLEMS = 100
LONG_TEXT = 100


@dataclass(frozen=True)
class Problem:
    """One mistake: where it stands, the path of the option, and what to do about it."""

    where: str
    path: str
    text: str

    def __str__(self) -> str:
        return ": ".join(part for part in (self.where, self.path, self.text) if part)


class RecipeError(ValueError):
    """All mistakes of a recipe at once, in the order of their lines. What is long is said once."""

    def __init__(self, problems: Iterable[Problem]):
        self.problems = sorted(dict.fromkeys(problems), key=lambda p: _line_of(p.where))
        first: dict[str, Problem] = {}
        lines = [str(_again(first.setdefault(p.text, p), p)) for p in self.problems[:MOST_PROBLEMS]]
        if more := len(self.problems) - len(lines):
            lines.append(f"and {more:,} more")
        super().__init__("\n".join(lines))


def _again(first: Problem, problem: Problem) -> Problem:
    """A mistake that was told already, shorter."""
    if first is problem or len(problem.text) < LONG_TEXT:
        return problem
    where = f"{first.path} ({first.where})" if first.path and first.where else first.path or first.where or "above"
    return Problem(problem.where, problem.path, f"the same as {where}")


def _line_of(where: str) -> int:
    head, _, line = where.rpartition(":")
    return int(line) if head and line.isdigit() else 0


class Broken:
    """Stands for a value that could not be read. Its mistake is noted already, so nothing more is said about it."""

    def __repr__(self) -> str:
        return "?"


BROKEN = Broken()


@dataclass
class Node:
    """A value of a recipe: a dict or list of nodes, or a plain scalar; and where it was written."""

    value: Any
    where: str
    problems: list[Problem] = field(default_factory=list)
    """Of the root: the mistakes that were found so far."""
    copies: dict[str, str] = field(default_factory=dict)
    """Of the root: the paths of references, and what each copies."""

    def plain(self) -> Any:
        """The value without places."""
        if isinstance(self.value, dict):
            return {k: v.plain() for k, v in self.value.items()}
        if isinstance(self.value, list):
            return [v.plain() for v in self.value]
        return self.value

    def inner(self) -> list[Node]:
        """The nodes directly below."""
        if isinstance(self.value, dict):
            return list(self.value.values())
        return self.value if isinstance(self.value, list) else []

    def broken(self) -> bool:
        """Whether something in it could not be read."""
        return self.value is BROKEN or any(node.broken() for node in self.inner())

    def place(self) -> str:
        """Where to look for a mistake in it as a whole: where it was written, or changed last."""
        return COMMAND_LINE if any(node.place() == COMMAND_LINE for node in self.inner()) else self.where


def from_plain(value: Any, where: str) -> Node:
    """A tree of nodes from dicts, lists and scalars, all at one place."""
    if isinstance(value, Mapping):
        return Node({str(k): from_plain(v, where) for k, v in value.items()}, where)
    if isinstance(value, Sequence) and not isinstance(value, str):
        return Node([from_plain(v, where) for v in value], where)
    return Node(value, where)


def join(path: str, step: object) -> str:
    """A path one step further."""
    return f"{path}.{step}" if path else str(step)


def nearest(word: object, known: Iterable[str]) -> str:
    """``; did you mean 'x'?`` if something known is close to the word."""
    text = str(word)[:200].lower()
    close = [name for name in difflib.get_close_matches(text, list(known)) if not _another(text, name)]
    return f"; did you mean {close[0]!r}?" if close else ""


def _another(word: str, name: str) -> bool:
    """Whether they are two words rather than one misspelt: of three letters, a different one tells gpu from cpu."""
    return len(word) == len(name) <= 3 and sorted(word) != sorted(name)


def shorten(text: str, most: int = 60) -> str:
    """The text, cut where it is too long for a message."""
    return text if len(text) <= most else text[: most - 3] + "..."
