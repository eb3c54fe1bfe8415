from __future__ import annotations

import random
from importlib import import_module

import pytest

from weft.data.tag_schemes import detect_scheme, encode_spans, entities, to_bioes, to_iob1, to_iob2

EDGES = [
    [],
    ["O"],
    ["B"],
    ["I", "I", "O", "E", "S", "B"],
    ["E-X", "E-X"],
    ["S-X", "I-X", "E-X"],
    ["B-X", "I-Y", "I-Y"],
    ["I-X", "B-X", "I-X"],
    ["B-X", "B-Y", "B-Y", "I-Y"],
    ["B-X-Y", "I-X-Y", "I-X"],
    ["B-X", "E-X", "I-X", "E-X"],
]


def sample_tags(rng, letters, untyped=False):
    kinds = ["-PER", "-LOC", "-A-B"] + [""] * untyped
    return [rng.choice(["O"] + [letter + rng.choice(kinds) for letter in letters]) for _ in range(rng.randrange(9))]


def spans(rng, length):
    """Spans that do not overlap, neighbors included."""
    found, at = [], 0
    while at < length:
        end = min(length, at + rng.randrange(1, 4))
        if rng.random() < 0.6:
            found.append((rng.choice(["PER", "LOC", "_"]), at, end))
        at = end
    return found


def test_lenient_reading_equals_seqeval():
    reference = import_module("seqeval.metrics.sequence_labeling").get_entities
    rng = random.Random(0)
    for tags in EDGES + [sample_tags(rng, letters, True) for letters in ("BI", "BIES", "ES") for _ in range(2000)]:
        assert entities(tags) == [(kind, start, last + 1) for kind, start, last in reference(tags)], tags


@pytest.mark.parametrize(
    ("scheme", "letters", "name"), [("iob1", "BI", "IOB1"), ("iob2", "BI", "IOB2"), ("bioes", "BIES", "IOBES")]
)
def test_strict_reading_equals_seqeval(scheme, letters, name):
    theirs = import_module("seqeval.scheme")
    rng = random.Random(1)
    edges = [tags for tags in EDGES if all(tag[0] in letters + "O" for tag in tags)]
    for tags in edges + [sample_tags(rng, letters, True) for _ in range(4000)]:
        expected = [(e.tag, e.start, e.end) for e in theirs.Tokens(tags, getattr(theirs, name)).entities]
        assert entities(tags, scheme) == expected, tags


@pytest.mark.parametrize("scheme", ["iob1", "iob2", "bioes"])
def test_spans_are_read_as_they_were_spelled(scheme):
    rng = random.Random(2)
    for _ in range(500):
        length = rng.randrange(10)
        found = spans(rng, length)
        tags = encode_spans(found, length, scheme)
        assert len(tags) == length and entities(tags) == found
        assert entities(tags, scheme) == found
        assert entities(to_iob1(tags)) == entities(to_iob2(tags)) == entities(to_bioes(tags)) == found


def test_ways_between_the_schemes():
    one = ["I-X", "I-X", "B-X", "O", "I-Y", "I-X"]
    two = ["B-X", "I-X", "B-X", "O", "B-Y", "B-X"]
    five = ["B-X", "E-X", "S-X", "O", "S-Y", "S-X"]
    for tags in (one, two, five):
        assert [to_iob1(tags), to_iob2(tags), to_bioes(tags)] == [one, two, five]
    assert to_bioes(["B", "I", "I"]) == ["B", "I", "E"]


def test_the_scheme_is_found_again():
    rng = random.Random(3)
    data = [(spans(rng, 8), 8) for _ in range(50)]
    for scheme in ("iob1", "iob2", "bioes"):
        assert detect_scheme(encode_spans(found, length, scheme) for found, length in data) == scheme
    assert detect_scheme([]) == detect_scheme([["O", "O"], []]) == "iob2"
    assert detect_scheme([["B-X", "I-X"], ["B-X", "O"], ["I-X"]]) == "iob2"


def test_errors():
    for tag in ("", "PER", "B-", "O-X", "BX", "b-X", "-X", "X-Y"):
        with pytest.raises(ValueError, match=f"{tag!r} is not a tag"):
            entities(["O", tag])
    with pytest.raises(ValueError, match=r"'S-X' is not valid in the scheme iob2 \(prefixes B, I, O\)"):
        entities(["S-X"], "iob2")
    for wrong in ([("X", 0, 2), ("Y", 1, 3)], [("X", 2, 2)], [("X", 3, 5)], [("X", -1, 1)]):
        with pytest.raises(ValueError, match=r"overlaps another, or exceeds 4 words"):
            encode_spans(wrong, 4, "iob2")
