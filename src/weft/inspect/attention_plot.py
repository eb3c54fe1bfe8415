"""Plot attention weights, or class probabilities, as an image.

Shape suffixes: H heads, T queries, S keys.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from weft.inspect.attention_page import CROSS, AttentionExample, AttentionMap
from weft.inspect.plotting import BLUE, MUTED, TEXT, new_figure, printable, remove_spines, save_png, set_title

_ZERO_COLOR = "#f1f3f6"
_MAX_MAPS = 144
_MAX_LABELED_MAPS = 8
"""With more maps than this their tokens would be too small to read."""
_MAX_TOKENS, _MAX_TOKEN_LENGTH, _MAX_CLASSES = 64, 14, 30


class HeatMap(NamedTuple):
    """One heat map of the plot: a head, or the mean over heads.

    Args:
        name: Its title.
        map: The attention map it belongs to.
        weight_TS: Its weights.
        detail: Second line of the title.
    """

    name: str
    map: AttentionMap
    weight_TS: np.ndarray
    detail: str = ""


def plot_attention(example: AttentionExample, path: str | Path, title: str = "") -> Path:
    """Plot the attention weights of an example to a PNG file.

    Shows cross-attention, averaged over the heads of each layer, where the model has it; else each head of the first group of
    attention maps; for a model without attention the class probabilities.

    Args:
        example: An example from ``inspect_texts``.
        path: The file to write.
        title: Title of the plot.
    """
    maps = example.named_maps()
    kinds = [m.kind for m in maps.values()]
    kind = CROSS if CROSS in kinds else kinds[0] if kinds else ""
    shown = {name: m for name, m in maps.items() if m.kind == kind and m.weights.size}
    if not shown and not example.classes:
        raise ValueError("the model has neither attention nor classes to plot; write a page (.html) to see token probabilities")
    figure = new_figure()
    if not shown:
        _draw_classes(figure, example.classes)
    elif kind == CROSS:
        means = [HeatMap(name, m, m.weights.mean(0), _detail(m)) for name, m in shown.items()][:_MAX_MAPS]
        columns = math.ceil(math.sqrt(len(means)))
        _draw_heat_maps(figure, [means[n : n + columns] for n in range(0, len(means), columns)], labels=True)
    else:
        layers = list(shown.values())[: max(1, _MAX_MAPS // max(len(m.weights) for m in shown.values()))]
        grid = [
            [HeatMap(f"layer {n}, head {h}", m, w_TS) for h, w_TS in enumerate(m.weights, 1)] for n, m in enumerate(layers, 1)
        ]
        _draw_heat_maps(figure, grid, labels=sum(map(len, grid)) <= _MAX_LABELED_MAPS)
    full_title = " · ".join(filter(None, [title, kind or "Class probabilities"]))
    set_title(figure, printable(full_title, 90), x=0.01, size=12)
    return save_png(figure, path)


def _detail(m: AttentionMap) -> str:
    heads = f"mean of {len(m.weights)} heads, " if len(m.weights) > 1 else ""
    return f"\n{heads}maximum {100 * float(m.weights.mean(0).max()):.1f} %"


def _draw_heat_maps(figure: Any, grid: Sequence[Sequence[HeatMap]], *, labels: bool) -> None:
    """Draw rows of heat maps, with ``labels`` their tokens."""
    columns, maps = max(map(len, grid)), [heat_map.map for row in grid for heat_map in row]
    height, width = max(len(m.queries) for m in maps), max(len(m.keys) for m in maps)
    cell = min(0.24, max(0.11, 8 / max(height, width)))
    size = (max(3.0, width * cell + 1.1), max(1.6, height * cell + 1.1)) if labels else (0.95, 1.05)
    figure.set_size_inches(min(40, max(6, columns * size[0] + 0.5)), min(40, len(grid) * size[1] + 0.6))
    for line, row in zip(figure.subplots(len(grid), columns, squeeze=False), grid, strict=True):
        for axes in line[len(row) :]:
            axes.set_visible(False)
        for axes, heat_map in zip(line, row, strict=False):
            _draw_heat_map(axes, heat_map, max(4.5, min(8.0, cell * 45)), labels=labels)


def _draw_heat_map(axes: Any, heat_map: HeatMap, font_size: float, *, labels: bool) -> None:
    from matplotlib.colors import LinearSegmentedColormap

    colors = LinearSegmentedColormap.from_list("weights", [_ZERO_COLOR, BLUE])
    highest = max(float(heat_map.weight_TS.max()), 1e-9)
    # nearest: a cell is one weight, not an interpolation of several
    axes.imshow(heat_map.weight_TS, cmap=colors, vmin=0, vmax=highest, aspect="auto", interpolation="nearest")
    title = printable(heat_map.name, 40) + heat_map.detail
    axes.set_title(title, fontsize=8 if labels else 5.5, color=MUTED, parse_math=False, pad=3)
    axes.tick_params(length=0, labelcolor=TEXT)
    remove_spines(axes)
    for tokens, set_ticks, turned in ((heat_map.map.queries, axes.set_yticks, 0), (heat_map.map.keys, axes.set_xticks, 90)):
        if labels and len(tokens) <= _MAX_TOKENS:
            shown = [printable(token, _MAX_TOKEN_LENGTH) for token in tokens]
            rotation = turned if max(map(len, tokens)) > 2 else 0
            set_ticks(range(len(tokens)), shown, fontsize=font_size, rotation=rotation, parse_math=False)
        else:
            set_ticks([])


def _draw_classes(figure: Any, classes: Sequence[tuple[str, float]]) -> None:
    shown = list(classes)[:_MAX_CLASSES]
    figure.set_size_inches(6, 0.32 * len(shown) + 0.9)
    axes = figure.add_subplot()
    bars = axes.barh(range(len(shown)), [p for _, p in shown], color=BLUE, height=0.7)
    axes.bar_label(bars, [f"{100 * p:.1f} %" for _, p in shown], padding=3, fontsize=9, color=MUTED)
    axes.set_yticks(range(len(shown)), [printable(name, 40) for name, _ in shown], fontsize=9, color=TEXT, parse_math=False)
    axes.invert_yaxis()
    axes.set_xlim(0, 1.12)
    axes.set_xticks([])
    axes.tick_params(length=0)
    remove_spines(axes)
