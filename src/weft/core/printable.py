"""Text of files and names, shown without effect on the terminal."""

from __future__ import annotations

import re

_UNSAFE = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")
"""Control characters other than tab and line feed, line separators, bidirectional controls, and lone surrogates."""


def printable(text: str) -> str:
    r"""Return a text with escapes for the characters that a terminal obeys instead of showing.

    Control characters could move the cursor, change colors or the title; bidirectional controls show a text in another order.
    Tabs, line feeds and all other Unicode characters are kept.

    Example:
        >>> printable("\x1b[31mred\x07 naïve 漢字 \u202egnp.exe")
        '\\x1b[31mred\\x07 naïve 漢字 \\u202egnp.exe'
    """
    return _UNSAFE.sub(lambda found: found[0].encode("unicode_escape", "surrogatepass").decode("ascii"), text)


def printable_line(text: str) -> str:
    r"""Return ``printable`` of a text on one line: line feeds are escapes too.

    Example:
        >>> printable_line("one\ntwo")
        'one\\ntwo'
    """
    return printable(text).replace("\n", "\\n")


def one_line(text: str) -> str:
    r"""Return a text with escapes for line ends (line feed and carriage return) only: for other programs, one line per text."""
    return text.replace("\n", "\\n").replace("\r", "\\r")


def printable_json(text: str) -> str:
    r"""Return a JSON text in which all such characters are JSON escapes: the document is the same.

    Example:
        >>> printable_json('"\x9b \u202e"')
        '"\\u009b \\u202e"'
    """
    return _UNSAFE.sub(lambda found: f"\\u{ord(found[0]):04x}", text)
