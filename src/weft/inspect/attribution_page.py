"""Write a page of attributions: colored tokens or patches, and the entities of tagged texts."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby
from pathlib import Path

from weft.core.html import escape
from weft.data.tag_schemes import Span
from weft.inspect.attribution import Attribution, OutputAttribution
from weft.inspect.attribution_html import heat_svg, image_svg, method_text, shades, sum_text
from weft.inspect.entity_spans import color_of, layers
from weft.inspect.web_page import write_page

_MAX_SUMS = 5
"""Maximum number of outputs whose sums are shown above the table of all values."""


def attribution_page(found: Sequence[Attribution], path: str | Path, title: str) -> Path:
    """Write the attributions of one or several inputs as one HTML file without scripts; return its path.

    Args:
        found: The attributions, from ``weft.inspect.attribution``.
        path: The file to write.
        title: Title of the page.
    """
    if not found:
        raise ValueError("got no attributions to show; pass at least one")
    cards = "\n".join(_card(one, number, len(found)) for number, one in enumerate(found, 1))
    return write_page("attribution_page", path, {"title": escape(title), "cards": cards}, ["attention_page", "attribution_page"])


def _card(found: Attribution, number: int, count: int) -> str:
    facts = [("Input", found.input.replace("\t", " | ")), ("Prediction", found.prediction), ("Method", method_text(found))]
    rows = "".join(
        f"<dt>{name}</dt><dd><bdi>{escape(text)}</bdi></dd>" for name, text in facts if name != "Prediction" or not found.words
    )
    heading = f"<h2>Input {number} of {count}</h2>" if count > 1 else ""
    parts = [f"{heading}<dl>{rows}</dl>"]
    if found.words:
        parts.append(f"<h3>Predicted entities</h3>{entity_html(found.words, found.entities)}")
    if found.pixels is not None:
        image = f"<figure>{image_svg(found.pixels)}<figcaption>Image</figcaption></figure>"
        parts.append(f'<div class="pictures">{image}{_pictures(found)}</div>')
    elif found.outputs:
        parts.append(_outputs(found))
    if found.outputs:
        parts.append(_LEGEND)
        shown = found.outputs[:_MAX_SUMS]
        parts.append(
            "".join(f'<p class="sum"><b><bdi>{escape(one.name)}</bdi></b>: {sum_text(one, found.method)}</p>' for one in shown)
        )
        if len(shown) < len(found.outputs):
            parts.append(f'<p class="sum">The sums of all {len(found.outputs)} outputs are below.</p>')
    parts += [f'<p class="note">{escape(note)}</p>' for note in found.notes]
    if found.outputs and found.grid is None:
        parts.append(_table(found))
    return f'<section class="card">{"".join(parts)}</section>'


_LEGEND = (
    '<p class="scale" aria-hidden="true"><span>lowers the score</span>'
    + "".join(f'<i class="{"n" if level < 0 else "p"}{abs(level)}"></i>' for level in range(-10, 11))
    + "<span>raises the score</span></p>"
    '<p class="count">Scores are log-odds, log p - log (1 - p), or the value of a regression. Colors are relative to the largest '
    "absolute attribution of each output.</p>"
)


def _outputs(found: Attribution) -> str:
    rows = "".join(
        f'<tr><th scope="row"><bdi>{escape(one.name)}</bdi></th><td>{"".join(_strip(found, one))}</td></tr>'
        for one in found.outputs
    )
    head = '<thead><tr><th scope="col">Output</th><th scope="col">Input tokens</th></tr></thead>'
    return f'<table class="outputs">{head}<tbody>{rows}</tbody></table>'


def _strip(found: Attribution, one: OutputAttribution) -> Iterator[str]:
    """The tokens of an output in colors, with a separator between texts."""
    triples = list(zip(found.tokens, one.values, shades(one.values), strict=True))
    at = 0
    for number, (_, of) in enumerate(groupby(found.fields)):
        size = len(list(of))
        if number:
            yield '<span class="between" aria-label="next text">|</span>'
        for token, value, level in triples[at : at + size]:
            shade = f"{'n' if level < 0 else 'p'}{abs(level)}"
            yield f'<span class="token {shade}" title="{value:+.4f}">{escape(token) or "␣"}</span>'
        at += size


def _pictures(found: Attribution) -> str:
    assert found.grid is not None
    return "".join(
        f"<figure>{heat_svg(one.values, found.grid)}<figcaption><bdi>{escape(one.name)}</bdi></figcaption></figure>"
        for one in found.outputs
    )


def _table(found: Attribution) -> str:
    """All values as a table, for assistive technology and for copying."""
    head = "".join(f'<th scope="col"><bdi>{escape(one.name)}</bdi></th>' for one in found.outputs)
    rows = "".join(_value_row(token, [one.values[at] for one in found.outputs]) for at, token in enumerate(found.tokens))
    sums = {
        "sum": [one.total for one in found.outputs],
        "score of the input": [one.score for one in found.outputs],
        "score of the baseline": [one.baseline_score for one in found.outputs],
        "error of the sum": [one.error for one in found.outputs],
    }
    foot = "".join(_value_row(name, values) for name, values in sums.items())
    head = f'<thead><tr><th scope="col">Token</th>{head}</tr></thead>'
    table = f'<table class="values">{head}<tbody>{rows}</tbody><tfoot>{foot}</tfoot></table>'
    return f'<details><summary>All values</summary><div class="scroll">{table}</div></details>'


def _value_row(name: str, values: Sequence[float]) -> str:
    cells = "".join(f"<td>{value:+.4f}</td>" for value in values)
    return f'<tr><th scope="row"><bdi>{escape(name)}</bdi></th>{cells}</tr>'


def entity_html(words: Sequence[str], spans: Sequence[Span]) -> str:
    """A text with a colored bar and a label over each span; overlapping spans are stacked.

    >>> entity_html(["Ada", "saw"], [("PER", 0, 1)]).count("PER")
    1
    """
    rows, colors = layers(spans), color_of(spans)
    columns: list[str] = []
    for at, word in enumerate(words):
        bars = "".join(_bar(next((span for span in row if span[1] <= at < span[2]), None), at, colors) for row in reversed(rows))
        columns.append(f'<span class="word">{bars}<bdi>{escape(word)}</bdi></span>')
    return f'<p class="entities">{" ".join(columns)}</p>'


def _bar(span: Span | None, at: int, colors: dict[str, int]) -> str:
    """The part of a span over one word: the label at its first word."""
    if span is None:
        return '<i class="bar"></i>'
    kind, start, end = span
    shape = " first" * (at == start) + " last" * (at == end - 1)
    return f'<i class="bar e{colors[kind]}{shape}">{escape(kind) if at == start else ""}</i>'
