from __future__ import annotations

import base64
import hashlib
import html

import pytest
from tests.inspect.test_attention_page import HOSTILE, Parts

from weft.inspect.interpolation import marked, way_page


def test_a_row_for_each_step_and_nothing_that_runs(tmp_path):
    steps = [(row / len(HOSTILE), text) for row, text in enumerate(HOSTILE)]
    file = way_page(steps, tmp_path / "new" / "way.html", first=HOSTILE[0], last=HOSTILE[9], how="linear", title=HOSTILE[1])
    parts = Parts(file.read_text(encoding="utf-8"))
    tags = [tag for tag, _ in parts.tags]
    assert tags.count("tr") == len(HOSTILE) + 1 and not {"script", "img", "b"} & set(tags)
    policy = next(
        about["content"] for tag, about in parts.tags if tag == "meta" and "content" in about and "default" in about["content"]
    )
    style = base64.b64encode(hashlib.sha256("".join(parts.texts["style"]).encode()).digest()).decode()
    assert "script-src 'none'" in policy and f"style-src 'sha256-{style}'" in policy
    assert html.escape(HOSTILE[9]) in file.read_text(encoding="utf-8")


def test_what_changed_is_marked():
    assert marked("a b d", "a b c") == "a b <mark>d</mark>"
    assert marked("x a b", "a b c") == "<mark>x</mark> a b" and marked("a  b", "a b") == marked("a b", None) == "a b"
    assert marked("<b>", "a") == "<mark>&lt;b&gt;</mark>" and marked("", "a") == ""


def test_rows_that_change_nothing_are_paler(tmp_path):
    text = way_page([(0, "a"), (0.5, "a"), (1, "b")], tmp_path / "way.html", first="a", last="b").read_text()
    assert text.count('<tr class="same">') == 1 and "From &#x27;a&#x27; to &#x27;b&#x27;" in text


def test_no_steps(tmp_path):
    with pytest.raises(ValueError, match="no steps to show"):
        way_page([], tmp_path / "way.html", first="a", last="b")
