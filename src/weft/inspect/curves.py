"""The learning curves of several runs in one picture."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from weft.inspect.curve import _GRID, _INK, _SOFT, _smooth, _thin

_COLORS = ("#1d5cd6", "#d9662b", "#15916b", "#8a4fd0", "#c0397e", "#8a7a13", "#1498a8", "#5b6470")
_STYLES: tuple[Any, ...] = ("-", (0, (5, 2)), (0, (1.5, 1.5)), (0, (6, 2, 1.5, 2)))
MOST_FIGURES = 8


class CurvePoints(NamedTuple):
    """A curve: rounds counted through all stages, minutes of training, values."""

    rounds: np.ndarray
    minutes: np.ndarray
    values: np.ndarray


def curves(logs: Mapping[str, Sequence[Mapping[str, Any]]], path: str | Path, title: str = "") -> Path:
    """Draw the training loss and each evaluation figure of several runs, against rounds and against minutes, into a PNG file.

    Args:
        logs: The rows of each run's log, by its name. Runs without anything to draw are left out.
        path: The file to write.
        title: Stands above the picture.

    The training loss is smoothed. Figures of single groups (``name/group``) are left out, and those after the first eight. An
    axis that spans more than a factor of 10 is logarithmic. Minutes are those of training as the log has them, with the
    evaluations and checkpoints in between: of each row, its tokens by its speed.
    """
    try:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
        from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullFormatter
    except ImportError:
        raise ValueError("a picture needs the package matplotlib: pip install 'weft[plots]'") from None
    series = {name: points_of(rows) for name, rows in logs.items()}
    names = list(dict.fromkeys(figure for of_run in series.values() for figure in of_run))[: 1 + MOST_FIGURES]
    if not names:
        raise ValueError("the logs have no row with a finite loss or figure: there is nothing to draw yet")

    figure = Figure(figsize=(11, 0.9 + 2.7 * len(names)), dpi=130, facecolor="white")
    FigureCanvasAgg(figure)
    figure.set_layout_engine("constrained", w_pad=0.1, h_pad=0.08)
    panels: Any = figure.subplots(len(names), 2, sharex="col", sharey="row", squeeze=False)
    lines: dict[str, Any] = {}
    for name, row in zip(names, panels, strict=True):
        drawn = {run: of_run[name] for run, of_run in series.items() if name in of_run}
        for number, run in enumerate(series):
            if run not in drawn:
                continue
            points = drawn[run]
            training = name == TRAINING
            values = _smooth(points.values) if training else points.values
            style = {"color": _COLORS[number % len(_COLORS)], "linestyle": _STYLES[number // len(_COLORS) % len(_STYLES)]}
            marks = {} if training and len(values) > 1 else {"marker": "o", "markersize": 3.5}
            for axes, x in zip(row, (points.rounds, points.minutes), strict=True):
                known = np.isfinite(x)
                [line] = axes.plot(*_thin(x[known], values[known]), linewidth=1.6, **style, **marks)
                lines.setdefault(run, line)
        values = np.concatenate([points.values for points in drawn.values()])
        if values.min() > 0 and values.max() > 10 * values.min():
            row[0].set_yscale("log")
            row[0].yaxis.set_major_locator(LogLocator(subs=(1, 2, 5) if values.max() < 1000 * values.min() else (1,)))
            row[0].yaxis.set_major_formatter(FuncFormatter(lambda y, _: f"{y:g}"))
            row[0].yaxis.set_minor_formatter(NullFormatter())
        elif not values.any():
            row[0].set_ylim(-0.02, 1)
        row[0].set_ylabel(name.replace("_", " "), color=_INK, fontsize=9.5, parse_math=False)
        for axes in row:
            axes.grid(axis="y", color=_GRID, linewidth=0.8)
            axes.set_axisbelow(True)
            axes.tick_params(which="both", length=0, labelcolor=_SOFT, labelsize=8.5)
            for side in ("top", "left", "right"):
                axes.spines[side].set_visible(False)
            axes.spines["bottom"].set_color(_GRID)
    for axes, label in zip(panels[-1], ("round", "minutes"), strict=True):
        axes.set_xlabel(label, color=_SOFT)
        axes.set_xlim(left=0)
        axes.xaxis.set_major_locator(MaxNLocator(7, integer=label == "round"))
    panels[-1][0].xaxis.set_major_formatter(FuncFormatter(lambda x, _: f"{x:,.0f}"))
    if title:
        figure.suptitle(title, x=0.015, ha="left", fontsize=14, fontweight="bold", color=_INK, parse_math=False)
    # An underscore in front would hide a name from the legend's own search, not from a list.
    legend = figure.legend(
        list(lines.values()), list(lines), loc="outside lower center", ncols=min(len(lines), 4), frameon=False, fontsize=9.5
    )
    for text in legend.get_texts():
        text.set_parse_math(False)
    file = Path(path)
    file.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(file, format="png")
    return file


TRAINING = "training loss"


def points_of(log: Sequence[Mapping[str, Any]]) -> dict[str, CurvePoints]:
    """The curves of a run's log by name: the training loss, then the figures of evaluation without those of groups."""
    found: dict[str, tuple[list[int], list[float]]] = {TRAINING: ([], [])}
    rounds, minutes = [0], [0.0]
    first: dict[int, int] = {}
    tokens: dict[int, int] = {}
    last = 0
    for row in log:
        if row.get("event") not in ("update", "valid") or not isinstance(row.get("round"), int):
            continue
        stage = row.get("stage", 0)
        at = first.setdefault(stage, last) + row["round"]
        last = max(last, at)
        if row.get("tokens_per_second"):
            spent = max(row["tokens"] - tokens.get(stage, 0), 0) / row["tokens_per_second"]
            tokens[stage] = row["tokens"]
            rounds.append(at)
            minutes.append(minutes[-1] + spent / 60)
        losses = [v for k, v in row.items() if k == "loss" or k.endswith("/loss")]
        metric_values = {f"valid {k}": v for k, v in (row.get("valid") or {}).items() if "/" not in k}
        for name, value in {**({TRAINING: sum(losses)} if losses else {}), **metric_values}.items():
            if isinstance(value, int | float) and math.isfinite(value):
                xs, ys = found.setdefault(name, ([], []))
                xs.append(at)
                ys.append(float(value))
    return {
        name: CurvePoints(np.array(xs, np.float64), _at(np.array(xs, np.float64), rounds, minutes), np.array(ys))
        for name, (xs, ys) in found.items()
        if xs
    }


def _at(x: np.ndarray, rounds: list[int], minutes: list[float]) -> np.ndarray:
    """Minutes at rounds, in between by proportion; not a number where the log says no speed."""
    return np.interp(x, rounds, minutes) if len(rounds) > 1 else np.full(len(x), np.nan)
