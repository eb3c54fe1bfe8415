"""Which regular expressions a tokenizer file may have: those whose matching time cannot grow exponentially.

The library ``tokenizers`` matches by backtracking. A repetition of something that can itself match in several ways, as in
``(a+)+$`` or ``(a|a)*$``, tries all of them: 2^n for n characters. The patterns of published tokenizers have no such repetition.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

WORDS = r"\w+(?:['’\-]\w+)*|[^\w\s]"
"""Words with apostrophes and hyphens inside: a nested repetition, but unambiguous, because its first character is no letter."""
MAX_PATTERN_LENGTH = 100_000
"""Most characters of a pattern; an alternative for each of many user-defined pieces is long."""
MAX_REPEATS = 3
"""Most repetitions in a row: the matching time is a polynomial of this degree."""
_MAX_COUNT = 1000
_MAX_DEPTH = 20
_GROUP = re.compile(r"\((?!\?)|\(\?(?:[imx-]*:|=|!|<=|<!|>|<[A-Za-z]\w*>)")
_OPTIONS = re.compile(r"\(\?[imx-]+\)")
_ESCAPE = re.compile(
    r"\\(?:[pP]\{\^?\w+\}|x\{[0-9A-Fa-f]+\}|x[0-9A-Fa-f]{1,2}|u[0-9A-Fa-f]{4}|[wWsSdDhHAZzbBnrtfvea0]|[^0-9A-Za-z])"
)
_QUANTIFIER = re.compile(r"[*+?]|\{(\d*),?(\d*)\}")


@dataclass
class _Group:
    """What the enclosing group has so far: whether it can match in several ways, and repetitions of its longest alternative."""

    ambiguous: bool = False
    repeats: int = 0
    most_repeats: int = 0

    def add(self, repeats: int) -> None:
        self.repeats += repeats
        self.most_repeats = max(self.most_repeats, self.repeats)


def check_pattern(pattern: str) -> None:
    """Raise ValueError for a regular expression whose matching time may not be polynomial, or that is not understood.

    Example:
        >>> check_pattern(r" ?\\p{L}+| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s+(?!\\S)|\\s+")
        >>> check_pattern("(a+)+$")
        Traceback (most recent call last):
        ValueError: the pattern '(a+)+$' repeats a group that has repetitions or alternatives, which can take exponential time
    """
    if len(pattern) > MAX_PATTERN_LENGTH:
        raise ValueError(f"a pattern has {len(pattern):,} characters; at most {MAX_PATTERN_LENGTH:,} are allowed")
    if pattern != WORDS:
        _Scan(pattern).run()


class _Scan:
    """One pass over a pattern, with a stack of open groups."""

    def __init__(self, pattern: str):
        self.pattern, self.at, self.groups = pattern, 0, [_Group()]

    def error(self, problem: str) -> ValueError:
        shown = self.pattern if len(self.pattern) <= 80 else self.pattern[:77] + "..."
        return ValueError(f"the pattern {shown!r} {problem}")

    def run(self) -> None:
        while self.at < len(self.pattern):
            found = _OPTIONS.match(self.pattern, self.at)
            if found is not None:
                self.at = found.end()
            elif self.pattern[self.at] == "|":
                self.groups[-1].ambiguous, self.groups[-1].repeats, self.at = True, 0, self.at + 1
            elif self.pattern[self.at] == "(":
                self.open()
            else:
                self.quantify(self.close() if self.pattern[self.at] == ")" else self.atom())
        if len(self.groups) > 1:
            raise self.error("has a group that is never closed")

    def open(self) -> None:
        found = _GROUP.match(self.pattern, self.at)
        if found is None or len(self.groups) > _MAX_DEPTH:
            problem = "is nested too deeply" if found else f"has the unknown construct {self.pattern[self.at : self.at + 4]!r}"
            raise self.error(problem)
        self.groups.append(_Group())
        self.at = found.end()

    def close(self) -> _Group:
        if len(self.groups) == 1:
            raise self.error("closes a group that is not open")
        self.at += 1
        inner = self.groups.pop()
        self.groups[-1].ambiguous |= inner.ambiguous
        self.groups[-1].add(inner.most_repeats)
        return inner

    def atom(self) -> None:
        """Skip a character, an escape or a character class."""
        if self.pattern[self.at] == "\\":
            found = _ESCAPE.match(self.pattern, self.at)
            if found is None:
                raise self.error(f"has the unsupported escape {self.pattern[self.at : self.at + 3]!r}")
            self.at = found.end()
        elif self.pattern[self.at] == "[":
            self.character_class()
        elif _QUANTIFIER.match(self.pattern, self.at):
            raise self.error("has a quantifier of nothing, or of another quantifier")
        else:
            self.at += 1

    def character_class(self) -> None:
        depth = 0
        while self.at < len(self.pattern):
            character = self.pattern[self.at]
            depth += {"[": 1, "]": -1}.get(character, 0)
            self.at += 2 if character == "\\" else 1
            if not depth:
                return
        raise self.error("has a character class that is never closed")

    def quantify(self, group: _Group | None) -> None:
        """Account for the quantifier of what was just read."""
        found = _QUANTIFIER.match(self.pattern, self.at)
        if found is None or found[0] == "{,}":
            return
        counts = [int(count[:6]) for count in found.groups() if count]
        if any(count > _MAX_COUNT for count in counts):
            raise self.error(f"has a count above {_MAX_COUNT:,}")
        self.at = found.end()
        outer = self.groups[-1]
        repeats = found[0] != "?" and counts[-1:] != [1]
        if repeats and group is not None and group.ambiguous:
            raise self.error("repeats a group that has repetitions or alternatives, which can take exponential time")
        outer.ambiguous = True
        outer.add(repeats)
        if outer.repeats > MAX_REPEATS:
            raise self.error(f"has more than {MAX_REPEATS} repetitions in a row")
        following = self.pattern[self.at : self.at + 1]
        last = self.pattern[self.at + 1 : self.at + 2] in ("", "|") and len(self.groups) == 1
        if following == "?" or (following == "+" and (found[1] is None or last)):  # lazy; possessive
            self.at += 1
