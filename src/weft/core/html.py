"""Pieces of HTML for notebooks: tables and heat maps, without scripts, style sheets and identifiers. All text is escaped."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

MOST_TOKENS = 48
"""Rows and columns of a heat map; of longer sequences, the first are shown."""

_LINE, _COLOR = "rgba(128,128,128,.35)", "#1d6fa5"
_FORBIDDEN = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_CELL = 15.0


@dataclass(frozen=True)
class Cell:
    """A cell of a table.

    Args:
        text: The content.
        strong: Whether it is emphasized, such as the best value of a row.
        hint: A tooltip.
    """

    text: str
    strong: bool = False
    hint: str = ""


def escape(text: str) -> str:
    """Escape text for an element or an attribute of HTML or XML; characters that XML forbids are replaced.

    >>> escape('<b a="1">&')
    '&lt;b a=&quot;1&quot;&gt;&amp;'
    """
    text = _FORBIDDEN.sub("\ufffd", str(text))
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;").replace('"', "&quot;").replace("'", "&#39;")


def show_number(value: float | None) -> str:
    """Four decimals; whole numbers without any, and a dash where there is no value.

    >>> [show_number(v) for v in (0.98765432, 12345.6, 3, None, float("nan"))]
    ['0.9877', '12345.6000', '3', '–', 'nan']
    """
    if value is None:
        return "–"
    return str(value) if isinstance(value, int) else f"{value:.4f}" if abs(value) < 1e5 else f"{value:.4g}"


def table(header: Sequence[str], rows: Iterable[Sequence[str | Cell]], *, caption: str = "", numbers: bool = True) -> str:
    """A table. The first column names the row.

    Args:
        header: The names of the columns.
        rows: The cells of each row.
        caption: A line above the table.
        numbers: Whether the other columns are numbers, which are aligned on the right.

    Example:
        >>> "<td" in table(["metric", "value"], [["bleu", "31.2"]])
        True
    """
    head = _row(header, "th", numbers)
    body = "".join(_row(row, "td", numbers) for row in rows)
    above = f'<caption style="caption-side:top;text-align:left;font-weight:600;padding:4px 0">{escape(caption)}</caption>'
    return (
        f'<table style="border-collapse:collapse;margin:4px 0 10px">{above if caption else ""}'
        f"<thead>{head}</thead><tbody>{body}</tbody></table>"
    )


def _row(row: Sequence[str | Cell], tag: str, numbers: bool) -> str:
    cells = (cell if isinstance(cell, Cell) else Cell(cell) for cell in row)
    return f"<tr>{''.join(_cell(cell, tag, column, numbers) for column, cell in enumerate(cells))}</tr>"


def _cell(cell: Cell, tag: str, column: int, numbers: bool) -> str:
    side = "right" if numbers and column else "left"
    weight = "600" if tag == "th" or cell.strong else "400"
    hint = f' title="{escape(cell.hint)}"' if cell.hint else ""
    style = f"text-align:{side};font-weight:{weight};padding:2px 10px;border-bottom:1px solid {_LINE};white-space:pre-wrap"
    return f'<{tag} style="{style}"{hint}>{escape(cell.text)}</{tag}>'


def notes(texts: Iterable[str]) -> str:
    """Remarks below a table."""
    return "".join(f'<div style="opacity:.75;font-size:90%">{escape(text)}</div>' for text in texts)


def page(*parts: str) -> str:
    """Pieces of HTML as the display of one object."""
    return f"<div>{''.join(parts)}</div>"


def heat_map(weights: Sequence[Sequence[float]], rows: Sequence[str], columns: Sequence[str], *, caption: str = "") -> str:
    """A heat map as inline SVG: the larger a weight between 0 and 1, the darker its cell.

    Args:
        weights: A row of weights for each of ``rows``.
        rows: Labels at the left.
        columns: Labels at the top.
        caption: A line above the map.

    Example:
        >>> heat_map([[0.25, 0.75]], ["a"], ["b", "c"]).count("<rect")
        2
    """
    shown, across = min(len(rows), MOST_TOKENS), min(len(columns), MOST_TOKENS)
    left = 10 + 6.4 * max((len(_short(text)) for text in rows[:shown]), default=0)
    top = 10 + 6.4 * max((len(_short(text)) for text in columns[:across]), default=0)
    parts = [
        f'<text x="{left - 5:.0f}" y="{top + _CELL * r + 11:.0f}" text-anchor="end">{escape(_short(text))}</text>'
        for r, text in enumerate(rows[:shown])
    ]
    for c, text in enumerate(columns[:across]):
        x, y = left + _CELL * c + 11, top - 5
        parts.append(f'<text x="{x:.0f}" y="{y:.0f}" transform="rotate(-90 {x:.0f} {y:.0f})">{escape(_short(text))}</text>')
    for r, (row, line) in enumerate(zip(rows[:shown], weights, strict=False)):
        for c, (column, weight) in enumerate(zip(columns[:across], line, strict=False)):
            parts.append(_square(left + _CELL * c, top + _CELL * r, float(weight), f"{row} → {column}"))
    width, height = left + _CELL * across + 4, top + _CELL * shown + 4
    cut = f"only the first {shown} × {across} of {len(rows)} × {len(columns)} weights are shown"
    return (
        f'<figure style="display:inline-block;margin:4px 12px 8px 0;vertical-align:top">'
        f'<figcaption style="font-weight:600">{escape(caption)}</figcaption>'
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width:.0f}" height="{height:.0f}" font-size="11" '
        f'font-family="monospace" fill="currentColor">{"".join(parts)}</svg>'
        f"{notes([cut]) if (shown, across) != (len(rows), len(columns)) else ''}</figure>"
    )


def _square(x: float, y: float, weight: float, of: str) -> str:
    level = min(1.0, max(0.0, weight)) if math.isfinite(weight) else 0.0
    return (
        f'<rect x="{x:.0f}" y="{y:.0f}" width="{_CELL - 1:.0f}" height="{_CELL - 1:.0f}" fill="{_COLOR}" '
        f'fill-opacity="{0.04 + 0.96 * level:.3f}"><title>{escape(f"{of}: {weight:.3f}")}</title></rect>'
    )


def _short(text: Any) -> str:
    text = " ".join(str(text).split()) or "␣"
    return text if len(text) <= 14 else f"{text[:13]}…"
