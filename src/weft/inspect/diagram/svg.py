"""Draw a figure as SVG text: no scripts, no style sheets, no identifiers, so that several figures can stand on one page."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from weft.core.html import escape
from weft.inspect.diagram.layout import (
    SMALL,
    STRIP,
    TITLE,
    Layout,
    Note,
    Rect,
    Wire,
    beside,
    count_of,
    head_of,
    is_framed,
    kind_shown,
    lines_of,
)
from weft.inspect.diagram.text import fit, width_of
from weft.inspect.diagram.tree import Block

FONT = "Helvetica Neue, Helvetica, Arial, Liberation Sans, sans-serif"
INK, GRAY, LINE, FRAME, COUNT = "#1f2933", "#5f6b7a", "#4a5563", "#c3cad4", "#1d6fa5"
COLORS = {
    "embedding": ("#fbe1e3", "#d68f97", "Embedding"),
    "attention": ("#fde8cc", "#dfa55b", "Attention"),
    "feed-forward": ("#d3e8f7", "#7cb0d6", "Feed-forward"),
    "normalization": ("#f2f3cc", "#bfc263", "Normalization"),
    "recurrent": ("#e5ddf4", "#a591d1", "Recurrent network"),
    "pooling": ("#d2eee6", "#79bdab", "Pooling"),
    "head": ("#dff0d4", "#93bd76", "Head"),
    "projection": ("#ebe6df", "#b7a993", "Linear map"),
    "position": ("#ffffff", "#9aa5b1", "Position encoding"),
    "other": ("#e9edf2", "#a9b3bf", "Other"),
}
"""Fill, border and legend of blocks without parts, by role."""
FADED = 0.45
"""Opacity of what a stage does not use."""


Span = tuple[str, float, str, bool]
"""A part of a line: text, size, color, and whether it is bold."""


class Canvas:
    """Elements of SVG with heights counted from the bottom.

    Args:
        height: Height of the figure, from which ``u`` is subtracted.
    """

    def __init__(self, height: float):
        self.height, self.parts = height, list[str]()

    def y(self, u: float) -> float:
        return self.height - u

    def rect(self, rect: Rect, *, fill: str, stroke: str, radius: float = 5, extra: str = "") -> None:
        self.parts.append(
            f'<rect x="{number(rect.x)}" y="{number(self.y(rect.top))}" width="{number(rect.width)}" '
            f'height="{number(rect.height)}" rx="{number(radius)}" fill="{fill}" stroke="{stroke}"{extra}/>'
        )

    def text(
        self,
        x: float,
        u: float,
        text: str,
        *,
        size: float = SMALL,
        color: str = INK,
        anchor: str = "start",
        bold: bool = False,
        upright: bool = False,
    ) -> None:
        """A line of text whose middle is at the height ``u``."""
        turned = f' transform="rotate(-90 {number(x)} {number(self.y(u))})"' if upright else ""
        weight = ' font-weight="600"' if bold else ""
        self.parts.append(
            f'<text x="{number(x)}" y="{number(self.y(u) + (0 if upright else size * 0.36))}" font-size="{number(size)}" '
            f'fill="{color}" text-anchor="{anchor}"{weight}{turned}>{escape(text)}</text>'
        )

    def line(self, x: float, u: float, *spans: Span, anchor: str = "middle") -> None:
        """One line of several spans with their own size and color."""
        parts = []
        for text, size, color, bold in spans:
            if text:
                gap = ' dx="7"' if parts else ""
                weight = ' font-weight="600"' if bold else ""
                parts.append(f'<tspan{gap} font-size="{number(size)}" fill="{color}"{weight}>{escape(text)}</tspan>')
        size = max(span[1] for span in spans)
        at = f'x="{number(x)}" y="{number(self.y(u) + size * 0.36)}"'
        self.parts.append(f'<text {at} text-anchor="{anchor}">{"".join(parts)}</text>')

    def wire(self, wire: Wire) -> None:
        points = [(x, self.y(u)) for x, u in wire.points]
        (x1, y1), (x2, y2) = points[-2:]
        length = max(abs(x2 - x1), abs(y2 - y1), 1e-6)
        dx, dy = (x2 - x1) / length, (y2 - y1) / length
        ends = [*points[:-1], (x2 - 4 * dx, y2 - 4 * dy)] if wire.arrow else points
        path = "M" + " L".join(f"{number(x)} {number(y)}" for x, y in ends)
        self.parts.append(f'<path d="{path}" fill="none" stroke="{LINE}" stroke-linejoin="round"/>')
        if wire.arrow:
            corners = [(x2, y2), (x2 - 6 * dx - 3 * dy, y2 - 6 * dy + 3 * dx), (x2 - 6 * dx + 3 * dy, y2 - 6 * dy - 3 * dx)]
            self.parts.append(f'<path d="M{" L".join(f"{number(x)} {number(y)}" for x, y in corners)}Z" fill="{LINE}"/>')

    def note(self, note: Note) -> None:
        self.text(note.x, note.u, note.text, color=GRAY, anchor="middle" if note.upright else "start", upright=note.upright)

    def plus(self, x: float, u: float) -> None:
        y = self.y(u)
        self.parts.append(f'<circle cx="{number(x)}" cy="{number(y)}" r="8" fill="#ffffff" stroke="{LINE}"/>')
        self.parts.append(
            f'<path d="M{number(x - 4.5)} {number(y)}H{number(x + 4.5)}M{number(x)} {number(y - 4.5)}V{number(y + 4.5)}" '
            f'stroke="{LINE}"/>'
        )


def draw_blocks(layout: Layout, canvas: Canvas, copies: Mapping[Block, int]) -> None:
    """Frames first, then wires over them, then the blocks inside.

    Args:
        layout: The elements with their coordinates.
        canvas: The canvas.
        copies: How often each block occurs, with the repetitions of the frames around it.
    """
    blocks = sorted(layout.rects, key=lambda block: -layout.rects[block].width * layout.rects[block].height)
    for block in blocks:
        if is_framed(block):
            _draw_frame(block, layout.rects[block], canvas, copies[block])
    for x, low, high in layout.links:
        canvas.parts.append(
            f'<path d="M{number(x)} {number(canvas.y(low))}V{number(canvas.y(high))}" stroke="{GRAY}" stroke-dasharray="3 3"/>'
        )
    for wire in layout.wires:
        canvas.wire(wire)
    for block in blocks:
        if not block.children:
            _draw_leaf(block, layout.rects[block], canvas, copies[block])
    for x, u in layout.sums:
        canvas.plus(x, u)
    for note in layout.notes:
        canvas.note(note)


def drawing_role(block: Block) -> str:
    """The role that decides the color of a block without parts."""
    if block.role in ("encoder", "decoder", "layer"):
        return "recurrent" if "layer" in block.detail else "other"
    return block.role if block.role in COLORS else "other"


def _opened(block: Block, copies: int) -> str:
    """The opening tag of a block's group: path, parameters and number of copies as attributes, and a tooltip."""
    faded = "" if block.ran else f' opacity="{FADED}"'
    path = ", ".join(p.removeprefix("model.") for p in block.paths[:1])
    more = f" and {len(block.paths) - 1} more" if len(block.paths) > 1 else ""
    tied = f"; tied to {', '.join(p.removeprefix('model.') for p in block.tied)}" if block.tied else ""
    output = f"; output {block.shape}" if block.shape else ""
    tooltip = f"{path}{more}: {block.kind or block.title}; {block.parameters:,} parameters{tied}{output}"
    return (
        f'<g class="{"frame" if block.children else "block"}" data-path="{escape(block.path)}" '
        f'data-parameters="{block.parameters}" data-copies="{copies}"{faded}><title>{escape(tooltip)}</title>'
    )


def _draw_frame(block: Block, rect: Rect, canvas: Canvas, copies: int) -> None:
    canvas.parts.append(_opened(block, copies))
    fill = "#ffffff" if block.role in ("layer", "embedding") else "#f7f8fa"
    if block.repeat > 1 or block.applied > 1:
        for shift in (6, 3):
            behind = Rect(rect.x + shift, rect.u - shift, rect.width, rect.height)
            canvas.rect(behind, fill="#ffffff", stroke=FRAME, radius=7)
    canvas.rect(rect, fill=fill, stroke=FRAME, radius=7)
    _draw_title(block, Rect(rect.x, rect.top - STRIP, rect.width, STRIP), canvas)
    canvas.parts.append("</g>")


def _draw_title(block: Block, rect: Rect, canvas: Canvas) -> None:
    canvas.rect(rect, fill="#e8ecf1", stroke=FRAME, radius=7)
    count, size = count_of(block), TITLE - 0.5
    room = rect.width - 24 - width_of(count, SMALL)
    title = fit(head_of(block), room, size, bold=True)
    left = room - width_of(title, size, bold=True)
    kind = fit(kind_shown(block), left - 8, SMALL) if left > 34 else ""
    canvas.line(rect.x + 9, rect.middle, (title, size, INK, True), (kind, SMALL, GRAY, False), anchor="start")
    canvas.text(rect.right - 9, rect.middle, count, color=COUNT, anchor="end")


def _draw_leaf(block: Block, rect: Rect, canvas: Canvas, copies: int) -> None:
    canvas.parts.append(_opened(block, copies))
    fill, stroke, _ = COLORS[drawing_role(block)]
    dashed = ' stroke-dasharray="4 3"' if block.role == "position" else ""
    if block.repeat > 1:
        canvas.rect(Rect(rect.x + 4, rect.u - 4, rect.width, rect.height), fill=fill, stroke=stroke)
    canvas.rect(rect, fill=fill, stroke=stroke, extra=dashed)
    lines = lines_of(block)
    u = rect.middle + 7.25 * len(lines)
    title = fit(head_of(block), rect.width - 12, TITLE, bold=True)
    room = rect.width - 18 - width_of(title, TITLE, bold=True)
    tail = fit(beside(block), room, SMALL) if room > 22 else ""
    color = COUNT if block.role == "normalization" else GRAY
    canvas.line(rect.center, u, (title, TITLE, INK, True), (tail, SMALL, color, False))
    for at, (text, count) in enumerate(lines, 1):
        shown = fit(text, rect.width - 14 - width_of(f"  {count}", SMALL), SMALL)
        canvas.line(rect.center, u - 14.5 * at, (shown, SMALL, GRAY, False), (count, SMALL, COUNT, False))
    canvas.parts.append("</g>")


def number(value: float) -> str:
    """A coordinate with at most one decimal."""
    return f"{value:.1f}".removesuffix(".0").replace("-0", "0") if abs(value) < 0.05 else f"{value:.1f}".removesuffix(".0")


def document(width: float, height: float, parts: Iterable[str], title: str) -> str:
    """A whole SVG document."""
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{number(width)}" height="{number(height)}" '
        f'viewBox="0 0 {number(width)} {number(height)}" role="img" font-family="{FONT}">\n'
        f"<title>{escape(title)}</title>\n"
        f'<rect width="{number(width)}" height="{number(height)}" fill="#ffffff"/>\n' + "\n".join(parts) + "\n</svg>\n"
    )
