from __future__ import annotations

import base64
import hashlib
import html

import pytest
from tests.inspect.test_attention_page import HOSTILE, Parts

from weft.inspect.interpolation import interpolation_page, mark_changes


def test_page_has_a_row_for_each_step_and_allows_no_script(tmp_path):
    steps = [(row / len(HOSTILE), text) for row, text in enumerate(HOSTILE)]
    file = interpolation_page(
        steps, tmp_path / "new" / "page.html", first=HOSTILE[0], last=HOSTILE[9], how="linear", title=HOSTILE[1]
    )
    parts = Parts(file.read_text(encoding="utf-8"))
    tags = [tag for tag, _ in parts.tags]
    assert tags.count("tr") == len(HOSTILE) + 1 and not {"script", "img", "b"} & set(tags)
    policy = next(
        about["content"] for tag, about in parts.tags if tag == "meta" and "content" in about and "default" in about["content"]
    )
    style = base64.b64encode(hashlib.sha256("".join(parts.texts["style"]).encode()).digest()).decode()
    assert "script-src 'none'" in policy and f"style-src 'sha256-{style}'" in policy
    assert html.escape(HOSTILE[9]) in file.read_text(encoding="utf-8")


def test_changed_words_are_marked():
    assert mark_changes("a b d", "a b c") == "a b <mark>d</mark>"
    assert mark_changes("x a b", "a b c") == "<mark>x</mark> a b"
    assert mark_changes("a  b", "a b") == mark_changes("a b", None) == "a b"
    assert mark_changes("<b>", "a") == "<mark>&lt;b&gt;</mark>" and mark_changes("", "a") == ""


def test_unchanged_texts_have_a_class_of_their_own(tmp_path):
    text = interpolation_page([(0, "a"), (0.5, "a"), (1, "b")], tmp_path / "page.html", first="a", last="b").read_text()
    assert text.count('<tr class="same">') == 1 and "From &#x27;a&#x27; to &#x27;b&#x27;" in text


def test_an_empty_interpolation_is_rejected(tmp_path):
    with pytest.raises(ValueError, match="got no interpolation steps"):
        interpolation_page([], tmp_path / "page.html", first="a", last="b")
