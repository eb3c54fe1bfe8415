"""Attributions as a page, in a notebook and in a terminal."""

from __future__ import annotations

import itertools
import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.displays import HOSTILE, parsed, words
from tests.inspect.test_attention_page import HOSTILE as TEXTS
from tests.inspect.test_attention_page import Parts
from tests.inspect.test_browser import browser  # noqa: F401

from weft.inspect.attribution import Attribution, OutputAttribution
from weft.inspect.attribution_html import heat_svg, image_svg, shades
from weft.inspect.attribution_page import attribution_page, entity_html
from weft.inspect.attribution_text import attribution_text
from weft.inspect.entity_spans import COLORS, bracketed, color_of, layers, spans_of


def of(tokens: list[str], *values: list[float], **options: Any) -> Attribution:
    outputs = [OutputAttribution(f"class {n}", row, sum(row) + 0.25, 0.25) for n, row in enumerate(values)]
    return Attribution(" ".join(tokens), "class 0", "occlusion", "zero", tokens, ["text"] * len(tokens), outputs, **options)


class _Text(HTMLParser):
    def __init__(self, markup: str) -> None:
        super().__init__()
        self.found: list[str] = []
        self.feed(markup)

    def handle_data(self, data: str) -> None:
        self.found.append(data)


def test_colors_show_sign_and_size(tmp_path: Path) -> None:
    text = attribution_page([of(["bad", "but", "fine"], [-1.0, 0.5, 0.001])], tmp_path / "page.html", "A title").read_text()
    assert re.findall(r'class="token (\w+)" title="([^"]+)"', text) == [("n10", "-1.0000"), ("p5", "+0.5000"), ("p0", "+0.0010")]
    assert "sum of attributions -0.499" in text and all(f".{s}{n} " in text for s in "pn" for n in range(11))
    assert shades([]) == [] and shades([0.0, 0.0]) == [0, 0]


def test_texts_are_escaped_and_no_script_may_run(tmp_path: Path) -> None:
    values = [0.1] * len(TEXTS)
    outputs = [OutputAttribution(text, values, 1.0, 0.0) for text in TEXTS]
    spans = [(text, n, n + 1) for n, text in enumerate(TEXTS)]
    hostile = Attribution(TEXTS[0], TEXTS[1], TEXTS[2], TEXTS[3], TEXTS, TEXTS, outputs, words=TEXTS, entities=spans, notes=TEXTS)
    page = attribution_page([hostile, hostile], tmp_path / "page.html", TEXTS[1]).read_text(encoding="utf-8")
    parts = Parts(page)
    assert not {"script", "img", "b"} & {tag for tag, _ in parts.tags} - {"b"} and "script-src 'none'" in page
    assert not [name for _, attributes in parts.tags for name in attributes if name.startswith("on")]
    assert TEXTS[1] in "".join(_Text(page).found)
    assert not re.search(r'<[^>]* style="', page)  # the content security policy would ignore it


def test_texts_are_escaped_in_a_notebook() -> None:
    shown = Attribution(
        HOSTILE, HOSTILE, "occlusion", "zero", [HOSTILE], ["text"], [OutputAttribution(HOSTILE, [1.0], 1.0, 0.0)],
        words=[HOSTILE], entities=[(HOSTILE, 0, 1)], notes=[HOSTILE],
    )  # fmt: skip
    assert "<img" in words(parsed(shown))
    parsed(of(["a"] * 4, [0.1, 0.2, -0.3, 0.4], grid=(2, 2)))
    parsed(of(["a"]))


def test_a_picture_has_a_cell_for_each_patch_and_large_ones_are_averaged() -> None:
    colors = re.findall(r'fill="(#\w+)"', heat_svg([1.0, -1.0, 0.0, 0.5], (2, 2)))
    assert colors[:3] == ["#1d5cd6", "#c94c14", "#ffffff"] and len(colors) == 4
    assert heat_svg(np.ones(224 * 224).tolist(), (224, 224)).count("<rect") == 56 * 56
    assert heat_svg([0.0] * 100, (1, 100)).count("<rect") == 50
    assert re.findall(r'fill="(#\w+)"', image_svg(np.array([[[-1.0], [1.0]]]))) == ["#000000", "#ffffff"]
    assert "#ff0000" in image_svg(np.array([[[1.0, -1.0, -1.0]]]))


def test_the_largest_attributions_are_shown_in_a_terminal() -> None:
    tokens = [f"t{n}" for n in range(30)]
    text = attribution_text(of(tokens, [n / 30 if n % 2 else -n / 30 for n in range(30)]))
    lines = text.splitlines()
    assert sum(line.startswith("  t") for line in lines) == 12 and "  and 18 more with smaller values" in lines
    assert "  t29  +0.967  ++++++++++" in lines and "  t28  -0.933  ----------" in lines
    tagged = Attribution(
        "Ada saw", "x", "occlusion", "zero", ["Ada", "saw"], ["text"] * 2, [], words=["Ada", "saw"], entities=[("PER", 0, 1)]
    )
    assert "entities    [Ada]PER saw" in attribution_text(tagged)


# -------------------------------------------------------------------------------------------------------------- entities


@pytest.mark.parametrize(
    ("tags", "expected"),
    [
        ("B-PER I-PER O B-LOC", [("PER", 0, 2), ("LOC", 3, 4)]),
        ("I-PER I-LOC B-LOC", [("PER", 0, 1), ("LOC", 1, 2), ("LOC", 2, 3)]),  # no B, another type, two in a row
        ("O I-PER O", [("PER", 1, 2)]),
        ("S-PER E-PER", [("PER", 0, 1), ("PER", 1, 2)]),
        ("DET NOUN O", [("DET", 0, 1), ("NOUN", 1, 2)]),
        ("", []),
    ],
)
def test_spans_of_valid_and_invalid_tags(tags: str, expected: list[Any]) -> None:
    assert spans_of(tags.split()) == expected


def test_overlapping_spans_are_in_different_layers() -> None:
    rng = np.random.default_rng(0)
    for _ in range(200):
        starts = rng.integers(0, 12, rng.integers(0, 9))
        spans = [(str(rng.integers(3)), int(s), int(s + 1 + rng.integers(4))) for s in starts]
        found = layers(spans)
        assert sorted(span for layer in found for span in layer) == sorted(spans)
        for layer in found:
            assert all(one[2] <= two[1] for one, two in itertools.pairwise(layer))
        covered = [sum(a <= at < b for _, a, b in spans) for at in range(20)]
        assert len(found) == max(covered)  # no more layers than necessary
        text = bracketed([f"w{n}" for n in range(20)], spans)
        assert text.count("[") == text.count("]") and re.sub(r"\[|\]\d", "", text) == " ".join(f"w{n}" for n in range(20))


def test_labels_stand_over_the_first_word_and_types_have_colors() -> None:
    markup = entity_html(["New", "York", "Times"], [("ORG", 0, 3), ("LOC", 0, 2)])
    assert markup.count("LOC") == markup.count("ORG") == 1 and markup.count('class="word"') == 3
    assert markup.count("bar e1") == 3 and markup.count("bar e0") == 2
    many = color_of([(f"T{n:02}", 0, 1) for n in range(30)])
    assert set(many.values()) == set(range(COLORS)) and many["T00"] != many["T01"]


def luminance(color: str) -> float:
    parts = [float(x) / 255 for x in re.findall(r"[\d.]+", color)[:3]]
    linear = [x / 12.92 if x <= 0.03928 else ((x + 0.055) / 1.055) ** 2.4 for x in parts]
    return sum(w * x for w, x in zip((0.2126, 0.7152, 0.0722), linear, strict=True))


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_labels_and_tokens_are_readable_in_the_browser(browser, tmp_path: Path, scheme: Any) -> None:  # noqa: F811
    spans = [(f"T{n:02}", n, n + 1) for n in range(12)]
    values = [(n - 10) / 10 for n in range(21)]
    found = of([f"t{n}" for n in range(21)], values, words=[f"w{n}" for n in range(12)], entities=spans)
    page, errors = browser.new_page(), []
    page.on("console", lambda message: errors.append(message.text))
    page.emulate_media(color_scheme=scheme)
    page.goto(attribution_page([found], tmp_path / "page.html", "A title").as_uri())
    style = "nodes => nodes.map(n => { const s = getComputedStyle(n); return [s.color, s.backgroundColor] })"
    labels = page.locator(".bar.first").evaluate_all(style)
    assert len({back for _, back in labels}) == 12
    card = page.locator(".card").first.evaluate("n => getComputedStyle(n).backgroundColor")
    tokens = page.locator(".outputs .token").evaluate_all(style)
    assert len(tokens) == 21
    for color, back in [*labels, *tokens]:
        alpha = [float(x) for x in re.findall(r"[\d.]+", back)]
        share = alpha[3] if len(alpha) == 4 else 1.0
        under = [float(x) for x in re.findall(r"[\d.]+", card)[:3]]
        mixed = f"rgb({', '.join(str(share * a + (1 - share) * b) for a, b in zip(alpha, under, strict=False))})"
        light, dark = sorted([luminance(color), luminance(mixed)], reverse=True)
        assert (light + 0.05) / (dark + 0.05) >= 4.5, (color, back)
    page.set_viewport_size({"width": 360, "height": 800})
    assert page.evaluate("document.documentElement.scrollWidth <= window.innerWidth")
    page.close()
    assert not errors
