"""Plot the learning curves of several runs side by side."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from weft.inspect.plotting import (
    LINE_COLORS,
    MUTED,
    TEXT,
    format_axis,
    new_figure,
    save_png,
    set_log_scale,
    set_title,
    smooth,
    style_axes,
    thin,
)

TRAINING_LOSS = "training loss"
MAX_METRICS = 8
"""Maximum number of metrics that are plotted besides the training loss."""
_COLORS = (*LINE_COLORS, "#1498a8", "#5b6470")
_LINE_STYLES: tuple[Any, ...] = ("-", (0, (5, 2)), (0, (1.5, 1.5)), (0, (6, 2, 1.5, 2)))


class RunCurve(NamedTuple):
    """The values of one metric over a run.

    Args:
        steps: Steps of the learning algorithm, counted over all stages.
        minutes: Minutes of training.
        values: The logged values.
    """

    steps: np.ndarray
    minutes: np.ndarray
    values: np.ndarray


def plot_run_curves(logs: Mapping[str, Sequence[Mapping[str, Any]]], path: str | Path, title: str = "") -> Path:
    """Plot the training loss and each validation metric of several runs over steps and over minutes to a PNG file.

    The training loss is smoothed. Metrics of single groups (``name/group``), and those after the first eight, are not shown.
    An axis that spans more than a factor of 10 is logarithmic. Minutes are computed from the tokens and the throughput of each
    row of the log, and include the evaluations and checkpoints in between.

    Args:
        logs: The rows of the log of each run, by name. Runs without values are not shown.
        path: The file to write.
        title: Title of the plot.
    """
    curves = {run: log_curves(rows) for run, rows in logs.items()}
    metrics = list(dict.fromkeys(metric for of_run in curves.values() for metric in of_run))[: 1 + MAX_METRICS]
    if not metrics:
        raise ValueError("the logs have no row with a finite loss or metric: nothing to plot yet")
    figure = new_figure((11, 0.9 + 2.7 * len(metrics)), dpi=130, padding=(0.1, 0.08))
    grid: Any = figure.subplots(len(metrics), 2, sharex="col", sharey="row", squeeze=False)
    lines: dict[str, Any] = {}
    for metric, row in zip(metrics, grid, strict=True):
        lines = _draw_metric(row, metric, curves) | lines
    for axes, label in zip(grid[-1], ("step", "minutes"), strict=True):
        axes.set_xlabel(label, color=MUTED)
        axes.set_xlim(left=0)
        format_axis(axes.xaxis, "{:,.0f}" if label == "step" else None, ticks=7, integer=label == "step")
    set_title(figure, title)
    runs = [run for run in curves if run in lines]
    # handles and names as lists: names with a leading underscore would be left out of an automatic legend
    legend = figure.legend(
        [lines[run] for run in runs], runs, loc="outside lower center", ncols=min(len(runs), 4), frameon=False, fontsize=9.5
    )
    for text in legend.get_texts():
        text.set_parse_math(False)
    return save_png(figure, path)


def _draw_metric(row: Sequence[Any], metric: str, curves: Mapping[str, Mapping[str, RunCurve]]) -> dict[str, Any]:
    """Draw one metric of all runs over steps (left) and minutes (right); return a line of each run for the legend."""
    lines: dict[str, Any] = {}
    for number, (run, of_run) in enumerate(curves.items()):
        if metric not in of_run:
            continue
        curve, training = of_run[metric], metric == TRAINING_LOSS
        values = smooth(curve.values) if training else curve.values
        style = {
            "color": _COLORS[number % len(_COLORS)],
            "linestyle": _LINE_STYLES[number // len(_COLORS) % len(_LINE_STYLES)],
        }
        marker = {} if training and len(values) > 1 else {"marker": "o", "markersize": 3.5}
        for axes, x in zip(row, (curve.steps, curve.minutes), strict=True):
            known = np.isfinite(x)
            [line] = axes.plot(*thin(x[known], values[known]), linewidth=1.6, **style, **marker)
            lines.setdefault(run, line)
    values = np.concatenate([of_run[metric].values for of_run in curves.values() if metric in of_run])
    if not set_log_scale(row[0], values) and not values.any():
        row[0].set_ylim(-0.02, 1)
    row[0].set_ylabel(metric.replace("_", " "), color=TEXT, fontsize=9.5, parse_math=False)
    for axes in row:
        style_axes(axes, label_size=8.5)
    return lines


def log_curves(log: Sequence[Mapping[str, Any]]) -> dict[str, RunCurve]:
    """Return the curves of a run's log by metric: the training loss, then the validation metrics except those of groups."""
    found: dict[str, tuple[list[int], list[float]]] = {TRAINING_LOSS: ([], [])}
    steps, minutes = [0], [0.0]
    first: dict[int, int] = {}
    tokens: dict[int, int] = {}
    last = 0
    for row in log:
        if row.get("event") not in ("train", "valid") or not isinstance(row.get("step"), int):
            continue
        stage = row.get("stage", 0)
        at = first.setdefault(stage, last) + row["step"]
        last = max(last, at)
        if row.get("tokens_per_second"):
            seconds = max(row["tokens"] - tokens.get(stage, 0), 0) / row["tokens_per_second"]
            tokens[stage] = row["tokens"]
            steps.append(at)
            minutes.append(minutes[-1] + seconds / 60)
        for name, value in _row_values(row).items():
            if isinstance(value, int | float) and math.isfinite(value):
                xs, ys = found.setdefault(name, ([], []))
                xs.append(at)
                ys.append(float(value))
    return {
        name: RunCurve(np.array(xs, np.float64), _minutes_at(np.array(xs, np.float64), steps, minutes), np.array(ys))
        for name, (xs, ys) in found.items()
        if xs
    }


def _row_values(row: Mapping[str, Any]) -> dict[str, Any]:
    """Return the training loss of a row, summed over the objectives, and its validation metrics."""
    losses = [v for k, v in row.items() if k == "loss" or k.endswith("/loss")]
    metrics = {f"valid {k}": v for k, v in (row.get("valid") or {}).items() if "/" not in k}
    return {**({TRAINING_LOSS: sum(losses)} if losses else {}), **metrics}


def _minutes_at(x: np.ndarray, steps: list[int], minutes: list[float]) -> np.ndarray:
    """Interpolate the minutes at steps; nan if the log has no throughput."""
    return np.interp(x, steps, minutes) if len(steps) > 1 else np.full(len(x), np.nan)
