"""The attention page in headless Chromium.

Without Chromium or playwright these tests are skipped; with WEFT_REQUIRE_BROWSER=1 they fail instead.
"""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest
from tests.inspect.test_attention_page import HOSTILE, hostile

from weft.inspect.attention_page import AttentionExample, AttentionMap, DecodingStep, attention_page

FLAGS = (
    "--no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking "
    "--disable-component-update --disable-sync"
)


def find_chromium() -> str:
    """Return the path of Chromium; skip or fail the test if it or playwright is missing."""
    chromium = shutil.which("chromium") or shutil.which("chromium-browser")
    if importlib.util.find_spec("playwright") is None:
        reason = "playwright is not installed: pip install playwright"
    elif chromium is None:
        reason = "there is no chromium to open the page with: apt install chromium"
    else:
        return chromium
    if os.environ.get("WEFT_REQUIRE_BROWSER") == "1":
        pytest.fail(f"{reason} (WEFT_REQUIRE_BROWSER=1)")
    pytest.skip(reason)


@pytest.fixture(scope="module")
def browser(tmp_path_factory) -> Iterator[Any]:
    chromium = find_chromium()
    from playwright.sync_api import sync_playwright

    with sync_playwright() as driver:
        profile = tmp_path_factory.mktemp("profile")
        context = driver.chromium.launch_persistent_context(
            str(profile), executable_path=chromium, headless=True, args=FLAGS.split(), timeout=120_000
        )
        context.set_default_timeout(60_000)
        yield context
        context.close()


@dataclass
class Opened:
    """A page in the browser, with its errors and network requests."""

    page: Any
    address: str
    errors: list[str] = field(default_factory=list)
    requests: list[str] = field(default_factory=list)

    def __call__(self, selector: str) -> Any:
        return self.page.locator(selector)

    def weights(self, strip: str = "#to") -> list[float]:
        """The weights that a row of tokens shows, in percent."""
        texts = self(f"{strip} .token").evaluate_all("nodes => nodes.map(node => node.dataset.weight)")
        return [float(text.removesuffix(" %")) for text in texts]

    def shades(self) -> list[float]:
        """Opacity of the color of each key token, 0 to 1."""
        styles = self("#to .token").evaluate_all("nodes => nodes.map(node => getComputedStyle(node).backgroundImage)")
        found = [re.search(r"rgba?\(([^)]*)\)", style) for style in styles]
        assert all(found), styles
        parts = [m[1].split(",") for m in found if m]
        return [float(p[3]) if len(p) == 4 else 1.0 for p in parts]

    def picture(self) -> str:
        return self("#map").evaluate("canvas => canvas.toDataURL()")


@pytest.fixture
def opened(browser, tmp_path) -> Iterator[Any]:
    """Open a page; at the end it must have had no error and no request for anything but itself."""
    found: list[Opened] = []

    def open_page(examples: list[AttentionExample], title: str = "A title", hash: str = "", **media: Any) -> Opened:
        file = attention_page(examples, tmp_path / "page.html", title)
        page = browser.new_page()
        one = Opened(page, file.as_uri())
        page.on("console", lambda message: one.errors.append(message.text))
        page.on("pageerror", lambda error: one.errors.append(str(error)))
        page.on("dialog", lambda dialog: (one.errors.append("dialog"), dialog.dismiss()))
        page.on("request", lambda request: one.requests.append(request.url))
        page.set_viewport_size({"width": media.pop("width", 1200), "height": 900})
        page.emulate_media(**media)
        page.goto(one.address + hash)
        found.append(one)
        return one

    yield open_page
    for one in found:
        requested = [address for address in one.requests if address.partition("#")[0] != one.address and address != "data:,"]
        one.page.close()
        assert not one.errors and not requested, (one.errors, requested)


SOURCE, TARGET, FED = ["le", "chat", "dort", "⟨eos⟩"], ["the", "cat", "sleeps", "⟨eos⟩"], ["⟨bos⟩", "the", "cat", "sleeps"]


def random_maps(heads: int, rows: int, columns: int, seed: int, causal: bool = False) -> np.ndarray:
    weight = np.random.default_rng(seed).dirichlet(np.full(columns, 0.4), (heads, rows))
    weight = np.tril(weight + 1e-3) if causal else weight
    return weight / weight.sum(-1, keepdims=True)


CROSSED = [random_maps(3, 4, 4, n) for n in range(2)]
MAPS = {
    **{f"decoder.{n}.context": AttentionMap(w, TARGET, SOURCE) for n, w in enumerate(CROSSED)},
    "encoder.0.mixer": AttentionMap(random_maps(3, 4, 4, 5), SOURCE, SOURCE, "Encoder", "Encoding"),
    "decoder.0.mixer": AttentionMap(random_maps(3, 4, 4, 6, causal=True), TARGET, FED, "Decoder"),
}
STEPS = [
    DecodingStep("the", 0.61, 1, [("the", 0.61), ("a", 0.2)]),
    DecodingStep("cat", 0.25, 2, [("dog", 0.5), ("cat", 0.25)]),
    DecodingStep("sleeps", 0.011, 9, [("is", 0.4), ("<b>", 0.3)]),
    DecodingStep("⟨eos⟩", 0.9, 1, [("⟨eos⟩", 0.9), (".", 0.05)]),
]
PLAIN = AttentionExample(SOURCE, TARGET, MAPS, input="le chat dort", output="the cat sleeps", steps=STEPS)


def test_hovering_a_token_shows_its_attention_weights(opened):
    page = opened([PLAIN])
    assert page("#from .token").all_inner_texts() == TARGET and page("#to .token").all_inner_texts() == SOURCE
    assert "Move over" in page("#readout").inner_text() and not any(page.shades())
    before = page.picture()
    page("#from .token").nth(1).hover()
    expected = np.mean(CROSSED, (0, 1))[1]
    assert page.weights() == pytest.approx(100 * expected, abs=0.07)
    assert page.shades() == pytest.approx(expected / expected.max(), abs=0.01)
    chosen = page("#from .token").evaluate_all("nodes => nodes.map(node => node.ariaSelected)")
    assert chosen == ["false", "true", "false", "false"]
    readout = page("#readout").inner_text()
    assert "Generating cat (2), the model attends to" in readout
    first = re.search(r"attends to (\S+) ([\d.]+) %, ", readout)
    assert first and first[1] == SOURCE[expected.argmax()] and float(first[2]) == pytest.approx(100 * expected.max(), abs=0.07)
    assert page.picture() != before
    assert "active" in page("#steps > li").nth(1).get_attribute("class")
    page("#to .token").nth(2).hover()
    assert page.weights("#from") == pytest.approx(100 * np.mean(CROSSED, (0, 1))[:, 2], abs=0.07)
    assert "dort (3) receives attention from" in page("#readout").inner_text()
    page("h1").hover()
    assert "Move over" in page("#readout").inner_text() and page.picture() == before


def test_choosing_layer_and_head_changes_the_map(opened):
    page = opened([PLAIN])
    page("#from .token").nth(2).click()
    pictures = {page.picture()}

    def shows(expected: np.ndarray, title: str) -> None:
        assert page.weights() == pytest.approx(100 * expected[2], abs=0.07)
        assert title in page("#map-title").inner_text()
        pictures.add(page.picture())

    shows(np.mean(CROSSED, (0, 1)), "mean of all layers, mean of all heads")
    page("#layer").select_option("2")
    shows(CROSSED[1].mean(0), "layer 2, mean of all heads")
    page("#head").select_option("3")
    shows(CROSSED[1][2], "layer 2, head 3")
    page('#overview button[aria-label="Layer 1, head 2"]').click()
    shows(CROSSED[0][1], "layer 1, head 2")
    assert (page("#layer").input_value(), page("#head").input_value()) == ("1", "2")
    assert page('#overview button[aria-pressed="true"]').all_inner_texts() == [""]
    assert len(pictures) == 4
    page("#kinds button").nth(1).click()
    assert page("#from .token").all_inner_texts() == SOURCE and page("#layer-pick").is_hidden()
    page("#kinds button").nth(2).click()
    assert page("#to .token").all_inner_texts() == FED
    page("#from .token").nth(1).hover()
    assert page.weights() == pytest.approx(100 * MAPS["decoder.0.mixer"].weights.mean(0)[1], abs=0.07)
    assert page.weights()[2:] == [0, 0]


def test_hovering_a_cell_of_the_map_shows_its_weight(opened):
    page = opened([PLAIN])
    box, size = page("#map").bounding_box(), page.page.evaluate("geometry")
    at = [size["left"] + 2.5 * size["cell"], size["top"] + 1.5 * size["cell"]]
    page.page.mouse.move(box["x"] + at[0], box["y"] + at[1])
    readout = re.fullmatch(
        r"Generating cat \(2\), the model attends to dort \(3\) with ([\d.]+) % of its attention weight\.",
        page("#readout").inner_text(),
    )
    assert readout and float(readout[1]) == pytest.approx(100 * np.mean(CROSSED, (0, 1))[1, 2], abs=0.07)


def test_token_probabilities_mark_the_token_of_the_output(opened):
    page = opened([PLAIN])
    texts = [re.sub(r"\s+", " ", text) for text in page("#steps > li").all_inner_texts()]
    assert texts == [
        "1 the 61.0 % ✓ a 20.0 %",
        "2 dog 50.0 % cat 25.0 % ✓",
        "3 chosen: rank 9 is 40.0 % <b> 30.0 % sleeps 1.1 % ✓",
        "4 ⟨eos⟩ 90.0 % ✓ . 5.0 %",
    ]
    assert page("#steps .chosen .token").all_inner_texts() == TARGET
    width = page("#steps .row").nth(0).evaluate("node => getComputedStyle(node, '::before').width")
    assert float(width.removesuffix("px")) == pytest.approx(
        0.61 * page("#steps .row").nth(0).evaluate("n => n.clientWidth"), abs=1
    )


def test_classifier_without_attention(opened):
    page = opened([AttentionExample(["so", "⟨eos⟩"], [], classes=[("good", 0.875), ("bad", 0.125)], input="so", output="good")])
    assert [re.sub(r"\s+", " ", text) for text in page("#classes li").all_inner_texts()] == ["good 87.5 %", "bad 12.5 %"]
    assert page("#attention").is_hidden() and page("#step-card").is_hidden() and page("#chooser").is_hidden()
    assert page("#tokens .token").all_inner_texts() == ["so", "⟨eos⟩"]
    assert "has no attention" in page("#notes").inner_text()
    page.page.keyboard.press("Escape")
    page.page.keyboard.press("ArrowRight")


def test_texts_with_markup_are_shown_and_not_executed(opened):
    page = opened([PLAIN, hostile()], title="Dates <b> \ud800 </title><script>window.hacked = 1</script>", hash="#2")
    assert page("#count").inner_text() == "2 of 2"
    shown = page("#to .token").all_text_contents()
    for text, seen in zip(HOSTILE, shown, strict=True):
        named = {" ": "·", "": "∅", "\ud800": "\ufffd", "\u202eabc\u2028\u2029\u200f": "U+202EabcU+2028U+2029U+200F"}
        assert seen == named.get(text, text)
    assert page("#input").text_content() == HOSTILE[0] and page("#output").text_content() == HOSTILE[1]
    assert page("#classes bdi").all_text_contents()[:4] == HOSTILE[:4]
    assert page("#candidates bdi").all_text_contents()[:4] == HOSTILE[:4]
    assert page(".note").all_text_contents()[:4] == HOSTILE[:4]
    assert page("#steps > li").count() == len(HOSTILE)
    for n in range(page("#kinds button").count()):
        page("#kinds button").nth(n).click()
        page("#from .token").first.hover()
        page("#to .token").first.hover()
    assert page.page.evaluate("typeof window.hacked") == "undefined"
    assert page.page.evaluate("document.querySelectorAll('main script, main img, main b script').length") == 0
    assert page("script").count() == 2 and page("h1").text_content() == page.page.title().replace("?", "\ufffd")
    # the policy blocks even a script that is added to the page
    inside = "const s = document.createElement('script'); s.textContent = 'window.hacked = 1'; document.body.append(s)"
    page.page.evaluate(inside)
    assert page.page.evaluate("typeof window.hacked") == "undefined"
    assert "Content Security Policy" in page.errors.pop()
    assert page.page.evaluate("document.documentElement.scrollWidth <= innerWidth")


def test_keyboard_navigation(opened):
    page = opened([PLAIN, hostile()])
    press = page.page.keyboard.press
    page("#from .token").first.focus()
    press("ArrowRight")
    press("ArrowRight")
    assert "Generating sleeps (3)" in page("#readout").inner_text()
    assert page("#from .token").nth(2).evaluate("node => node === document.activeElement")
    press("End")
    assert "Generating ⟨eos⟩ (4)" in page("#readout").inner_text()
    press("Tab")
    assert "le (1) receives attention from" in page("#readout").inner_text()
    press("Tab")
    assert page.page.evaluate("document.activeElement.getAttribute('aria-label')") == "Layer 1, head 1"
    press("ArrowDown")
    press("ArrowRight")
    press("Enter")
    assert "layer 2, head 2" in page("#map-title").inner_text()
    page("#map").focus()
    press("Escape")
    assert "Move over" in page("#readout").inner_text()
    for key in ("ArrowDown", "ArrowDown", "ArrowRight"):
        press(key)
    assert "Generating cat (2), the model attends to chat (2)" in page("#readout").inner_text()
    page("#map").evaluate("node => node.blur()")
    press("ArrowRight")
    assert page("#count").inner_text() == "2 of 2"
    press("ArrowLeft")
    assert page("#count").inner_text() == "1 of 2" and page.page.url.endswith("#1")


LARGE = [f"▁word{n}" for n in range(60)]


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1300, 360])
def test_a_large_model_on_wide_and_narrow_screens(opened, scheme, width):
    maps = {
        f"layers.{n}": AttentionMap(random_maps(12, 60, 60, n), LARGE, LARGE, "Self-attention", "Encoding") for n in range(12)
    }
    page = opened([AttentionExample(LARGE, LARGE, maps)], color_scheme=scheme, width=width)
    assert page("#overview button").count() == 144
    page("#overview button").nth(143).click()
    page("#from .token").nth(59).hover()
    strongest = page("#to .token").nth(int(maps["layers.11"].weights[11, 59].argmax()))
    box, shown = strongest.bounding_box(), page("#to").bounding_box()
    assert shown["y"] - 1 <= box["y"] and box["y"] + box["height"] <= shown["y"] + shown["height"] + 1
    assert page.weights() == pytest.approx(100 * maps["layers.11"].weights[11, 59], abs=0.07)
    assert page.page.evaluate("document.documentElement.scrollWidth") <= width
    back = page("body").evaluate("node => getComputedStyle(node).backgroundColor")
    assert (sum(map(int, re.findall(r"\d+", back))) < 200) == (scheme == "dark")
    side = page("#map").evaluate(
        "canvas => canvas.getContext('2d').getImageData(canvas.width / 2, canvas.height / 2, 1, 1).data[0]"
    )
    assert (side < 130) == (scheme == "dark")


def test_a_missing_browser_skips_or_fails(monkeypatch):
    monkeypatch.setattr(shutil, "which", lambda name: None)
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: object())
    monkeypatch.delenv("WEFT_REQUIRE_BROWSER", raising=False)
    with pytest.raises(pytest.skip.Exception, match="there is no chromium"):
        find_chromium()
    monkeypatch.setenv("WEFT_REQUIRE_BROWSER", "1")
    with pytest.raises(pytest.fail.Exception, match="there is no chromium"):
        find_chromium()
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(pytest.fail.Exception, match="playwright is not installed"):
        find_chromium()
