"""Attention as a picture.

H heads, T rows (who looks), S columns (what is looked at).
"""

from __future__ import annotations

import math
import unicodedata
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from weft.inspect.attention_page import CROSS, Example, Map

_INK, _SOFT, _HEAT, _CELL = "#1c2128", "#667080", "#1d5cd6", "#f1f3f6"
_PANELS = 144
_LABELLED = 8
"""With more panels than this their tokens would be too small to read."""
_LABELS = 64
_LONGEST = 14


class Panel(NamedTuple):
    """One square of the picture."""

    name: str
    map: Map
    weight_TS: np.ndarray
    detail: str = ""


def attention_picture(example: Example, path: str | Path, title: str = "") -> Path:
    """Draw into a PNG file where the output looked at the input; without such a look all heads of all layers; without
    attention the classes.

    Args:
        example: What ``look_at`` gives.
        path: The file to write.
        title: Stands above the picture.
    """
    try:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.colors import LinearSegmentedColormap
        from matplotlib.figure import Figure
    except ImportError:
        raise ValueError("a picture needs the package matplotlib: pip install 'weft[plots]'") from None
    maps = example.named_maps()
    kinds = [m.kind for m in maps.values()]
    kind = CROSS if CROSS in kinds else kinds[0] if kinds else ""
    shown = {name: m for name, m in maps.items() if m.kind == kind and m.weights.size}
    if not shown and not example.classes:
        raise ValueError("this model has no attention and no classes to draw: write a page (.html) to see its candidates")
    figure = Figure(dpi=160, facecolor="white", layout="constrained")
    FigureCanvasAgg(figure)
    heat = LinearSegmentedColormap.from_list("heat", [_CELL, _HEAT])
    if not shown:
        _draw_classes(figure, example.classes)
    elif kind == CROSS:
        panels = [Panel(name, m, m.weights.mean(0), _detail(m)) for name, m in shown.items()][:_PANELS]
        across = math.ceil(math.sqrt(len(panels)))
        _draw_panels(figure, [panels[n : n + across] for n in range(0, len(panels), across)], heat, labels=True)
    else:
        layers = list(shown.values())[: max(1, _PANELS // max(len(m.weights) for m in shown.values()))]
        grid = [[Panel(f"layer {n}, head {h}", m, w_TS) for h, w_TS in enumerate(m.weights, 1)] for n, m in enumerate(layers, 1)]
        _draw_panels(figure, grid, heat, labels=sum(map(len, grid)) <= _LABELLED)
    above = " · ".join(filter(None, [title, kind or "Classes"]))
    figure.suptitle(_shown(above, 90), x=0.01, ha="left", fontsize=12, fontweight="bold", color=_INK, parse_math=False)
    file = Path(path)
    file.parent.mkdir(parents=True, exist_ok=True)
    with warnings.catch_warnings():
        # A font has no picture for every sign of every language: a box stands there instead.
        warnings.filterwarnings("ignore", message=".*[Gg]lyph.*missing")
        figure.savefig(file, format="png")
    return file


def _detail(m: Map) -> str:
    heads = f"mean of {len(m.weights)} heads, " if len(m.weights) > 1 else ""
    return f"\n{heads}darkest {100 * float(m.weights.mean(0).max()):.1f} %"


def _draw_panels(figure: Any, grid: Sequence[Sequence[Panel]], heat: Any, *, labels: bool) -> None:
    across, panels = max(map(len, grid)), [panel for row in grid for panel in row]
    high, wide = max(len(p.map.rows) for p in panels), max(len(p.map.columns) for p in panels)
    cell = min(0.24, max(0.11, 8 / max(high, wide)))
    size = (max(3.0, wide * cell + 1.1), max(1.6, high * cell + 1.1)) if labels else (0.95, 1.05)
    figure.set_size_inches(min(40, max(6, across * size[0] + 0.5)), min(40, len(grid) * size[1] + 0.6))
    for line, row in zip(figure.subplots(len(grid), across, squeeze=False), grid, strict=True):
        for axes in line[len(row) :]:
            axes.set_visible(False)
        for axes, (name, m, weight_TS, detail) in zip(line, row, strict=False):
            # Nearest: a square is a weight, not a blur of several.
            most = max(float(weight_TS.max()), 1e-9)
            axes.imshow(weight_TS, cmap=heat, vmin=0, vmax=most, aspect="auto", interpolation="nearest")
            axes.set_title(_shown(name, 40) + detail, fontsize=8 if labels else 5.5, color=_SOFT, parse_math=False, pad=3)
            axes.tick_params(length=0, labelcolor=_INK)
            for side in axes.spines.values():
                side.set_visible(False)
            font = max(4.5, min(8.0, cell * 45))
            for tokens, ticks, turned in ((m.rows, axes.set_yticks, 0), (m.columns, axes.set_xticks, 90)):
                if labels and len(tokens) <= _LABELS:
                    turn = turned if max(map(len, tokens)) > 2 else 0
                    ticks(range(len(tokens)), [_shown(t) for t in tokens], fontsize=font, rotation=turn, parse_math=False)
                else:
                    ticks([])


def _draw_classes(figure: Any, classes: Sequence[tuple[str, float]]) -> None:
    shown = list(classes)[:30]
    figure.set_size_inches(6, 0.32 * len(shown) + 0.9)
    axes = figure.add_subplot()
    bars = axes.barh(range(len(shown)), [p for _, p in shown], color=_HEAT, height=0.7)
    axes.bar_label(bars, [f"{100 * p:.1f} %" for _, p in shown], padding=3, fontsize=9, color=_SOFT)
    axes.set_yticks(range(len(shown)), [_shown(name, 40) for name, _ in shown], fontsize=9, color=_INK, parse_math=False)
    axes.invert_yaxis()
    axes.set_xlim(0, 1.12)
    axes.set_xticks([])
    axes.tick_params(length=0)
    for side in axes.spines.values():
        side.set_visible(False)


def _shown(text: str, most: int = _LONGEST) -> str:
    """A text that can stand in a picture: signs that turn or hide others are named, a long one is cut."""
    named = "".join(f"U+{ord(c):04X}" if unicodedata.category(c)[0] == "C" else c for c in text)
    return named if len(named) <= most else named[: most - 1] + "…"
