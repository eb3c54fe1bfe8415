"""Tables and heat maps for notebooks."""

from __future__ import annotations

import math
from xml.etree.ElementTree import Element

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.displays import HOSTILE, cells, parsed, strong, words

from weft.core.html import MOST_TOKENS, Cell, escape, heat_map, notes, page, show_number, table


def rects(tree: Element) -> list[Element]:
    return [e for e in tree.iter() if e.tag.endswith("rect")]


def test_a_table_has_its_header_rows_and_caption() -> None:
    tree = parsed(table(["metric", "value"], [["bleu", "31.2"], ["chrf", Cell("55.0", strong=True)]], caption="Test"))
    assert cells(tree) == [["metric", "value"], ["bleu", "31.2"], ["chrf", "55.0"]]
    assert strong(tree) == ["55.0"]
    assert words(tree).startswith("Test")


@given(st.text(), st.text())
def test_any_text_comes_out_as_it_went_in_or_is_replaced(one: str, two: str) -> None:
    tree = parsed(page(table([one], [[two]]), notes([one])))
    for found, text in zip(cells(tree), ([one], [two]), strict=True):
        readable = text[0].replace("\r\n", "\n").replace("\r", "\n")  # as every XML parser reads line ends
        assert len(found[0]) == len(readable)
        assert all(a == b or a == "\ufffd" for a, b in zip(found[0], readable, strict=True))


def test_hostile_text_stays_text() -> None:
    tree = parsed(page(table([HOSTILE], [[Cell(HOSTILE, hint=HOSTILE)]], caption=HOSTILE), notes([HOSTILE])))
    assert "alert(1)" in words(tree)
    parsed(heat_map([[0.5]], [HOSTILE], [HOSTILE], caption=HOSTILE))


def test_an_attribute_cannot_be_left() -> None:
    assert escape("\" onmouseover='x'") == "&quot; onmouseover=&#39;x&#39;"


def test_a_heat_map_is_darker_where_a_weight_is_larger() -> None:
    tree = parsed(heat_map([[0.0, 0.25], [0.5, 1.0]], ["a", "b"], ["c", "d"]))
    shades = [float(rect.attrib["fill-opacity"]) for rect in rects(tree)]
    assert shades == sorted(shades) and len(set(shades)) == 4 and shades[-1] == 1
    titles = ["".join(rect.itertext()) for rect in rects(tree)]
    assert titles == ["a → c: 0.000", "a → d: 0.250", "b → c: 0.500", "b → d: 1.000"]


def test_squares_of_a_heat_map_do_not_overlap_its_labels() -> None:
    tree = parsed(heat_map([[0.1] * 3] * 2, ["short", "a much longer token"], ["x", "y", "another long one"]))
    assert len({(r.attrib["x"], r.attrib["y"]) for r in rects(tree)}) == 6
    labels = [t for t in tree.iter() if t.tag.endswith("text")]
    left = min(float(r.attrib["x"]) for r in rects(tree))
    assert all(float(t.attrib["x"]) <= left for t in labels if t.get("text-anchor") == "end")


def test_a_long_sequence_is_truncated_with_a_note() -> None:
    size = MOST_TOKENS + 5
    tree = parsed(heat_map([[0.0] * size] * size, ["t"] * size, ["t"] * size))
    assert len(rects(tree)) == MOST_TOKENS**2
    assert f"only the first {MOST_TOKENS} × {MOST_TOKENS} of {size} × {size}" in words(tree)


@pytest.mark.parametrize("weight", [math.nan, math.inf, -1.0, 2.0])
def test_a_weight_that_is_none_is_rendered_all_the_same(weight: float) -> None:
    (rect,) = rects(parsed(heat_map([[weight]], ["a"], ["b"])))
    assert 0 <= float(rect.attrib["fill-opacity"]) <= 1


def test_an_empty_heat_map_is_well_formed() -> None:
    assert not rects(parsed(heat_map([], [], [])))


def test_numbers_have_four_decimals() -> None:
    assert [show_number(v) for v in (0.5, 123456.789, 7, None)] == ["0.5000", "1.235e+05", "7", "–"]
