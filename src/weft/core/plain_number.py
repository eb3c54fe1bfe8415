"""Numbers in files and on the command line: ASCII digits, as in JSON. Python's ``float`` also reads "1_000" and "１２"."""

from __future__ import annotations

import re

_INTEGER = re.compile(r"[+-]?[0-9]+")
_NUMBER = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")


def is_plain_integer(text: str) -> bool:
    """Return whether a text is an integer in ASCII digits."""
    return bool(_INTEGER.fullmatch(text))


def is_plain_number(text: str) -> bool:
    """Return whether a text is a number in ASCII digits, with or without a decimal point and exponent."""
    return bool(_NUMBER.fullmatch(text))


def plain_number(text: str) -> float:
    """Return the number that a text is. Raises ValueError for anything but a plain number; spaces around it are allowed.

    Example:
        >>> plain_number(" -1.5e3 ")
        -1500.0
        >>> plain_number("1_000")
        Traceback (most recent call last):
        ValueError: '1_000' is not a number in plain digits, such as 1000 or 0.5
    """
    if not is_plain_number(text.strip(" \t")):
        raise ValueError(f"{text[:40]!r} is not a number in plain digits, such as 1000 or 0.5")
    return float(text)
