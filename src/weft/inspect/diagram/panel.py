"""One stage of a figure: the columns of the model, its inputs below, its objectives above."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from weft.inspect.diagram.arrange import arrange_columns
from weft.inspect.diagram.layout import LANE, SMALL, TITLE, ColumnLayout, Layout, Note, Rect
from weft.inspect.diagram.svg import GRAY, INK, LINE, Canvas, Span, draw_blocks
from weft.inspect.diagram.text import fit, width_of
from weft.inspect.diagram.tree import Block

_BELOW, _ABOVE, _LINE = 26.0, 30.0, 17.0


@dataclass(frozen=True)
class ObjectiveText:
    """An objective as the figure shows it.

    Args:
        name: Its name in the recipe; empty for the only one.
        kind: Its name in the catalog.
        terms: Terms of its loss, each with the titles of the blocks that it is computed from.
    """

    name: str
    kind: str
    terms: Mapping[str, Sequence[str]] = field(default_factory=dict)

    @property
    def head(self) -> str:
        return f"{self.name}: {self.kind}" if self.name else self.kind

    @property
    def tail(self) -> str:
        return ",   ".join(f"{term} ← {' + '.join(of)}" if of else term for term, of in self.terms.items())


@dataclass
class Panel:
    """The figure of one stage.

    Args:
        top: The blocks, connected.
        objectives: The objectives.
        sources: Paths of the modules that losses are computed from, with the shape of their outputs.
        inputs: Names of the inputs with their shapes.
        heading: Name of the stage, where there are several.
    """

    top: Block
    objectives: Sequence[ObjectiveText] = ()
    sources: Mapping[str, str] = field(default_factory=dict)
    inputs: Mapping[str, str] = field(default_factory=dict)
    heading: str = ""

    def __post_init__(self) -> None:
        self.layout = Layout()
        above = {self._child(path): shape for path, shape in self.sources.items()}
        self.upward = {child: shape for child, shape in above.items() if child is not None}
        self.grid = ColumnLayout(self.top, list(self.upward))
        self.width = max(self.grid.width, 300.0, self._objective_width())
        self.pills: list[tuple[Rect, list[Span]]] = []
        self.height = self._arrange()

    def _child(self, path: str) -> Block | None:
        """The part on the highest level that a module belongs to."""
        return next((c for c in self.top.children if any(path in b.paths for b in c.walk())), None)

    def _objective_width(self) -> float:
        lines = [width_of(g.head, TITLE, bold=True) + width_of(f"    {g.tail}", SMALL) for g in self.objectives]
        return min(max(lines, default=0.0) + 30, max(760.0, self.grid.width))

    def _arrange(self) -> float:
        floor = _BELOW + 26 if any(column[0].inputs for column in self.grid.columns) else 6.0
        margin = (self.width - self.grid.width) / 2 if len(self.grid.columns) == 1 else 0.0
        room = self.grid.width if margin else self.width
        ceiling = arrange_columns(self.grid, margin, floor, room, self.layout)
        for column in self.grid.columns:
            rect = self.layout.rects[column[0]]
            if column[0].inputs:
                self._pill(column[0], rect)
        if not self.objectives:
            return ceiling + 8
        bottom = ceiling + _ABOVE
        self._wire_up(bottom)
        self.objective_rect = Rect(0, bottom, self.width, 30 + _LINE * len(self.objectives))
        return self.objective_rect.top

    def _pill(self, block: Block, rect: Rect) -> None:
        spans: list[Span] = []
        for name in block.inputs:
            spans += [("·", SMALL, GRAY, False)] if spans else []
            spans += [(name, SMALL, INK, True), (self.inputs.get(name, ""), SMALL, GRAY, False)]
        width = sum(width_of(text, size, bold=bold) + 8 for text, size, _, bold in spans) + 20
        if width > rect.width:
            spans, width = [(fit(", ".join(block.inputs), rect.width - 20, SMALL), SMALL, INK, True)], rect.width
        self.pills.append((Rect(rect.center - width / 2, 0, width, 24), spans))
        self.layout.wire((rect.center, 24), (rect.center, rect.u))

    def _wire_up(self, bottom: float) -> None:
        """Wires from what the losses are computed from to the objectives."""
        for child, shape in self.upward.items():
            rect = self.layout.rects[child]
            column = self.grid.at[child]
            if child is self.grid.columns[column][-1]:
                self.layout.wire((rect.center, rect.top), (rect.center, bottom))
                if shape:
                    self.layout.notes.append(Note(rect.center + 7, bottom - 13, shape))
            else:
                right = self.grid.columns[column + 1][0] if column + 1 < len(self.grid.columns) else None
                start = rect.right if right is None else self.layout.rects[right].x - self.grid.gutter(column + 1)
                aside = start + 13 + LANE * self.grid.lanes[column + 1].index((child, None))
                self.layout.wire((rect.center, rect.top), (rect.center, rect.top + 8), (aside, rect.top + 8), (aside, bottom))

    def draw(self, canvas: Canvas) -> None:
        draw_blocks(self.layout, canvas, self.top.copies())
        for rect, spans in self.pills:
            canvas.rect(rect, fill="#ffffff", stroke=LINE, radius=12)
            canvas.line(rect.center, rect.middle, *spans)
        if not self.objectives:
            return
        canvas.rect(self.objective_rect, fill="#fffdf5", stroke="#8a94a0", radius=7)
        u = self.objective_rect.top - 15
        several = "s" * (len(self.objectives) > 1)
        canvas.text(self.objective_rect.x + 12, u, f"Objective{several}", size=TITLE, bold=True)
        for objective in self.objectives:
            u -= _LINE
            used = width_of(objective.head, TITLE, bold=True) + 30
            tail = fit(objective.tail, self.objective_rect.width - used, SMALL)
            canvas.line(12, u, (objective.head, SMALL + 0.5, INK, True), (tail, SMALL, GRAY, False), anchor="start")
