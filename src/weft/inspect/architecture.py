"""Draw the architecture of a model: its blocks, the data flow with tensor shapes, and the number of parameters."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from torch import nn

from weft.core.contracts import Objective
from weft.core.fields import Info
from weft.core.io import write_text
from weft.inspect.diagram.describe import kind_of
from weft.inspect.diagram.example import Pass, Shapes, objective_path, run_example, run_objectives
from weft.inspect.diagram.flow import connect, connect_static
from weft.inspect.diagram.panel import ObjectiveText, Panel
from weft.inspect.diagram.svg import COLORS, COUNT, GRAY, Canvas, document, drawing_role
from weft.inspect.diagram.text import fit, width_of
from weft.inspect.diagram.trace import INPUT
from weft.inspect.diagram.tree import Block, outline

SYMBOLS = {
    "B": "examples in a batch",
    "S": "tokens of the source",
    "T": "tokens of the text",
    "N": "gathered positions",
}
"""What the symbols in shapes mean."""
_MARGIN, _HEAD, _BETWEEN = 24.0, 56.0, 36.0


@dataclass(frozen=True)
class StageNetwork:
    """Model and objectives of one stage of a run.

    Args:
        model: The model, on any device.
        objectives: Its objectives by name; one alone has the name ``""``.
        info: The fields of its data; None = the model is not run, so that shapes and data flow are not known.
        name: Name of the stage.
        kind: Name of the structure in the catalog.
    """

    model: nn.Module
    objectives: Mapping[str, Objective] = field(default_factory=dict)
    info: Info | None = None
    name: str = ""
    kind: str = ""


def architecture(subject: Any, *, example: tuple[Any, ...] | None = None, title: str = "") -> Architecture:
    """Draw the architecture of a run, of a trained run, or of any ``nn.Module`` as SVG.

    Blocks are nested as they are composed; data flows upward. Identical layers appear once, with their number.

    Args:
        subject: A ``Run`` (all stages), a ``TrainedRun``, or a module.
        example: Arguments of a module's forward pass, from which shapes and data flow are taken; None = the parts of a
            module appear in the order of registration, without shapes.
        title: The title of the figure; "" = the name of the run or the class of the module.

    Example:
        >>> import torch
        >>> model = nn.Sequential(nn.Linear(4, 8), nn.Linear(8, 2))
        >>> figure = architecture(model, example=(torch.ones(3, 4),))
        >>> figure.parameters
        [58]
        >>> figure.svg().startswith("<svg")
        True
    """
    if isinstance(subject, nn.Module):
        panel, shapes = _of_module(subject, example)
        return Architecture([panel], title or type(subject).__name__, [], shapes)
    stages: Sequence[StageNetwork] = subject.networks()
    panels, used = [], dict[str, None]()
    for stage in stages:
        panel, symbols = _of_stage(stage, several=len(stages) > 1)
        panels.append(panel)
        used |= dict.fromkeys(symbols)
    return Architecture(panels, title or subject.name, [stage.kind for stage in stages], list(used))


class Architecture:
    """A figure of an architecture. A notebook shows it as the value of a cell.

    Args:
        panels: The figure of each stage.
        title: The title of the figure.
        kinds: Name of each stage's structure.
        symbols: The symbols that occur in shapes.
    """

    def __init__(self, panels: Sequence[Panel], title: str, kinds: Sequence[str] = (), symbols: Sequence[str] = ()):
        self.panels, self.title, self.kinds, self.symbols = list(panels), title, list(kinds), list(symbols)

    @property
    def parameters(self) -> list[int]:
        """Number of parameters of each stage."""
        return [panel.top.parameters for panel in self.panels]

    def _repr_svg_(self) -> str:
        return self.svg()

    def save(self, path: str | Path) -> Path:
        """Write the figure to an ``.svg`` file; return its path."""
        file = Path(path)
        check_suffix(file)
        write_text(file, self.svg())
        return file

    def svg(self) -> str:
        """The figure as the text of an SVG file."""
        legend = self._legend()
        inner = max(panel.width for panel in self.panels)
        bottom = 18.0 * len(legend_rows(legend, inner)) + 14
        heights = [panel.height + (26 if panel.heading else 0) for panel in self.panels]
        height = _HEAD + sum(heights) + _BETWEEN * (len(heights) - 1) + bottom + _MARGIN
        parts: list[str] = []
        head = Canvas(height)
        head.text(_MARGIN, height - 26, fit(self.title, inner, 17, bold=True), size=17, bold=True)
        head.text(_MARGIN, height - 44, fit(self._subtitle(), inner, 11.5), size=11.5, color=GRAY)
        parts += head.parts
        top = _HEAD + 10
        for panel, own in zip(self.panels, heights, strict=True):
            canvas = Canvas(panel.height)
            panel.draw(canvas)
            if panel.heading:
                head.parts.clear()
                head.text(_MARGIN, height - top - 8, panel.heading, size=13.5, bold=True)
                parts += head.parts
            shift = top + own - panel.height
            left = _MARGIN + (inner - panel.width) / 2
            parts += [f'<g transform="translate({left:.1f} {shift:.1f})">', *canvas.parts, "</g>"]
            top += own + _BETWEEN
        parts += _draw_legend(legend, inner, height)
        return document(inner + 2 * _MARGIN, height, parts, f"Architecture of {self.title}")

    def _subtitle(self) -> str:
        count = f"{self.parameters[0]:,} parameters"
        if len(self.panels) > 1:
            return f"{len(self.panels)} stages"
        return f"{self.kinds[0]}  ·  {count}" if self.kinds and self.kinds[0] else count

    def _legend(self) -> list[tuple[str, str]]:
        """Colors and symbols with their meanings: (color or symbol, text)."""
        blocks = [block for panel in self.panels for block in panel.top.walk() if block is not panel.top]
        roles = {drawing_role(block) for block in blocks if not block.children}
        found = [(role, text) for role, (_, _, text) in COLORS.items() if role in roles]
        found.append(("count", "number of parameters"))
        found += [("tied", "tied: uses the weights of another block")] if any(block.tied for block in blocks) else []
        found += [("faded", "faded: not used by this objective")] if any(not block.ran for block in blocks) else []
        return found + [(symbol, f"{symbol}: {text}") for symbol, text in SYMBOLS.items() if symbol in self.symbols]


def check_suffix(file: Path) -> None:
    """Raise ValueError for a file that is not SVG."""
    if file.suffix.lower() != ".svg":
        found = f"has the suffix {file.suffix}" if file.suffix else "has no suffix"
        raise ValueError(f"{file} {found}, but the figure is written as SVG only; give a file name that ends in .svg")


# ------------------------------------------------------------------------------------------------------------------ panels


def _of_module(model: nn.Module, example: tuple[Any, ...] | None) -> tuple[Panel, list[str]]:
    top = outline({"model": model})
    if example is None:
        connect_static(top, {f"model.{name}": module for name, module in model.named_modules()})
        return Panel(top), []
    done = run_example(model, example, _watched(top))
    shapes = Shapes(done, done)
    connect(top, done.trace, shapes.of, shapes.between)
    return Panel(top, inputs={name: shapes.of_input(name) for name in done.shapes}), []


def _of_stage(stage: StageNetwork, *, several: bool) -> tuple[Panel, list[str]]:
    heading = f"Stage {stage.name}: {stage.kind}" if several else ""
    top = outline({"model": stage.model, **{objective_path(name): o for name, o in stage.objectives.items()}})
    count = f"  ·  {top.parameters:,} parameters" if heading else ""
    if stage.info is None or not stage.objectives:
        connect_static(top, {f"model.{name}": module for name, module in stage.model.named_modules()})
        return Panel(top, _objective_texts(stage, None, top), heading=heading + count), []
    one, two = run_objectives(stage.model, stage.objectives, stage.info, _watched(top))
    shapes = Shapes(one, two)
    connect(top, one.trace, shapes.of, shapes.between)
    sources = [s for terms in one.terms.values() for of in terms.values() for s in of if not s.startswith(INPUT)]
    panel = Panel(
        top,
        _objective_texts(stage, one, top),
        {path: shapes.of(path) for path in dict.fromkeys(sources)},
        {name: shapes.of_input(name) for name in one.shapes},
        heading + count,
    )
    return panel, list(shapes.used)


def _watched(top: Block) -> dict[str, bool]:
    return {block.path: not block.children for block in top.walk() if block.path}


def _objective_texts(stage: StageNetwork, done: Pass | None, top: Block) -> list[ObjectiveText]:
    titles = {path: block.title for block in top.walk() for path in block.paths}
    objectives = []
    for name, objective in stage.objectives.items():
        terms = done.terms[name] if done else {}
        shown = {term: list(dict.fromkeys(titles[s] for s in of if s in titles)) for term, of in terms.items()}
        objectives.append(ObjectiveText(name, kind_of(objective), shown))
    return objectives


# ------------------------------------------------------------------------------------------------------------------ legend


def legend_rows(legend: Sequence[tuple[str, str]], width: float) -> list[list[tuple[str, str]]]:
    """The legend in rows that are not wider than the figure."""
    rows: list[list[tuple[str, str]]] = [[]]
    used = 0.0
    for entry in legend:
        own = width_of(entry[1], 10.5) + 34
        if rows[-1] and used + own > width:
            rows.append([])
            used = 0.0
        rows[-1].append(entry)
        used += own
    return rows


def _draw_legend(legend: Sequence[tuple[str, str]], width: float, height: float) -> list[str]:
    canvas = Canvas(height)
    rows = legend_rows(legend, width)
    for number, row in enumerate(rows):
        x, u = _MARGIN, _MARGIN + 18.0 * (len(rows) - 1 - number) - 8
        for key, text in row:
            if key in COLORS:
                fill, stroke, _ = COLORS[key]
                canvas.parts.append(
                    f'<rect x="{x:.1f}" y="{canvas.y(u) - 5.5:.1f}" width="16" height="11" rx="2.5" fill="{fill}" '
                    f'stroke="{stroke}"{_style(key)}/>'
                )
                x += 21
            canvas.text(x, u, text, color=COUNT if key == "count" else GRAY)
            x += width_of(text, 10.5) + 13
    return canvas.parts


def _style(role: str) -> str:
    return ' stroke-dasharray="4 3"' if role == "position" else ""


__all__ = ["Architecture", "StageNetwork", "architecture"]
