"""Tagging schemes IOB1, IOB2 and BIOES: conversion between tags, one per word, and spans.

All three use ``O`` for a word outside every span, and a prefix with a type (``B-PER``) for the others. IOB1: ``I``, and ``B``
only if a span follows another of its type. IOB2: ``B`` first, then ``I``. BIOES: ``B``, ``I``, ``E`` last, ``S`` single.
Ramshaw & Marcus 1995, https://arxiv.org/abs/cmp-lg/9505040; Tjong Kim Sang & Veenstra 1999, https://arxiv.org/abs/cs/9907006
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Literal

Scheme = Literal["iob1", "iob2", "bioes"]
Span = tuple[str, int, int]
"""Type, first word, and the word after the last: ``words[start:end]``."""

_PREFIXES = {"iob1": "BIO", "iob2": "BIO", "bioes": "BIESO"}
_UNTYPED = "_"
_OUTSIDE = ("O", "")


def entities(tags: Sequence[str], scheme: Scheme | None = None) -> list[Span]:
    """Decode tags into spans, in order.

    Without ``scheme``, everything but ``O`` belongs to a span, whatever the scheme and even where the tags break its rules: a
    new one starts at ``B`` and ``S``, after ``O``, ``E`` and ``S``, and where the type changes. With ``scheme``, spans that
    break the rules are dropped. This equals the default and the strict mode of seqeval. A tag without a type
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


def encode_spans(spans: Iterable[Span], length: int, scheme: Scheme) -> list[str]:
    """Encode spans over ``length`` words as tags: the inverse of ``entities``.

    >>> encode_spans([("PER", 0, 2), ("LOC", 2, 3)], 4, "bioes")
    ['B-PER', 'E-PER', 'S-LOC', 'O']
    """
    tags = ["O"] * length
    before: Span = ("", 0, 0)
    for kind, start, end in sorted(spans, key=lambda span: span[1]):
        if not before[2] <= start < end <= length:
            raise ValueError(f"the span {kind!r} of words {start} to {end} overlaps another, or exceeds {length} words")
        prefixes = "I" * (end - start)
        if scheme == "bioes":
            prefixes = "S" if end - start == 1 else f"B{prefixes[2:]}E"
        elif scheme == "iob2" or (before[0] == kind and before[2] == start):
            prefixes = "B" + prefixes[1:]
        tags[start:end] = prefixes if kind == _UNTYPED else [f"{prefix}-{kind}" for prefix in prefixes]
        before = (kind, start, end)
    return tags


def to_iob1(tags: Sequence[str]) -> list[str]:
    """Convert tags to IOB1."""
    return encode_spans(entities(tags), len(tags), "iob1")


def to_iob2(tags: Sequence[str]) -> list[str]:
    """Convert tags to IOB2.

    >>> to_iob2(["I-PER", "I-PER", "B-PER", "O"])
    ['B-PER', 'I-PER', 'B-PER', 'O']
    """
    return encode_spans(entities(tags), len(tags), "iob2")


def to_bioes(tags: Sequence[str]) -> list[str]:
    """Convert tags to BIOES."""
    return encode_spans(entities(tags), len(tags), "bioes")


def detect_scheme(sequences: Iterable[Sequence[str]]) -> Scheme:
    """Detect the most probable scheme of tag sequences.

    BIOES if there is an ``E`` or ``S``. IOB1 if more spans start with ``I`` than with a ``B`` that IOB1 would not use; else
    IOB2.

    >>> detect_scheme([["I-PER", "B-PER", "O"]])
    'iob1'
    """
    with_i = with_b = 0
    for tags in sequences:
        before = _OUTSIDE
        for prefix, kind in (_split(tag, None) for tag in tags):
            if prefix in "ES":
                return "bioes"
            follows = before[0] != "O" and before[1] == kind
            with_i += prefix == "I" and not follows
            with_b += prefix == "B" and not follows
            before = (prefix, kind)
    return "iob1" if with_i > with_b else "iob2"


def _split(tag: str, scheme: Scheme | None) -> tuple[str, str]:
    """Prefix and type."""
    prefix, kind = tag[:1], tag[2:]
    if tag == "O":
        return _OUTSIDE
    if prefix not in ("B", "I", "E", "S") or (len(tag) > 1 and (tag[1] != "-" or not kind)):
        raise ValueError(f"{tag!r} is not a tag; use O, or B, I, E or S with a type, as in 'B-PER'")
    if scheme is not None and prefix not in _PREFIXES[scheme]:
        raise ValueError(f"the tag {tag!r} is not valid in the scheme {scheme} (prefixes {', '.join(_PREFIXES[scheme])})")
    return prefix, kind or _UNTYPED


def _lenient(pairs: list[tuple[str, str]]) -> list[Span]:
    found: list[Span] = []
    before = _OUTSIDE
    for at, (prefix, kind) in enumerate(pairs):
        if prefix != "O":
            if prefix in "BS" or before[0] in "OES" or before[1] != kind:
                found.append((kind, at, at))
            found[-1] = (kind, found[-1][1], at + 1)
        before = (prefix, kind)
    return found


def _strict_iob2(pairs: list[tuple[str, str]]) -> list[Span]:
    starts = [at for at, (prefix, _) in enumerate(pairs) if prefix == "B"]
    return [(pairs[at][1], at, _inside(pairs, at)) for at in starts]


def _strict_bioes(pairs: list[tuple[str, str]]) -> list[Span]:
    found: list[Span] = []
    for at, (prefix, kind) in enumerate(pairs):
        if prefix == "S":
            found.append((kind, at, at + 1))
        elif prefix == "B":
            end = _inside(pairs, at)
            if end < len(pairs) and pairs[end] == ("E", kind):
                found.append((kind, at, end + 1))
    return found


def _strict_iob1(pairs: list[tuple[str, str]]) -> list[Span]:
    """``B`` counts only directly after a word of its type. Else it is skipped, and an ``I`` after it starts a span."""
    found: list[Span] = []
    at, before = 0, _OUTSIDE
    while at < len(pairs):
        prefix, kind = pairs[at]
        same = before[0] != "O" and before[1] == kind
        end = at + 1
        if (prefix == "B" and same) or (prefix == "I" and not (before[0] == "I" and same)):
            end = _inside(pairs, at)
            # a B of another type is invalid there, so the span before it has no end either
            broken = pairs[end - 1][0] == "B" and end < len(pairs) and pairs[end][0] == "B" and pairs[end][1] != kind
            if not broken:
                found.append((kind, at, end))
        at, before = end, pairs[end - 1]
    return found


def _inside(pairs: list[tuple[str, str]], start: int) -> int:
    """End of the run of ``I`` tags of the type at ``start``."""
    end = start + 1
    while end < len(pairs) and pairs[end] == ("I", pairs[start][1]):
        end += 1
    return end
