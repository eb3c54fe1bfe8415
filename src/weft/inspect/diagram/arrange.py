"""Compute the coordinates of blocks, and route wires along the data flow. See layout.py for the coordinates."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise

from weft.inspect.diagram.layout import (
    BESIDE,
    GAP,
    LABELED,
    LANE,
    PAD,
    SIDE,
    SMALL,
    STRIP,
    ColumnLayout,
    Layout,
    Note,
    Rect,
    lines_of,
    long_edges,
    margin_of,
    natural_width,
    passed,
    positions_of,
    rows_of,
)
from weft.inspect.diagram.text import width_of
from weft.inspect.diagram.tree import Block, Edge

_BRANCH, _PLUS = 8.0, 16.0
"""Height above a block at which wires branch off; diameter of the plus sign."""


def arrange(block: Block, x: float, u: float, width: float, out: Layout) -> float:
    """Arrange a block with all blocks inside; return the height of its top."""
    if not block.children:
        top = u + 27 + 14.5 * len(lines_of(block))
    elif block.role == "residual":
        top = _arrange_residual(block, x, u, width, out)
    elif block.role == "structure":
        top = arrange_columns(ColumnLayout(block), x + PAD, u + PAD, width - 2 * PAD, out) + PAD + STRIP
    else:
        top = _arrange_rows(block, x, u, width, out)
    out.rects[block] = Rect(x, u, width, top - u)
    return top


# -------------------------------------------------------------------------------------------------------------------- rows


def _arrange_rows(block: Block, x: float, u: float, width: float, out: Layout) -> float:
    margin = margin_of(block)
    left, room, rows = x + PAD + margin, width - 2 * (PAD + margin), rows_of(block)
    flowing = block.ran and (bool(block.edges) or len(rows) == 1)
    cursor = u + (GAP if block.ran else PAD)
    for position in positions_of(block):
        cursor = arrange(position, x + PAD, cursor - 6, natural_width(position), out) + GAP
        if position.ran:
            out.links.append((x + PAD + 20, cursor - GAP, cursor))
    for number, row in enumerate(rows):
        spare = (room - sum(map(natural_width, row)) - BESIDE * (len(row) - 1)) / len(row)
        at, tops = left, [cursor]
        for child in row:
            own = natural_width(child) + spare
            tops.append(arrange(child, at, cursor, own, out))
            at += own + BESIDE
        for child in row:  # blocks without parts are as high as their neighbors
            if not child.children:
                out.rects[child] = replace(out.rects[child], height=max(tops) - cursor)
        cursor = max(tops) + (GAP if number + 1 < len(rows) else 0)
    if flowing:
        _wire_rows(block, rows, u, cursor, out)
    return cursor + (GAP - 6 if block.ran else PAD) + STRIP


def _wire_rows(block: Block, rows: list[list[Block]], u: float, top: float, out: Layout) -> None:
    center = out.rects[rows[0][0]].x + (out.rects[rows[0][-1]].right - out.rects[rows[0][0]].x) / 2
    for child in rows[0]:
        rect = out.rects[child]
        out.wire((rect.center, rect.u - GAP + 4 if len(rows[0]) > 1 else u), (rect.center, rect.u))
    if len(rows[0]) > 1:
        ends = [out.rects[child].center for child in rows[0]]
        start = out.rects[rows[0][0]].u
        out.wire((center, u), (center, start - GAP + 4), arrow=False)
        out.wire((min(ends), start - GAP + 4), (max(ends), start - GAP + 4), arrow=False)
    for lower, upper in pairwise(rows):
        for child in upper:
            for before in lower:
                if (before, child) in block.edges or not block.edges:
                    _join(out.rects[before], out.rects[child], out)
    for child in rows[-1]:
        rect = out.rects[child]
        out.wire((rect.center, rect.top), (rect.center, top + GAP - 6), arrow=False)
    placed = [out.rects[child] for row in rows for child in row]
    left, right = min(rect.x for rect in placed), max(rect.right for rect in placed)
    for child in passed(block):
        rect = out.rects[child]
        side, aside = (rect.x, left - LANE) if rect.x <= left + 1 else (rect.right, right + LANE * (len(long_edges(block)) + 1))
        out.wire((side, rect.middle), (aside, rect.middle), (aside, top + GAP - 6), arrow=False)
    for lane, (before, child) in enumerate(long_edges(block), 1):
        low, high = out.rects[before], out.rects[child]
        aside = right + LANE * lane
        out.wire((low.right, low.middle), (aside, low.middle), (aside, high.middle), (high.right, high.middle))


def _join(low: Rect, high: Rect, out: Layout) -> None:
    """A wire from the top of one block to the bottom of the one above it."""
    if high.x < low.center < high.right:
        out.wire((low.center, low.top), (low.center, high.u))
    elif low.x < high.center < low.right:
        out.wire((high.center, low.top), (high.center, high.u))
    else:
        middle = high.u - GAP / 2
        out.wire((low.center, low.top), (low.center, middle), (high.center, middle), (high.center, high.u))


def _arrange_residual(block: Block, x: float, u: float, width: float, out: Layout) -> float:
    """The sub-layer and its norm, the sum, and the connection that passes them on the right."""
    center, cursor, last, add = x + width / 2, u, u, _sum_after(block)
    for number, child in enumerate(block.children):
        if number and block.ran:
            out.wire((center, last), (center, cursor))
        last = arrange(child, x + SIDE, cursor, width - 2 * SIDE, out)
        cursor = last + GAP - 4
        if number == add and block.ran:
            out.wire((center, last), (center, cursor))
            middle = cursor + _PLUS / 2
            out.sums.append((center, middle))
            aside = x + width - SIDE / 2
            out.wire((center, u - _BRANCH), (aside, u - _BRANCH), (aside, middle), (center + _PLUS / 2, middle))
            last, cursor = cursor + _PLUS, cursor + _PLUS + GAP - 4
    return last


def _sum_after(block: Block) -> int:
    """After which child of a residual connection its input is added: before a norm that follows the sub-layer, or at the end."""
    for number, child in enumerate(block.children[1:]):
        if child.role == "normalization" and any(c.role != "normalization" for c in block.children[: number + 1]):
            return number
    return len(block.children) - 1


# ------------------------------------------------------------------------------------------------------------------ columns


def arrange_columns(grid: ColumnLayout, x: float, u: float, width: float, out: Layout) -> float:
    """Arrange the parts of a structure in columns; return the height above all columns and wires."""
    spare = max(0.0, width - grid.width) / len(grid.columns)
    starts, at, tops = [], x, []
    for number, column in enumerate(grid.columns):
        starts.append(at)
        at += grid.gutter(number)
        own, cursor = max(map(natural_width, column)) + spare, max(u, grid.base(column, out.rects))
        for child in column:
            cursor = arrange(child, at, cursor, own, out) + LABELED
        tops.append(cursor - LABELED)
        at += own
        _wire_column(grid.block, column, out)
    starts.append(at)
    ceiling = max(tops) + (LANE * 1.6 if any(grid.lanes) else 0.0)
    far = [edge for edge in grid.block.edges if abs(grid.at[edge[0]] - grid.at[edge[1]]) > 1]
    for gutter, edges in enumerate(grid.lanes):
        for lane, (producer, consumer) in enumerate(edges):
            if consumer is not None and (producer, consumer) not in far:
                aside = starts[gutter] + 13 + LANE * lane
                _lead(grid.block.edges[producer, consumer], producer, consumer, aside, out, below=not grid.block.path)
    for edge in far:
        ceiling += LANE
        lanes = [starts[g] + 13 + LANE * edges.index(edge) for g, edges in enumerate(grid.lanes) if edge in edges]
        if grid.at[edge[0]] > grid.at[edge[1]]:
            lanes.reverse()
        _lead_over(grid.block.edges[edge], edge, lanes, ceiling, out, below=not grid.block.path)
    return ceiling


def _wire_column(block: Block, column: Sequence[Block], out: Layout) -> None:
    for low, high in pairwise(column):
        below, above = out.rects[low], out.rects[high]
        edge = block.edges.get((low, high))
        if edge is not None:
            out.wire((below.center, below.top), (below.center, above.u))
            if edge.shape:
                out.notes.append(Note(below.center + 7, above.u - 14, edge.shape))


def _lead(edge: Edge, producer: Block, consumer: Block, aside: float, out: Layout, *, below: bool) -> None:
    """Route a wire from the top of one block through a gutter to the side of another, or to its bottom if it enters there."""
    start = out.rects[producer]
    height = start.top + _BRANCH
    beginning = ((start.center, start.top), (start.center, height), (aside, height))
    out.wire(*beginning, *_end(edge, consumer, aside, height, out, below=below))


def _end(edge: Edge, consumer: Block, aside: float, height: float, out: Layout, *, below: bool) -> list[tuple[float, float]]:
    """Return the points of a wire after its gutter; with ``below``, it may enter from below."""
    rect = out.rects[consumer]
    free = not any(wire.points[-1] == (rect.center, rect.u) for wire in out.wires)
    if below and free and _begins_with(consumer, edge.consumer):
        under = rect.u - GAP + 4
        if edge.shape:
            out.notes.append(Note(rect.center + 7, rect.u - 9, edge.shape))
        return [(aside, under), (rect.center, under), (rect.center, rect.u)]
    end = _reached(edge, consumer, aside, out)
    if edge.shape and abs(height - end[1]) > width_of(edge.shape, SMALL) + 12:
        out.notes.append(Note(aside - 4, (height + end[1]) / 2, edge.shape, upright=True))
    return [(aside, end[1]), end]


def _begins_with(block: Block, inner: Block) -> bool:
    """Whether the data flow inside a block begins with another."""
    if block is inner or not block.children:
        return block is inner
    flow = rows_of(block)[0] if block.role != "structure" else [column[0] for column in ColumnLayout(block).columns]
    return any(_begins_with(child, inner) for child in flow)


def _lead_over(edge: Edge, ends: tuple[Block, Block], lanes: list[float], ceiling: float, out: Layout, *, below: bool) -> None:
    """Route a wire between columns that are not neighbors, above the columns between them."""
    producer, consumer = ends
    start, (first, last) = out.rects[producer], lanes
    height = start.top + _BRANCH
    beginning = ((start.center, start.top), (start.center, height), (first, height), (first, ceiling), (last, ceiling))
    out.wire(*beginning, *_end(edge, consumer, last, ceiling, out, below=below))


def _reached(edge: Edge, consumer: Block, aside: float, out: Layout) -> tuple[float, float]:
    """Return where a wire enters: at the innermost block that it reaches without crossing another block."""
    line = _line_to(consumer, edge.consumer)
    for block in reversed(line):
        rect = out.rects[block]
        height = _free_height(rect, aside, out)
        side = rect.x if aside < rect.x else rect.right
        low, high = sorted((aside, side))
        blocking = (
            other
            for other, r in out.rects.items()
            if other not in line and not _is_inside(other, block) and r.u < height < r.top and low < r.right and r.x < high
        )
        if block.role != "residual" and next(blocking, None) is None:
            return side, height
    rect = out.rects[consumer]
    return (rect.x if aside < rect.x else rect.right), rect.middle


def _free_height(rect: Rect, aside: float, out: Layout) -> float:
    """Return the middle of a block's side, or a height near it if other wires end there."""
    side = rect.x if aside < rect.x else rect.right
    ends = [wire.points[-1] for wire in out.wires]
    taken = [height for at, height in ends if abs(at - side) < 1 and rect.u < height < rect.top]
    for shift in (0, 9, -9, 18, -18):
        if all(abs(rect.middle + shift - other) > 6 for other in taken) and abs(shift) < rect.height / 2 - 3:
            return rect.middle + shift
    return rect.middle


def _line_to(outer: Block, inner: Block) -> list[Block]:
    """The blocks from ``outer`` to ``inner``, which is inside."""
    if outer is inner:
        return [outer]
    for child in outer.children:
        if inner in child.walk():
            return [outer, *_line_to(child, inner)]
    return [outer]


def _is_inside(block: Block, other: Block) -> bool:
    return any(block is inner for inner in other.walk())
