"""Plot the learning curve of a run: training loss and validation metrics over the steps."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from weft.inspect.plotting import (
    BLUE,
    LINE_COLORS,
    MUTED,
    TEXT,
    finite_points,
    format_axis,
    new_figure,
    save_png,
    set_log_scale,
    set_title,
    smooth,
    style_axes,
    thin,
)

Curve = tuple[np.ndarray, np.ndarray]
"""Steps and values."""


def plot_learning_curve(log_rows: Sequence[Mapping[str, Any]], path: str | Path, title: str = "") -> Path:
    """Plot the training loss and the validation metrics over the steps to a PNG file.

    The training loss is shown as logged (thin line) and smoothed. The validation loss shares its axis; metrics between 0 and 1
    or between 0 and 100 have a second axis in percent. Metrics of single groups (``name/group``), and metrics without an upper
    bound such as perplexity, are not shown. An axis that spans more than a factor of 10 is logarithmic.

    Args:
        log_rows: Rows with ``step`` and ``loss``, and rows with ``step`` and ``valid``, the metric values by name.
        path: The file to write.
        title: Title of the plot, such as the name of the recipe.
    """
    train = _curve(log_rows, lambda row: row.get("loss"))
    names = dict.fromkeys(name for row in log_rows for name in row.get("valid") or {})
    valid = {name: _curve(log_rows, lambda row, name=name: (row.get("valid") or {}).get(name)) for name in names}
    valid = {name: curve for name, curve in valid.items() if len(curve[0])}
    valid_loss = valid.pop("loss", None)
    if not len(train[0]) and valid_loss is None and not valid:
        raise ValueError("the log has no row with a finite loss or metric: nothing to plot yet")
    figure = new_figure((9, 5.2), padding=(0.14, 0.12))
    axes = figure.add_subplot()
    lines = [*_draw_losses(axes, train, valid_loss), *_draw_metrics(axes, valid)]
    set_title(figure, title)
    columns = len(lines) if len(lines) < 5 else 3
    figure.legend(handles=lines, loc="outside lower center", ncols=columns, frameon=False, fontsize=9.5, labelcolor=TEXT)
    return save_png(figure, path)


def _draw_losses(axes: Any, train: Curve, valid: Curve | None) -> list[Any]:
    """Draw training and validation loss; return the lines for the legend."""
    lines: list[Any] = []
    if len(train[0]):
        axes.plot(*thin(*train), color=BLUE, linewidth=0.7, alpha=0.28)
        lines += axes.plot(*thin(train[0], smooth(train[1])), color=BLUE, linewidth=2, label="training loss")
    if valid is not None:
        style: dict[str, Any] = {"linewidth": 1.4, "linestyle": (0, (4, 2)), "marker": "o", "markersize": 3.5}
        lines += axes.plot(*valid, color=TEXT, label="validation loss", **style)
    losses = np.concatenate([train[1], valid[1] if valid is not None else []])
    if not set_log_scale(axes, losses) and len(losses) and losses.min() >= 0:
        axes.set_ylim(0, 1.05 * losses.max() or 1)
    axes.set_xlabel("step", color=MUTED)
    axes.set_ylabel("loss", color=MUTED)
    format_axis(axes.xaxis, "{:,.0f}", ticks=8)
    style_axes(axes)
    return lines


def _draw_metrics(axes: Any, curves: Mapping[str, Curve]) -> list[Any]:
    """Draw the metrics in percent on a second axis; return the lines for the legend."""
    percent = {name: to_percent(y) for name, (_, y) in curves.items() if "/" not in name and name != "perplexity"}
    colors = LINE_COLORS[1:]
    shown = [(name, y) for name, y in percent.items() if y is not None][: len(colors)]
    if not shown:
        return []
    right, lines = axes.twinx(), []
    for below, (name, y), color in zip(reversed(range(len(shown))), shown, colors, strict=False):
        label, width = f"validation {name.replace('_', ' ')}", 1.8 + 1.5 * below  # equal curves stay visible below each other
        lines += right.plot(curves[name][0], y, color=color, linewidth=width, marker="o", markersize=width + 2.2, label=label)
    right.set_ylim(0, 103)
    format_axis(right.yaxis, "{:.0f} %")
    style_axes(right, grid=False)
    return lines


def _curve(rows: Sequence[Mapping[str, Any]], value: Callable[[Mapping[str, Any]], Any]) -> Curve:
    return finite_points([(row["step"], value(row)) for row in rows if "step" in row])


def to_percent(y: np.ndarray) -> np.ndarray | None:
    """Return fractions (0 to 1) and scores (0 to 100) in percent; None for other values."""
    if y.min() < 0 or y.max() > 100:
        return None
    return y * 100 if y.max() <= 1 else y
