"""Display of attributions in a notebook, and the pieces that the page shares with it.

Shape suffixes: H height, W width, C channels.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from weft.core import html

if TYPE_CHECKING:
    from weft.inspect.attribution import Attribution, OutputAttribution

LEVELS = 10
"""Number of shades of either sign."""
_POSITIVE, _NEGATIVE = (29, 92, 214), (201, 76, 20)
_SIDE, _WIDTH = 56, 280
"""Maximum rows and columns of a picture, of whose cells larger blocks are averaged; its width on the page in pixels."""
_MAX_OUTPUTS = 12


def attribution_html(found: Attribution) -> str:
    """Prediction, entities, and the colored tokens or patches of each output."""
    rows = [["input", found.input.replace("\t", " | ")], ["prediction", found.prediction], ["method", method_text(found)]]
    rows += [["entities", ", ".join(f"{kind}: {' '.join(found.words[a:b])}" for kind, a, b in found.entities)]] * bool(
        found.entities
    )
    parts = [html.table(["", ""], rows, numbers=False)]
    for one in found.outputs[:_MAX_OUTPUTS]:
        shown = heat_svg(one.values, found.grid) if found.grid else "".join(_strip(found, one))
        parts.append(f'<div style="margin:6px 0"><div style="font-weight:600">{html.escape(one.name)}</div>{shown}</div>')
        parts.append(html.notes([sum_text(one, found.method)]))
    left = len(found.outputs) - _MAX_OUTPUTS
    notes = [f"{left} more outputs are not shown"] if left > 0 else []
    legend = ["blue: raises the score; orange: lowers it; scaled to the largest value of each output"] if found.outputs else []
    return html.page(*parts, html.notes([*legend, *notes, *found.notes]))


def _strip(found: Attribution, one: OutputAttribution) -> list[str]:
    spans: list[str] = []
    for at, (token, value, level) in enumerate(zip(found.tokens, one.values, shades(one.values), strict=True)):
        color, depth = _POSITIVE if level > 0 else _NEGATIVE, abs(level) / LEVELS * 0.55
        style = f"background:rgba({color[0]},{color[1]},{color[2]},{depth:.2f});padding:1px 4px;margin:1px;display:inline-block;"
        style += "font-family:monospace;white-space:pre"
        gap = "&#160;| " if at and found.fields[at] != found.fields[at - 1] else ""
        spans.append(f'{gap}<span style="{style}" title="{value:+.4f}">{html.escape(token) or "␣"}</span>')
    return spans


def shades(values: Sequence[float]) -> list[int]:
    """The color of each value, from -10 to 10, relative to the largest absolute value.

    >>> shades([0.5, -1.0, 0.01])
    [5, -10, 0]
    """
    top = max(map(abs, values), default=0.0)
    return [round(LEVELS * value / top) if top > 0 else 0 for value in values]


def method_text(found: Attribution) -> str:
    """The method with its options, as one line."""
    steps = f", {found.steps} steps" if found.steps else ""
    return f"{found.method}{steps}, baseline: {found.baseline}"


def sum_text(one: OutputAttribution, method: str = "integrated-gradients") -> str:
    """The sum of the attributions, compared with the difference of the scores; those of occlusion need not be equal.

    >>> from weft.inspect.attribution import OutputAttribution
    >>> sum_text(OutputAttribution("good", [0.5, 1.0], 1.25, -0.25))
    'sum of attributions +1.500; score of the input +1.250, of the baseline -0.250, difference +1.500 (error +0.000)'
    """
    difference = one.score - one.baseline_score
    return (
        f"sum of attributions {one.total:+.3f}; score of the input {one.score:+.3f}, of the baseline {one.baseline_score:+.3f}, "
        f"difference {difference:+.3f}{'' if method == 'occlusion' else f' (error {one.error:+.3f})'}"
    ).replace("-0.000", "+0.000")


def heat_svg(values: Sequence[float], grid: tuple[int, int]) -> str:
    """The values of patches as an SVG picture, blue where positive and orange where negative."""
    value_HW = _pooled(np.asarray(values, np.float64).reshape(grid))
    top = max(float(np.abs(value_HW).max()), 1e-12)
    cells = [[_shade(value / top) for value in row] for row in value_HW.tolist()]
    return _svg(cells, "attribution of each patch")


def image_svg(pixel_HWC: np.ndarray) -> str:
    """Pixels between -1 and 1 as an SVG picture."""
    level_HWC = np.rint((_pooled(pixel_HWC).clip(-1, 1) + 1) * 127.5).astype(int)
    level_HWC = np.repeat(level_HWC, 3, 2) if level_HWC.shape[2] == 1 else level_HWC
    return _svg([["#{:02x}{:02x}{:02x}".format(*pixel) for pixel in row] for row in level_HWC.tolist()], "the image")


def _pooled(x_HW: np.ndarray) -> np.ndarray:
    """Means of equal blocks, so that no side is longer than the limit; blocks at the end may be smaller."""
    block = -(-max(x_HW.shape[:2]) // _SIDE)
    for axis in (0, 1) if block > 1 else ():
        starts = np.arange(0, x_HW.shape[axis], block)
        sizes = np.diff([*starts, x_HW.shape[axis]])
        shape = [-1 if a == axis else 1 for a in range(x_HW.ndim)]
        x_HW = np.add.reduceat(x_HW, starts, axis) / sizes.reshape(shape)
    return x_HW


def _shade(share: float) -> str:
    color = _POSITIVE if share > 0 else _NEGATIVE
    return "#{:02x}{:02x}{:02x}".format(*(round(255 - abs(share) * (255 - part)) for part in color))


def _svg(cells: Sequence[Sequence[str]], label: str) -> str:
    rows, columns = len(cells), len(cells[0])
    rectangles = "".join(
        f'<rect x="{x}" y="{y}" width="1.02" height="1.02" fill="{color}"/>'
        for y, row in enumerate(cells)
        for x, color in enumerate(row)
    )
    height = _WIDTH * rows // columns
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" role="img" aria-label="{label}" width="{_WIDTH}" height="{height}" '
        f'viewBox="0 0 {columns} {rows}">{rectangles}</svg>'
    )
