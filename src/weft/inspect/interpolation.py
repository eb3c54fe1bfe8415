"""Write a page of a latent interpolation: the texts decoded between two latent codes."""

from __future__ import annotations

import html
from collections.abc import Sequence
from difflib import SequenceMatcher
from pathlib import Path

from weft.inspect.web_page import write_page


def interpolation_page(
    steps: Sequence[tuple[float, str]], path: str | Path, *, first: str, last: str, how: str = "linear", title: str = ""
) -> Path:
    """Write the texts of a latent interpolation as one HTML file without scripts; return its path.

    Args:
        steps: Each tau between 0 and 1 with its decoded text.
        path: The file to write.
        first: The text whose code is at tau = 0.
        last: The text whose code is at tau = 1.
        how: Name of the interpolation, such as ``linear``.
        title: Title of the page; "" = made from both texts.
    """
    if not steps:
        raise ValueError("got no interpolation steps; pass at least one")
    before, rows = None, []
    for tau, text in steps:
        bar = f'<progress max="1" value="{tau:g}" aria-hidden="true"></progress>'
        same = ' class="same"' if text == before else ""
        rows.append(f"<tr{same}><td>{tau:.2f}{bar}</td><td><bdi>{mark_changes(text, before)}</bdi></td></tr>")
        before = text
    values = {"title": title or f"From {first!r} to {last!r}", "first": first, "last": last, "how": how}
    return write_page(
        "interpolation",
        path,
        {name: html.escape(value) for name, value in values.items()} | {"rows": "\n".join(rows)},
        ["attention_page", "interpolation"],
    )


def mark_changes(text: str, before: str | None) -> str:
    """Return a text as HTML, with the words in ``<mark>`` that differ from the text before it.

    >>> mark_changes("the food was bad", "the food was good")
    'the food was <mark>bad</mark>'
    """
    words = text.split()
    if before is None:
        return html.escape(" ".join(words))
    found: list[str] = []
    for operation, _, _, start, stop in SequenceMatcher(None, before.split(), words, autojunk=False).get_opcodes():
        part = html.escape(" ".join(words[start:stop]))
        if part:
            found.append(part if operation == "equal" else f"<mark>{part}</mark>")
    return " ".join(found)
