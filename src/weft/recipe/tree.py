"""The syntax tree of a recipe: nodes with their source location, and the problems found in them."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

COMMAND_LINE = "command line"
"""Location of an override, instead of file and line."""
MAX_NODES = 50_000
MAX_DEPTH = 60
MAX_PROBLEMS = 100
LONG_TEXT = 100
_MOST_NAMES = 3
"""Names that a hint lists."""


@dataclass(frozen=True)
class Problem:
    """One error of a recipe: source location, path of the option, and message."""

    where: str
    path: str
    text: str

    def __str__(self) -> str:
        return ": ".join(part for part in (self.where, self.path, self.text) if part)


class RecipeError(ValueError):
    """All problems of a recipe, ordered by line. A long message that occurs again is abbreviated."""

    def __init__(self, problems: Iterable[Problem]):
        self.problems = sorted(dict.fromkeys(problems), key=lambda p: _line_of(p.where))
        first: dict[str, Problem] = {}
        lines = [str(_again(first.setdefault(p.text, p), p)) for p in self.problems[:MAX_PROBLEMS]]
        if more := len(self.problems) - len(lines):
            lines.append(f"and {more:,} more")
        super().__init__("\n".join(lines))


def _again(first: Problem, problem: Problem) -> Problem:
    """A problem whose message was already reported, abbreviated."""
    if first is problem or len(problem.text) < LONG_TEXT:
        return problem
    where = f"{first.path} ({first.where})" if first.path and first.where else first.path or first.where or "above"
    return Problem(problem.where, problem.path, f"the same as {where}")


def _line_of(where: str) -> int:
    head, _, line = where.rpartition(":")
    return int(line) if head and line.isdigit() else 0


class Broken:
    """Placeholder for a value that could not be parsed. Its problem is already recorded."""

    def __repr__(self) -> str:
        return "?"


BROKEN = Broken()


@dataclass
class Node:
    """A value of a recipe, a dict or list of nodes or a scalar, with its source location."""

    value: Any
    where: str
    problems: list[Problem] = field(default_factory=list)
    """Of the root: the problems found so far."""
    copies: dict[str, str] = field(default_factory=dict)
    """Of the root: the path of each reference, and the path it copies."""

    def plain(self) -> Any:
        """The value as plain dicts, lists and scalars."""
        if isinstance(self.value, dict):
            return {k: v.plain() for k, v in self.value.items()}
        if isinstance(self.value, list):
            return [v.plain() for v in self.value]
        return self.value

    def inner(self) -> list[Node]:
        """The child nodes."""
        if isinstance(self.value, dict):
            return list(self.value.values())
        return self.value if isinstance(self.value, list) else []

    def broken(self) -> bool:
        """Whether any value in it could not be parsed."""
        return self.value is BROKEN or any(node.broken() for node in self.inner())

    def location(self) -> str:
        """The location to report for the node as a whole: where it was written, or overridden last."""
        return COMMAND_LINE if any(node.location() == COMMAND_LINE for node in self.inner()) else self.where


def from_plain(value: Any, where: str) -> Node:
    """Build a tree of nodes from dicts, lists and scalars, all with one location."""
    if isinstance(value, Mapping):
        return Node({str(k): from_plain(v, where) for k, v in value.items()}, where)
    if isinstance(value, Sequence) and not isinstance(value, str):
        return Node([from_plain(v, where) for v in value], where)
    return Node(value, where)


def join(path: str, step: object) -> str:
    """Append a step to a path."""
    return f"{path}.{step}" if path else str(step)


def nearest(word: object, known: Iterable[str]) -> str:
    """Return ``; did you mean 'x'?`` if a known name is similar to the word or contains it, else an empty string."""
    text, names = str(word)[:200].lower(), list(known)
    close = [name for name in difflib.get_close_matches(text, names) if not _another(text, name)][:1]
    close = close or [name for name in names if text in re.split(r"[-_.]", name.lower())][:_MOST_NAMES]
    return f"; did you mean {' or '.join(map(repr, close))}?" if close else ""


def _another(word: str, name: str) -> bool:
    """Whether two words of up to three characters are different names rather than a misspelling: gpu and cpu."""
    return len(word) == len(name) <= 3 and sorted(word) != sorted(name)


def shorten(text: str, limit: int = 60) -> str:
    """Truncate a text for a message."""
    return text if len(text) <= limit else text[: limit - 3] + "..."
