from __future__ import annotations

import base64
import hashlib
import importlib
import json
import re
from html.parser import HTMLParser

import numpy as np
import pytest
import torch

from weft.inspect import AttentionExample, attention_page
from weft.inspect.attention_page import CROSS, AttentionMap, DecodingStep

page_module = importlib.import_module("weft.inspect.attention_page")  # the package has a function of the same name

HOSTILE = [
    "<script>window.hacked = 1</script>",
    "</script><script>window.hacked = 1</script>",
    '<img src=x onerror="window.hacked = 1">',
    "<!-- <script>",
    "-->",
    "&lt;b&gt;",
    "\"';window.hacked=1//`${window.hacked=1}`",
    "\u202eabc\u2028\u2029\u200f",
    "\ud800",
    "{{data}}{{policy}}{{script}}",
    "\\u003c",
    "مرحبا",
    "😀👩‍👩‍👧",
    "x" * 5000,
    "__proto__",
    " ",
    "",
]


def hostile() -> AttentionExample:
    maps: dict = {text: np.full((2, len(HOSTILE)), 1 / len(HOSTILE)) for text in HOSTILE}
    maps["own"] = AttentionMap(np.full((1, 2, 2), 0.5), HOSTILE[:2], HOSTILE[2:4], HOSTILE[0], HOSTILE[1])
    pairs = [(text, -1.0) for text in HOSTILE]
    classes = [(text, 1 / len(HOSTILE)) for text in HOSTILE]
    steps = [DecodingStep(text, 0.1, 1 + n, classes) for n, text in enumerate(HOSTILE)]
    return AttentionExample(HOSTILE, HOSTILE[:2], maps, HOSTILE[1], False, pairs, HOSTILE[0], HOSTILE[1], steps, classes, HOSTILE)


class Parts(HTMLParser):
    """The tags of a page and the text of its script elements."""

    def __init__(self, text: str):
        super().__init__()
        self.tags: list[tuple[str, dict]] = []
        self.texts: dict[str, list[str]] = {"script": [], "style": []}
        self.inside = ""
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        self.inside = tag if tag in self.texts else ""
        if self.inside:
            self.texts[tag].append("")

    def handle_endtag(self, tag):
        self.inside = ""

    def handle_data(self, data):
        if self.inside:
            self.texts[self.inside][-1] += data


def page_text(tmp_path, examples, title="A title"):
    return attention_page(examples, tmp_path / "deep" / "page.html", title).read_text(encoding="utf-8")


def data(page: str) -> dict:
    return json.loads(Parts(page).texts["script"][0])


def weights(layer: dict, rows: int, columns: int) -> np.ndarray:
    """Two characters of base 64 are twelve bits: the same as three bytes for two weights."""
    text = layer["weights"] + "A" * (-len(layer["weights"]) % 4)
    bits = np.unpackbits(np.frombuffer(base64.b64decode(text), np.uint8))[: 12 * layer["heads"] * rows * columns]
    return (bits.reshape(-1, 12) @ (1 << np.arange(11, -1, -1))).reshape(layer["heads"], rows, columns) / 4095


def test_page_contains_all_of_the_example(tmp_path):
    weight = torch.tensor([[[0.25, 0.75], [1.0, 0.0]], [[0.5, 0.5], [0.125, 0.875]]], requires_grad=True)
    maps = {"decoder.a": weight[0], "decoder.b": weight.tolist(), "decoder.c": weight.detach().numpy()}
    maps["encoder"] = AttentionMap([[0.2, 0.8], [0.4, 0.6]], ["x", "y"], ["x", "y"], "Encoder", "Encoding")
    step = DecodingStep("z", 0.123456, 7, [("w", 0.5)], forced=True)
    example = AttentionExample(
        ["x", "y"], ["z", "<eos>"], maps, "z", True, [("z", -0.5)], "x y", "z", [step], [("c", 0.25)], ["n"]
    )
    found = data(page_text(tmp_path, [example, AttentionExample(["x"], ["y"], {"m": [[1]]})]))
    kinds = found["examples"][0].pop("kinds")
    assert found["title"] == "A title"
    assert found["examples"][0] == {
        "tokens": [["x", "y"], ["z", "<eos>"]],
        "source": 0,
        "target": 1,
        "reference": "z",
        "correct": True,
        "candidates": [["z", -0.5]],
        "input": "x y",
        "output": "z",
        "steps": [["z", 0.12346, 7, [["w", 0.5]], True]],
        "classes": [["c", 0.25]],
        "notes": ["n"],
    }
    assert [(k["name"], k["action"], k["rows"], k["columns"]) for k in kinds] == [
        (CROSS, "Generating", 1, 0),
        ("Encoder", "Encoding", 0, 0),
    ]
    assert [layer["name"] for layer in kinds[0]["layers"]] == ["decoder.a", "decoder.b", "decoder.c"]
    expected = [weight[:1], weight, weight]
    for layer, one in zip(kinds[0]["layers"], expected, strict=True):
        assert weights(layer, 2, 2) == pytest.approx(one.detach().numpy(), abs=1 / 8190 + 1e-6)
    assert weights(kinds[1]["layers"][0], 2, 2)[0] == pytest.approx(np.array([[0.2, 0.8], [0.4, 0.6]]), abs=2e-4)
    assert found["examples"][1]["correct"] is None and found["examples"][1]["reference"] is None


def test_texts_with_markup_stay_data(tmp_path):
    harmless = Parts(page_text(tmp_path, [AttentionExample(["x"], ["y"], {"m": [[1.0]]})]))
    title = HOSTILE[1] + HOSTILE[9]
    page = page_text(tmp_path, [hostile()], title=title)
    parts = Parts(page)
    assert [tag for tag, _ in parts.tags] == [tag for tag, _ in harmless.tags]
    assert parts.texts["script"][1] == harmless.texts["script"][1]
    found = data(page)
    assert found["examples"][0]["tokens"][0] == HOSTILE and found["title"] == title
    embedded = parts.texts["script"][0]
    assert not set("<>&\u2028\u2029\u202e") & set(embedded)


def test_policy_allows_only_the_script_of_the_page_and_no_requests(tmp_path):
    page = page_text(tmp_path, [hostile()])
    parts = Parts(page)
    policy = next(a["content"] for tag, a in parts.tags if tag == "meta" and "http-equiv" in a)
    script, [style] = parts.texts["script"][1], parts.texts["style"]
    digests = [base64.b64encode(hashlib.sha256(text.encode()).digest()).decode() for text in (script, style)]
    assert policy == f"default-src 'none'; img-src data:; style-src 'sha256-{digests[1]}'; script-src 'sha256-{digests[0]}'"
    addresses = [a[name] for _, a in parts.tags for name in ("src", "href") if name in a]
    assert addresses == ["data:,"]
    assert not [name for _, attributes in parts.tags for name in attributes if name.startswith("on") or name == "style"]
    assert not re.search(r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\b|https?:|import\b", script)
    assert not re.search(r"url\(|@import", style)


def test_the_page_of_a_large_model_stays_small(tmp_path, monkeypatch):
    tokens = [f"t{n}" for n in range(60)]
    maps = {f"layers.{n}": np.full((12, 60, 60), 1 / 60) for n in range(12)}
    page = page_text(tmp_path, [AttentionExample(tokens, tokens, maps)])
    assert len(page) < 1_200_000
    monkeypatch.setattr(page_module, "MAX_WEIGHTS", 144 * 3600 - 1)
    heads = np.linspace(0, 1, 12)[:, None, None].repeat(60, 1).repeat(60, 2)
    [example] = data(page_text(tmp_path, [AttentionExample(tokens, tokens, dict.fromkeys(maps, heads))]))["examples"]
    assert "mean of its heads" in example["notes"][0]
    assert all(layer["heads"] == 1 for layer in example["kinds"][0]["layers"])
    assert weights(example["kinds"][0]["layers"][3], 60, 60) == pytest.approx(0.5, abs=2e-4)


def test_invalid_examples_are_rejected(tmp_path):
    with pytest.raises(ValueError, match="got no examples"):
        attention_page([], tmp_path / "p.html", "t")
    with pytest.raises(ValueError, match=r"map 'm' of example 1 has shape 1 x 3 x 2 for 2 queries and 3 keys; expected 2 x 3"):
        attention_page([hostile(), AttentionExample(list("abc"), list("de"), {"m": np.ones((3, 2))})], tmp_path / "p.html", "t")
    with pytest.raises(ValueError, match="weights that are not finite"):
        attention_page([AttentionExample(["a"], ["b"], {"m": [[float("nan")]]})], tmp_path / "p.html", "t")
    with pytest.raises(ValueError, match=r"weights from -2 to -2; attention weights are between 0 and 1"):
        attention_page([AttentionExample(["a"], ["b"], {"m": [[-2.0]]})], tmp_path / "p.html", "t")
    with pytest.raises(ValueError, match=r"weights from 1.5 to 1.5"):
        attention_page([AttentionExample(["a"], ["b"], {"m": [[1.5]]})], tmp_path / "p.html", "t")
