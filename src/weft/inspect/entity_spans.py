"""Entities of a tagged text: their spans, also where tags break the rules of their scheme or spans overlap."""

from __future__ import annotations

from collections.abc import Sequence

from weft.data.tag_schemes import Span, entities

COLORS = 12
"""Number of colors of entity types, assigned in the order of the types' names."""


def spans_of(tags: Sequence[str]) -> list[Span]:
    """Return the spans of tags, lenient toward sequences that are not valid in their scheme.

    Tags that are no entity tags, such as parts of speech, are spans of one word each.

    >>> spans_of(["I-PER", "I-LOC", "O", "B-LOC"])
    [('PER', 0, 1), ('LOC', 1, 2), ('LOC', 3, 4)]
    >>> spans_of(["DET", "NOUN"])
    [('DET', 0, 1), ('NOUN', 1, 2)]
    """
    try:
        return entities(tags)
    except ValueError:
        return [(tag, at, at + 1) for at, tag in enumerate(tags) if tag != "O"]


def layers(spans: Sequence[Span]) -> list[list[Span]]:
    """Distribute spans over layers so that the spans of a layer do not overlap: the longest of those that start first come first.

    >>> layers([("LOC", 3, 4), ("ORG", 2, 5), ("PER", 0, 2)])
    [[('PER', 0, 2), ('ORG', 2, 5)], [('LOC', 3, 4)]]
    """
    found: list[list[Span]] = []
    for span in sorted(spans, key=lambda one: (one[1], -one[2], one[0])):
        layer = next((row for row in found if row[-1][2] <= span[1]), None)
        if layer is None:
            found.append([span])
        else:
            layer.append(span)
    return found


def color_of(spans: Sequence[Span]) -> dict[str, int]:
    """Return the number of the color of each type, from 0."""
    return {kind: number % COLORS for number, kind in enumerate(sorted({kind for kind, _, _ in spans}))}


def bracketed(words: Sequence[str], spans: Sequence[Span]) -> str:
    """Return a text with its spans in brackets, for a terminal. Spans inside of another are nested; of two that cross, the second
    one is closed and opened again.

    >>> bracketed("Ada Lovelace saw London".split(), [("PER", 0, 2), ("LOC", 3, 4)])
    '[Ada Lovelace]PER saw [London]LOC'
    >>> bracketed("New York Times".split(), [("ORG", 0, 3), ("LOC", 0, 2)])
    '[[New York]LOC Times]ORG'
    >>> bracketed("a b c d".split(), [("X", 0, 3), ("Y", 2, 4)])
    '[a b [c]Y]X [d]Y'
    """
    opened: list[Span] = []
    kept: list[Span] = []
    parts: list[str] = []
    for at, word in enumerate(words):
        starting = sorted((span for span in spans if span[1] == at), key=lambda one: -one[2])
        again = [span for span in opened if span not in kept]
        brackets = "[" * (len(starting) + len(again))
        opened += starting
        closing, kept = _to_close(opened, at + 1)
        parts.append(brackets + word + "".join(f"]{kind}" for kind, _, _ in closing))
        opened = [span for span in opened if span[2] > at + 1]
    return " ".join(parts)


def _to_close(opened: Sequence[Span], end: int) -> tuple[list[Span], list[Span]]:
    """The spans to close after word ``end``, the innermost first, and those that stay open around them."""
    outermost = next((at for at, span in enumerate(opened) if span[2] <= end), len(opened))
    return list(reversed(opened[outermost:])), list(opened[:outermost])
