"""Learning curves as a picture."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

_INK, _SOFT, _GRID, _LOSS = "#1c2128", "#667080", "#e6e9ee", "#1d5cd6"
_FIGURES = ("#d9662b", "#15916b", "#8a4fd0", "#c0397e", "#8a7a13")
_POINTS = 3000


def curve(log_rows: Sequence[Mapping[str, Any]], path: str | Path, title: str = "") -> Path:
    """Draw the training loss and the validation figures over the updates into a PNG file.

    Args:
        log_rows: Rows with ``update`` and ``loss``, and rows with ``update`` and ``valid``, the figures by name.
        path: The file to write.
        title: Stands above the picture: the recipe's name.

    The loss is drawn as it was (thin) and smoothed. Figures of validation: ``loss`` on the same axis, those between 0 and 1 or
    0 and 100 in percent on a second one. Figures of single groups (``name/group``) and those without a bound (perplexity, which
    says the same as the loss) are left out. An axis that spans more than a factor of 10 is logarithmic.
    """
    try:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
        from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullFormatter
    except ImportError:
        raise ValueError("a picture needs the package matplotlib: pip install 'weft[plots]'") from None
    train = _series(log_rows, lambda row: row.get("loss"))
    names = dict.fromkeys(name for row in log_rows for name in row.get("valid") or {})
    valid = {name: _series(log_rows, lambda row, name=name: (row.get("valid") or {}).get(name)) for name in names}
    valid = {name: points for name, points in valid.items() if len(points[0])}
    judged = valid.pop("loss", None)
    if not len(train[0]) and judged is None and not valid:
        raise ValueError("the log has no row with a finite loss or figure: there is nothing to draw yet")

    figure = Figure(figsize=(9, 5.2), dpi=160, facecolor="white")
    FigureCanvasAgg(figure)
    figure.set_layout_engine("constrained", w_pad=0.14, h_pad=0.12)
    left = figure.add_subplot()
    lines: list[Any] = []
    if len(train[0]):
        left.plot(*_thin(*train), color=_LOSS, linewidth=0.7, alpha=0.28)
        lines += left.plot(*_thin(train[0], _smooth(train[1])), color=_LOSS, linewidth=2, label="training loss")
    if judged is not None:
        lines += left.plot(*judged, color=_INK, linewidth=1.4, linestyle=(0, (4, 2)), marker="o", markersize=3.5)
        lines[-1].set_label("validation loss")
    losses = np.concatenate([train[1], judged[1] if judged is not None else []])
    if len(losses) and losses.min() > 0 and losses.max() > 10 * losses.min():
        left.set_yscale("log")
        left.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5) if losses.max() < 1000 * losses.min() else (1,)))
        left.yaxis.set_major_formatter(FuncFormatter(lambda y, _: f"{y:g}"))
        left.yaxis.set_minor_formatter(NullFormatter())
    elif len(losses) and losses.min() >= 0:
        left.set_ylim(0, 1.05 * losses.max() or 1)
    left.set_xlabel("update", color=_SOFT)
    left.set_ylabel("loss", color=_SOFT)
    left.xaxis.set_major_locator(MaxNLocator(8, integer=True))
    left.xaxis.set_major_formatter(FuncFormatter(lambda x, _: f"{x:,.0f}"))
    left.grid(axis="y", color=_GRID, linewidth=0.8)

    shown = {name: _percent(y) for name, (_, y) in valid.items() if "/" not in name and name != "perplexity"}
    shown = {name: y for name, y in shown.items() if y is not None}
    right = left.twinx() if shown else None
    if right is not None:
        drawn = list(shown.items())[: len(_FIGURES)]
        for below, (name, y), color in zip(reversed(range(len(drawn))), drawn, _FIGURES, strict=False):
            label, width = f"validation {name.replace('_', ' ')}", 1.8 + 1.5 * below  # of equal figures, all are to be seen
            lines += right.plot(valid[name][0], y, color=color, linewidth=width, marker="o", markersize=width + 2.2, label=label)
        right.set_ylim(0, 103)
        right.yaxis.set_major_formatter(FuncFormatter(lambda y, _: f"{y:.0f} %"))
    for axes in filter(None, (left, right)):
        axes.set_axisbelow(True)
        axes.tick_params(which="both", length=0, labelcolor=_SOFT, labelsize=9)
        for side in ("top", "left", "right"):
            axes.spines[side].set_visible(False)
        axes.spines["bottom"].set_color(_GRID)
    if title:
        figure.suptitle(title, x=0.015, ha="left", fontsize=14, fontweight="bold", color=_INK, parse_math=False)
    figure.legend(
        handles=lines,
        loc="outside lower center",
        ncols=len(lines) if len(lines) < 5 else 3,
        frameon=False,
        fontsize=9.5,
        labelcolor=_INK,
    )
    file = Path(path)
    file.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(file, format="png")
    return file


def _series(rows: Sequence[Mapping[str, Any]], value: Any) -> tuple[np.ndarray, np.ndarray]:
    """Updates and values, without those that are missing or not finite."""
    points = [(row["update"], value(row)) for row in rows if "update" in row]
    kept = [(x, float(y)) for x, y in points if y is not None and math.isfinite(float(y))]
    return np.array([x for x, _ in kept], np.float64), np.array([y for _, y in kept], np.float64)


def _smooth(y: np.ndarray) -> np.ndarray:
    """The mean over a window of 1/25 of the points around each; smaller where the curve begins, as it is steep there."""
    at, sums = np.arange(len(y)), np.concatenate([[0.0], np.cumsum(y)])
    reach = np.minimum(max(1, len(y) // 50), at)
    start, end = at - reach, np.minimum(at + reach + 1, len(y))
    return (sums[end] - sums[start]) / (end - start)


def _thin(x: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """At most as many points as a picture can show."""
    keep = np.unique(np.linspace(0, len(x) - 1, min(len(x), _POINTS)).round().astype(int))
    return x[keep], y[keep]


def _percent(y: np.ndarray) -> np.ndarray | None:
    """A share or a figure between 0 and 100 in percent; None for anything else."""
    if y.min() < 0 or y.max() > 100:
        return None
    return y * 100 if y.max() <= 1 else y
