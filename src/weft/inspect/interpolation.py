"""A page with the texts on the way from one to another."""

from __future__ import annotations

import html
from collections.abc import Sequence
from difflib import SequenceMatcher
from pathlib import Path

from weft.inspect.attention_page import fill


def way_page(
    steps: Sequence[tuple[float, str]], path: str | Path, *, first: str, last: str, how: str = "linear", title: str = ""
) -> Path:
    """Write one HTML file that needs no network, no script and no other file: a row for each step.

    Args:
        steps: How far each is, 0 to 1, with its text.
        path: The file to write.
        first: The text at which the way begins, as it was given.
        last: The text at which it ends.
        how: What the way is called.
        title: Stands above the table; also the page's title.
    """
    if not steps:
        raise ValueError("there are no steps to show: give at least one")
    before, rows = None, []
    for tau, text in steps:
        bar = f'<progress max="1" value="{tau:g}" aria-hidden="true"></progress>'
        same = ' class="same"' if text == before else ""
        rows.append(f"<tr{same}><td>{tau:.2f}{bar}</td><td><bdi>{marked(text, before)}</bdi></td></tr>")
        before = text
    values = {"title": title or f"From {first!r} to {last!r}", "first": first, "last": last, "how": how}
    return fill(
        "interpolation",
        path,
        {name: html.escape(value) for name, value in values.items()} | {"rows": "\n".join(rows)},
        ["attention_page", "interpolation"],
    )


def marked(text: str, before: str | None) -> str:
    """A text for a page, with the words marked that the one before it has not.

    >>> marked("the food was bad", "the food was good")
    'the food was <mark>bad</mark>'
    """
    words = text.split()
    if before is None:
        return html.escape(" ".join(words))
    found: list[str] = []
    for what, _, _, start, stop in SequenceMatcher(None, before.split(), words, autojunk=False).get_opcodes():
        part = html.escape(" ".join(words[start:stop]))
        if part:
            found.append(part if what == "equal" else f"<mark>{part}</mark>")
    return " ".join(found)
