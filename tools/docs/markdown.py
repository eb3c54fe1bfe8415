"""Markdown of docstrings and tables."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterable, Sequence

from tools.docs.formulas import mathml, pieces


def docstring(body: str) -> str:
    """Markdown of what follows a docstring's summary: formulas as mathematics, prose as it is."""
    blocks: list[str] = []
    for number, paragraph in enumerate(re.split(r"\n\s*\n", body.strip())):
        if paragraph.startswith("Example:") or not paragraph.strip():
            continue
        text, mark, session = paragraph.partition(">>> ")
        text = text.rstrip()
        for piece in pieces(text, first=number == 0) if text else []:
            blocks.append(formula(piece.text) if piece.formula else prose(piece.text))
        if mark:
            blocks.append(code(textwrap.dedent(mark + session), "pycon"))
    return "\n\n".join(blocks)


def formula(text: str) -> str:
    """A displayed formula."""
    return f'<div class="formula">{mathml(text)}</div>'


def prose(text: str) -> str:
    """Plain text with characters escaped that Markdown would take for its own; code in backticks is left alone."""
    parts = re.split(r"(``[^`]+``|`[^`]+`|https?://[^\s,;]+)", text)
    return "".join(part if number % 2 else _escape(part) for number, part in enumerate(parts))


def _escape(text: str) -> str:
    return re.sub(r"([*_\[\]|])", r"\\\1", text.replace("&", "&amp;").replace("<", "&lt;"))


def cell(text: str) -> str:
    """Text for a cell of a table."""
    return " ".join(text.split()).replace("|", r"\|")


def table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A Markdown table; cells are Markdown already."""
    lines = [" | ".join(header), " | ".join("---" for _ in header), *(" | ".join(row) for row in rows)]
    return "\n".join(f"| {line} |" for line in lines)


def code(text: str, language: str) -> str:
    """A fenced block."""
    return f"```{language}\n{text.rstrip()}\n```"


def page(*blocks: str | None) -> str:
    """Blocks as one page."""
    return "\n\n".join(block.strip("\n") for block in blocks if block) + "\n"
