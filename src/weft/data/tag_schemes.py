"""Spans as tags, one for each word: the schemes IOB1, IOB2 and BIOES, and the way between them.

All three write ``O`` for a word outside every span, and a letter with a type (``B-PER``) for the others. IOB1: ``I``, and ``B``
only where a span follows another of its type. IOB2: ``B`` first, then ``I``. BIOES: ``B``, ``I``, ``E`` last, ``S`` alone.
Ramshaw & Marcus 1995, https://arxiv.org/abs/cmp-lg/9505040; Tjong Kim Sang & Veenstra 1999, https://arxiv.org/abs/cs/9907006
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Literal

Scheme = Literal["iob1", "iob2", "bioes"]
Span = tuple[str, int, int]
"""Type, first word, and the word after the last: ``words[start:end]``."""

_LETTERS = {"iob1": "BIO", "iob2": "BIO", "bioes": "BIESO"}
_UNTYPED = "_"
_OUTSIDE = ("O", "")


def entities(tags: Sequence[str], scheme: Scheme | None = None) -> list[Span]:
    """The spans that tags stand for, in order.

    Without ``scheme``, everything but ``O`` belongs to a span, whatever the scheme and even where the tags break its rules: a
    new one begins at ``B`` and ``S``, after ``O``, ``E`` and ``S``, and where the type changes. With ``scheme``, spans that
    break the rules are left out; both are as seqeval reads tags (its default and its strict mode). A tag without a type
    (``B``) has the type ``_``.

    >>> entities(["B-PER", "I-PER", "O", "I-LOC"])
    [('PER', 0, 2), ('LOC', 3, 4)]
    >>> entities(["B-PER", "I-PER", "O", "I-LOC"], "iob2")
    [('PER', 0, 2)]
    """
    pairs = [_split(tag, scheme) for tag in tags]
    if scheme is None:
        return _lenient(pairs)
    return {"iob1": _strict_iob1, "iob2": _strict_iob2, "bioes": _strict_bioes}[scheme](pairs)


def spell(spans: Iterable[Span], length: int, scheme: Scheme) -> list[str]:
    """The tags of spans over ``length`` words: what ``entities`` reads.

    >>> spell([("PER", 0, 2), ("LOC", 2, 3)], 4, "bioes")
    ['B-PER', 'E-PER', 'S-LOC', 'O']
    """
    tags = ["O"] * length
    before: Span = ("", 0, 0)
    for kind, start, end in sorted(spans, key=lambda span: span[1]):
        if not before[2] <= start < end <= length:
            raise ValueError(f"the span {kind!r} of the words {start} to {end} overlaps another, or lies outside {length} words")
        letters = "I" * (end - start)
        if scheme == "bioes":
            letters = "S" if end - start == 1 else f"B{letters[2:]}E"
        elif scheme == "iob2" or (before[0] == kind and before[2] == start):
            letters = "B" + letters[1:]
        tags[start:end] = letters if kind == _UNTYPED else [f"{letter}-{kind}" for letter in letters]
        before = (kind, start, end)
    return tags


def to_iob1(tags: Sequence[str]) -> list[str]:
    """The same spans in IOB1."""
    return spell(entities(tags), len(tags), "iob1")


def to_iob2(tags: Sequence[str]) -> list[str]:
    """The same spans in IOB2.

    >>> to_iob2(["I-PER", "I-PER", "B-PER", "O"])
    ['B-PER', 'I-PER', 'B-PER', 'O']
    """
    return spell(entities(tags), len(tags), "iob2")


def to_bioes(tags: Sequence[str]) -> list[str]:
    """The same spans in BIOES."""
    return spell(entities(tags), len(tags), "bioes")


def scheme_of(sequences: Iterable[Sequence[str]]) -> Scheme:
    """The scheme that tags are most likely written in.

    BIOES where there is an ``E`` or ``S``. IOB1 where more spans begin with ``I`` than with a ``B`` that IOB1 would not write;
    else IOB2.

    >>> scheme_of([["I-PER", "B-PER", "O"]])
    'iob1'
    """
    with_i = with_b = 0
    for tags in sequences:
        before = _OUTSIDE
        for letter, kind in (_split(tag, None) for tag in tags):
            if letter in "ES":
                return "bioes"
            follows = before[0] != "O" and before[1] == kind
            with_i += letter == "I" and not follows
            with_b += letter == "B" and not follows
            before = (letter, kind)
    return "iob1" if with_i > with_b else "iob2"


def _split(tag: str, scheme: Scheme | None) -> tuple[str, str]:
    """Letter and type."""
    letter, kind = tag[:1], tag[2:]
    if tag == "O":
        return _OUTSIDE
    if letter not in ("B", "I", "E", "S") or (len(tag) > 1 and (tag[1] != "-" or not kind)):
        raise ValueError(f"{tag!r} is no tag: write O, or B, I, E or S, with a type as in 'B-PER'")
    if scheme is not None and letter not in _LETTERS[scheme]:
        raise ValueError(f"the tag {tag!r} is not of the scheme {scheme} (letters {', '.join(_LETTERS[scheme])})")
    return letter, kind or _UNTYPED


def _lenient(pairs: list[tuple[str, str]]) -> list[Span]:
    found: list[Span] = []
    before = _OUTSIDE
    for at, (letter, kind) in enumerate(pairs):
        if letter != "O":
            if letter in "BS" or before[0] in "OES" or before[1] != kind:
                found.append((kind, at, at))
            found[-1] = (kind, found[-1][1], at + 1)
        before = (letter, kind)
    return found


def _strict_iob2(pairs: list[tuple[str, str]]) -> list[Span]:
    starts = [at for at, (letter, _) in enumerate(pairs) if letter == "B"]
    return [(pairs[at][1], at, _inside(pairs, at)) for at in starts]


def _strict_bioes(pairs: list[tuple[str, str]]) -> list[Span]:
    found: list[Span] = []
    for at, (letter, kind) in enumerate(pairs):
        if letter == "S":
            found.append((kind, at, at + 1))
        elif letter == "B":
            end = _inside(pairs, at)
            if end < len(pairs) and pairs[end] == ("E", kind):
                found.append((kind, at, end + 1))
    return found


def _strict_iob1(pairs: list[tuple[str, str]]) -> list[Span]:
    """``B`` counts only directly after a word of its type. Else it is passed over, and an ``I`` after it begins a span."""
    found: list[Span] = []
    at, before = 0, _OUTSIDE
    while at < len(pairs):
        letter, kind = pairs[at]
        same = before[0] != "O" and before[1] == kind
        end = at + 1
        if (letter == "B" and same) or (letter == "I" and not (before[0] == "I" and same)):
            end = _inside(pairs, at)
            # A B of another type would be out of place there, so the span before it has no end either.
            broken = pairs[end - 1][0] == "B" and end < len(pairs) and pairs[end][0] == "B" and pairs[end][1] != kind
            if not broken:
                found.append((kind, at, end))
        at, before = end, pairs[end - 1]
    return found


def _inside(pairs: list[tuple[str, str]], start: int) -> int:
    """Where the words tagged I of the type at ``start`` end."""
    end = start + 1
    while end < len(pairs) and pairs[end] == ("I", pairs[start][1]):
        end += 1
    return end
