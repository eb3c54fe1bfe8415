from __future__ import annotations

import base64
import hashlib
import json
import re
import shutil
import subprocess
from html.parser import HTMLParser

import numpy as np
import pytest
import torch

from weft.inspect import Example, attention_page

HOSTILE = [
    "<script>document.title='owned'</script>",
    "</script><script>document.title='owned'</script>",
    "<img src=x onerror=\"document.title='owned'\">",
    "<!-- <script>",
    "&lt;b&gt;",
    "\"';alert(1)//",
    "\u202eabc\u2028\u2029\u200f",
    "\ud800",
    "{{data}}{{policy}}",
    "\\u003c",
    " ",
]


def hostile() -> Example:
    maps = {text: np.full((2, len(HOSTILE)), 1 / len(HOSTILE)) for text in HOSTILE}
    pairs = [(text, -1.0) for text in HOSTILE]
    return Example(HOSTILE, HOSTILE[:2], maps, HOSTILE[1], False, pairs, HOSTILE[0], HOSTILE[1])


class Parts(HTMLParser):
    """The tags of a page and the text of its script elements."""

    def __init__(self, text: str):
        super().__init__()
        self.tags: list[tuple[str, dict]] = []
        self.scripts: list[str] = []
        self.inside = False
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        self.inside = tag == "script"
        if self.inside:
            self.scripts.append("")

    def handle_endtag(self, tag):
        self.inside = False

    def handle_data(self, data):
        if self.inside:
            self.scripts[-1] += data


def written(tmp_path, examples, title="A title"):
    return attention_page(examples, tmp_path / "deep" / "page.html", title).read_text(encoding="utf-8")


def data(page: str) -> dict:
    return json.loads(Parts(page).scripts[0])


def test_everything_given_is_in_the_page(tmp_path):
    weight = torch.tensor([[[0.25, 0.75], [1.0, 0.0]], [[0.5, 0.5], [0.125, 0.875]]], requires_grad=True)
    maps = {"decoder.a": weight[0], "decoder.b": weight.tolist(), "decoder.c": weight.detach().numpy()}
    example = Example(["x", "y"], ["z", "<eos>"], maps, "z", True, [("z", -0.5)], "x y", "z")
    found = data(written(tmp_path, [example, Example(["x"], ["y"], {"m": [[1]]})]))
    heads = [[[250, 750], [1000, 0]], [[500, 500], [125, 875]]]
    heads[1][1][0] = 125
    assert found["title"] == "A title"
    assert found["examples"][0] == {
        "source": ["x", "y"],
        "target": ["z", "<eos>"],
        "maps": [
            {"name": "decoder.a", "heads": heads[:1]},
            {"name": "decoder.b", "heads": heads},
            {"name": "decoder.c", "heads": heads},
        ],
        "reference": "z",
        "right": True,
        "candidates": [["z", -0.5]],
        "input": "x y",
        "output": "z",
    }
    assert found["examples"][1]["right"] is None and found["examples"][1]["reference"] is None


def test_hostile_text_stays_data(tmp_path):
    harmless = Parts(written(tmp_path, [Example(["x"], ["y"], {"m": [[1.0]]})]))
    page = written(tmp_path, [hostile()], title=HOSTILE[1] + HOSTILE[8])
    parts = Parts(page)
    assert [tag for tag, _ in parts.tags] == [tag for tag, _ in harmless.tags]
    assert parts.scripts[1] == harmless.scripts[1]
    found = data(page)
    assert found["examples"][0]["source"] == HOSTILE and found["title"] == HOSTILE[1] + HOSTILE[8]
    embedded = parts.scripts[0]
    assert not set("<>&\u2028\u2029\u202e") & set(embedded)


def test_only_the_pages_own_script_may_run_and_nothing_is_fetched(tmp_path):
    page = written(tmp_path, [hostile()])
    parts = Parts(page)
    policy = next(a["content"] for tag, a in parts.tags if tag == "meta" and "http-equiv" in a)
    digest = base64.b64encode(hashlib.sha256(parts.scripts[1].encode()).digest()).decode()
    assert "default-src 'none'" in policy and f"script-src 'sha256-{digest}'" in policy and "unsafe" not in policy
    addresses = [a[name] for _, a in parts.tags for name in ("src", "href") if name in a]
    assert addresses == ["data:,"]
    assert not re.search(r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\b|https?:", parts.scripts[1])


def test_errors(tmp_path):
    with pytest.raises(ValueError, match="no examples"):
        attention_page([], tmp_path / "p.html", "t")
    with pytest.raises(ValueError, match=r"map 'm' of example 1 is 1 x 3 x 2, but there are 2 output and 3 input tokens"):
        attention_page([hostile(), Example(list("abc"), list("de"), {"m": np.ones((3, 2))})], tmp_path / "p.html", "t")
    with pytest.raises(ValueError, match="weights that are not numbers"):
        attention_page([Example(["a"], ["b"], {"m": [[float("nan")]]})], tmp_path / "p.html", "t")
    with pytest.raises(ValueError, match="example 0 has no attention map"):
        attention_page([Example(["a"], ["b"], {})], tmp_path / "p.html", "t")


@pytest.mark.skipif(shutil.which("chromium") is None, reason="no chromium to open the page with")
def test_in_a_browser(tmp_path):
    written(tmp_path, [Example(["x"], ["y"], {"m": [[1.0]]}), hostile()], title="Dates <b> \ud800")
    quiet = ["--disable-background-networking", "--disable-component-update", "--disable-sync", "--no-first-run"]
    command = ["chromium", "--headless", "--no-sandbox", "--disable-gpu", *quiet, f"--user-data-dir={tmp_path / 'profile'}"]
    address = (tmp_path / "deep" / "page.html").as_uri() + "#2"
    done = subprocess.run([*command, "--dump-dom", address], capture_output=True, text=True, timeout=120, check=True)
    shown = done.stdout
    assert "<title>Dates &lt;b&gt; ?</title>" in shown and "owned</title>" not in shown
    body = shown.partition("<script type=")[0]
    assert body.count("<td") == 2 * len(HOSTILE) and "2 of 2" in body
    assert "&lt;script&gt;document.title='owned'&lt;/script&gt;" in body and "U+202E" in body and "\ufffd" in body
    assert "<script" not in body and "<img" not in body
