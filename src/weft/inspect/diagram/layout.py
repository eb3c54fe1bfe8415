"""Geometry of a figure. Data flows upward: ``u`` is the height above the bottom; the canvas converts it to SVG's y."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from weft.inspect.diagram.text import short, width_of
from weft.inspect.diagram.tree import Block

TITLE, SMALL = 12.5, 10.5
"""Font sizes."""
PAD, STRIP, GAP, LABELED, BESIDE = 12.0, 22.0, 20.0, 34.0, 14.0
"""Padding of frames; height of their titles; gaps between rows, between rows with a shape, and between neighbors."""
SIDE, LANE, NARROWEST, WIDEST, ROW = 20.0, 10.0, 136.0, 300.0, 780.0
"""Margin of residual connections; gap between parallel wires; minimum and maximum width of a leaf; maximum width of a row."""


@dataclass(frozen=True)
class Rect:
    """``x`` is the left side, ``u`` the bottom, counted upward."""

    x: float
    u: float
    width: float
    height: float

    @property
    def center(self) -> float:
        return self.x + self.width / 2

    @property
    def middle(self) -> float:
        return self.u + self.height / 2

    @property
    def top(self) -> float:
        return self.u + self.height

    @property
    def right(self) -> float:
        return self.x + self.width


@dataclass(frozen=True)
class Wire:
    """A line through points, with an arrowhead at its end."""

    points: tuple[tuple[float, float], ...]
    arrow: bool = True


@dataclass(frozen=True)
class Note:
    """A small text: the shape of what flows beside it. ``upright`` text reads upward, along a wire."""

    x: float
    u: float
    text: str
    upright: bool = False


@dataclass
class Layout:
    """All elements of a figure with their coordinates."""

    rects: dict[Block, Rect] = field(default_factory=dict)
    wires: list[Wire] = field(default_factory=list)
    notes: list[Note] = field(default_factory=list)
    sums: list[tuple[float, float]] = field(default_factory=list)
    links: list[tuple[float, float, float]] = field(default_factory=list)
    """Dashed lines upward from a position encoding: x, from, to."""

    def wire(self, *points: tuple[float, float], arrow: bool = True) -> None:
        self.wires.append(Wire(points, arrow))


# --------------------------------------------------------------------------------------------------------------- measuring


def lines_of(block: Block) -> list[tuple[str, str]]:
    """The lines below the title of a block without parts: text, and the number of parameters after it."""
    if block.role == "normalization":
        return []
    count = short(block.own) if block.own else ""
    lines = [(kind_shown(block) if block.role == "position" else block.detail, count)]
    lines += [(f"tied to {block.tied[0].removeprefix('model.')}", "")] if block.tied else []
    return [line for line in lines if any(line)]


def line_width(line: tuple[str, str]) -> float:
    return width_of("   ".join(part for part in line if part), SMALL)


def head_of(block: Block) -> str:
    """The title of a frame or block, with how often it is repeated."""
    times = f" × {block.repeat}" if block.repeat > 1 else ""
    shared = f" × {block.applied} with shared weights" if block.applied > 1 else ""
    return f"{block.title}{times}{shared}"


def count_of(block: Block) -> str:
    """The number of parameters in the title of a frame."""
    return f"{short(block.parameters)} each" if block.repeat > 1 else short(block.parameters)


def kind_shown(block: Block) -> str:
    """The catalog name beside the title, unless both are the same."""
    same = block.kind.replace("-", " ").lower() in (block.title.lower(), f"transformer {block.title.lower()}")
    return "" if same else block.kind


def beside(block: Block) -> str:
    """The text beside the title of a leaf."""
    if block.role == "normalization":
        return short(block.own) if block.own else ""
    return "" if block.role in ("feed-forward", "position") else kind_shown(block)


def is_framed(block: Block) -> bool:
    return bool(block.children) and block.role != "residual"


def natural_width(block: Block) -> float:
    if block.role == "residual":
        return max(natural_width(child) for child in block.children) + 2 * SIDE
    if not block.children:
        widths = [width_of(head_of(block), TITLE, bold=True) + width_of(f"  {beside(block)}", SMALL)]
        widths += [line_width(line) for line in lines_of(block)]
        least = 60.0 if block.role == "position" else NARROWEST
        return min(max(least, max(widths) + 24), WIDEST)
    head = width_of(head_of(block), TITLE, bold=True) + width_of(f"   {kind_shown(block)}    {count_of(block)}", SMALL) + 28
    if block.role == "structure":
        return max(head, ColumnLayout(block).width + 2 * PAD)
    inner = max(sum(map(natural_width, row)) + BESIDE * (len(row) - 1) for row in rows_of(block)) + 2 * margin_of(block)
    positions = max((2 * natural_width(position) + 44 for position in positions_of(block)), default=0.0)
    return max(head, inner + 2 * PAD, positions)


def margin_of(block: Block) -> float:
    """Room at both sides of a frame for wires that pass rows."""
    lanes = len(long_edges(block)) + bool(passed(block))
    return LANE * (lanes + 1) if lanes else 0.0


def passed(block: Block) -> list[Block]:
    """Children at a side of a lower row whose output is used outside of the frame only."""
    if block.role == "structure" or not block.edges:
        return []
    producers = {producer for producer, _ in block.edges}
    return [side for row in rows_of(block)[:-1] for side in {row[0], row[-1]} if side not in producers and side.ran and side.kind]


# ------------------------------------------------------------------------------------------------------------------ columns


class ColumnLayout:
    """Columns of a structure: a part is above the part whose output it uses, unless it has an input of its own.

    Args:
        block: The structure.
        upward: Children whose output is also led beside the columns to what is above them.
    """

    def __init__(self, block: Block, upward: Sequence[Block] = ()):
        self.block = block
        self.columns: list[list[Block]] = []
        self.at: dict[Block, int] = {}
        for child in block.children:
            self._add(child)
        self._settle()
        if len(unused := [child for child in block.children if child not in self.at]):
            self.columns.append(unused)
            self.at.update(dict.fromkeys(unused, len(self.columns) - 1))
        self.lanes: list[list[tuple[Block, Block | None]]] = [[] for _ in range(len(self.columns) + 1)]
        """The edges routed through each gutter (gutter g is left of column g); None is the objective, above all columns."""
        for producer, consumer in block.edges:
            self._route(producer, consumer)
        for child in upward:
            if child is not self.columns[self.at[child]][-1]:
                self.lanes[self.at[child] + 1].append((child, None))

    def _add(self, child: Block) -> None:
        if self.block.edges and not child.ran and not child.children:
            return
        before = [p for p, c in self.block.edges if c is child and p in self.at]
        tops = [p for p in before if self.columns[self.at[p]][-1] is p]
        if not self.block.edges and self.columns:
            column = len(self.columns) - 1  # nothing is known of the data flow
        elif not tops or len(tops) < len(before) or child.inputs:
            column = len(self.columns)
            self.columns.append([])
        else:
            column = self.at[max(tops, key=self.block.children.index)]
        self.columns[column].append(child)
        self.at[child] = column

    def _settle(self) -> None:
        """Move columns that nothing depends on beside the column that they depend on."""
        for column in list(self.columns):
            inside = set(column)
            sources = [p for p, c in self.block.edges if c in inside and p not in inside]
            used = any(p in inside and c not in inside for p, c in self.block.edges)
            if sources and not used and not any(child.children for child in column):
                self.columns.remove(column)
                after = max(i for i, other in enumerate(self.columns) if any(p in other for p in sources))
                self.columns.insert(after + 1, column)
        self.at = {child: number for number, column in enumerate(self.columns) for child in column}

    def _route(self, producer: Block, consumer: Block) -> None:
        left, right = self.at[producer], self.at[consumer]
        column = self.columns[left]
        if left == right and column.index(consumer) == column.index(producer) + 1:
            return
        self.lanes[right if left < right else right + 1].append((producer, consumer))
        if abs(left - right) > 1:
            self.lanes[left + 1 if left < right else left].append((producer, consumer))

    def base(self, column: list[Block], rects: Mapping[Block, Rect]) -> float:
        """Return the minimum height of a column: leaves that use other columns start above their producers."""
        if any(child.children or child.inputs for child in column):
            return 0.0
        sources = [p for p, c in self.block.edges if c in column and p not in column]
        return max((rects[p].top + LABELED for p in sources if p in rects), default=0.0)

    def gutter(self, number: int) -> float:
        """Width of the room before the first column, between columns, or after the last."""
        outer = number in (0, len(self.columns))
        return (0.0 if outer and not self.lanes[number] else 26.0) + LANE * len(self.lanes[number])

    @property
    def width(self) -> float:
        columns = sum(max(map(natural_width, column)) for column in self.columns)
        return columns + sum(self.gutter(g) for g in range(len(self.columns) + 1))


# -------------------------------------------------------------------------------------------------------------------- rows


def rows_of(block: Block) -> list[list[Block]]:
    """The children of a frame in rows, from the bottom: each above those that it depends on. Position encodings are separate."""
    others = [child for child in block.children if child.role != "position"] or block.children
    if not block.edges:
        rows = [others] if block.role == "embedding" else [[child] for child in others]
    else:
        rows = _ranked(others, block)
    return [part for row in rows for part in _wrapped(row)]


def positions_of(block: Block) -> list[Block]:
    """The position encodings of a frame that has other parts too."""
    positions = [child for child in block.children if child.role == "position"]
    return positions if len(positions) < len(block.children) else []


def _ranked(children: list[Block], block: Block) -> list[list[Block]]:
    ranks: dict[Block, int] = {}
    for child in children:
        ranks[child] = max((ranks[p] + 1 for p, c in block.edges if c is child and p in ranks), default=0)
    connected = {end for edge in block.edges for end in edge}
    if block.role != "embedding":  # what takes part in no flow stands below the rest, by itself
        lonely = [child for child in children if child not in connected]
        rest = [[c for c in children if c in connected and ranks[c] == r] for r in range(max(ranks.values()) + 1)]
        return [[child] for child in lonely] + [row for row in rest if row]
    return [[c for c in children if ranks[c] == r] for r in range(max(ranks.values()) + 1)]


def _wrapped(row: list[Block]) -> Iterable[list[Block]]:
    """A row that is too wide, in several."""
    part: list[Block] = []
    for child in row:
        if part and sum(map(natural_width, [*part, child])) + BESIDE * len(part) > ROW:
            yield part
            part = []
        part.append(child)
    yield part


def long_edges(block: Block) -> list[tuple[Block, Block]]:
    """Edges between rows that are not neighbors, which are led around the rows between them."""
    if block.role == "structure":
        return []
    at = {child: i for i, row in enumerate(rows_of(block)) for child in row}
    return [(p, c) for p, c in block.edges if at[c] - at[p] > 1]
