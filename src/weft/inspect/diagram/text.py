"""Estimate the width of text, shorten it, and format numbers of parameters."""

from __future__ import annotations

_NARROW, _WIDE = frozenset("iljtfrI.,:;|!'()[]/ -·"), frozenset("mwMW@%—→")


def width_of(text: str, size: float, *, bold: bool = False) -> float:
    """Estimate the width of a text in a sans-serif font of this size, as an upper bound.

    >>> width_of("mm", 10) > width_of("ii", 10)
    True
    """
    total = sum(_share(char) for char in text)
    return total * size * (1.1 if bold else 1.0)


def _share(char: str) -> float:
    if char in _NARROW:
        return 0.36
    if char in _WIDE:
        return 0.93
    if ord(char) > 0x2E7F:  # ideographs and emoji are square
        return 1.05
    return 0.72 if char.isupper() else 0.6


def fit(text: str, width: float, size: float, *, bold: bool = False) -> str:
    """The text, or its beginning with an ellipsis where it is too wide.

    >>> fit("multihead attention", 60, 12)
    'multihe…'
    """
    text = " ".join(text.split())
    if width_of(text, size, bold=bold) <= width:
        return text
    while text and width_of(f"{text}…", size, bold=bold) > width:
        text = text[:-1]
    return f"{text}…"


def short(number: int) -> str:
    """A number of parameters as a figure shows it.

    >>> [short(n) for n in (256, 66048, 4196770, 11_000_000_000)]
    ['256', '66.0 K', '4.20 M', '11.0 B']
    """
    for limit, unit in ((10**9, "B"), (10**6, "M"), (10**4, "K")):
        if number >= limit * 0.9995:
            value = number / (1000 if unit == "K" else limit)
            return f"{value:.{max(0, 2 - len(str(int(value))) + 1)}f} {unit}"
    return f"{number:,}"
