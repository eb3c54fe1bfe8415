"""Whether confidence can be believed, as a picture and as a number."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

_INK, _SOFT, _GRID, _BAR = "#1c2128", "#667080", "#e6e9ee", "#3f74dd"
_OVER, _UNDER = ("#f6d9ca", "#d9662b"), ("#cfeae1", "#15916b")


@dataclass(frozen=True)
class Bins:
    """Rows put together by their confidence; empty bins have means of 0."""

    edges: np.ndarray
    count: np.ndarray
    confidence: np.ndarray
    """Mean of each bin."""
    right: np.ndarray
    """Share of each bin that is right."""


def binned(confidence: Sequence[float] | np.ndarray, right: Sequence[bool] | np.ndarray, bins: int = 10) -> Bins:
    """Equal bins over 0 to 1; a confidence on an edge belongs to the bin below it, 0 to the first."""
    p, hit = np.asarray(confidence, np.float64), np.asarray(right, np.float64)
    if p.shape != hit.shape or p.ndim != 1 or not len(p):
        raise ValueError(f"confidence has the shape {p.shape} and right {hit.shape}: give one number each for one row or more")
    if not ((p >= 0) & (p <= 1)).all() or not np.isin(hit, (0, 1)).all():
        raise ValueError("confidence must lie between 0 and 1, and right be true or false")
    if bins < 1:
        raise ValueError(f"bins is {bins}, but must be at least 1")
    edges = np.linspace(0, 1, bins + 1)
    place = np.clip(np.searchsorted(edges, p, side="left") - 1, 0, bins - 1)
    count = np.bincount(place, minlength=bins)
    some = np.maximum(count, 1)
    means = [np.bincount(place, values, minlength=bins) / some for values in (p, hit)]
    return Bins(edges, count, means[0], means[1])


def calibration_error(confidence: Sequence[float] | np.ndarray, right: Sequence[bool] | np.ndarray, bins: int = 10) -> float:
    """The expected calibration error: how far confidence is from the share that is right.

    ECE = sum_b n_b / n |share right in bin b - mean confidence in bin b|

    Naeini et al. 2015; Guo et al. 2017, https://arxiv.org/abs/1706.04599

    >>> calibration_error([0.9, 0.9, 0.6, 0.6], [True, True, True, False])
    0.1
    """
    found = binned(confidence, right, bins)
    return float(round((found.count * np.abs(found.right - found.confidence)).sum() / found.count.sum(), 12))


def reliability(
    confidence: Sequence[float] | np.ndarray,
    right: Sequence[bool] | np.ndarray,
    file: str | Path,
    title: str = "",
    bins: int = 10,
) -> Path:
    """Draw the share of right predictions over the confidence into a PNG file, with the expected calibration error.

    Bars on the diagonal: of predictions with confidence 0.8, 80 % are right. Hatched is the gap between a bar's share and its
    mean confidence. Below, how many predictions there are in each bin.

    Args:
        confidence: Of each prediction, between 0 and 1.
        right: Whether it is right.
        file: The file to write.
        title: Stands above the picture.
        bins: How many bars.
    """
    try:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
        from matplotlib.ticker import FuncFormatter, MaxNLocator
    except ImportError:
        raise ValueError("a picture needs the package matplotlib: pip install 'weft[plots]'") from None
    found, error = binned(confidence, right, bins), calibration_error(confidence, right, bins)
    some = found.count > 0
    middle, width = (found.edges[:-1] + found.edges[1:]) / 2, 0.92 / bins

    figure = Figure(figsize=(6.4, 6.8), dpi=160, facecolor="white")
    FigureCanvasAgg(figure)
    figure.set_layout_engine("constrained", w_pad=0.14, h_pad=0.12)
    upper, lower = figure.subplots(2, 1, sharex=True, height_ratios=[3.4, 1])
    # What the bar has too little or too much of is drawn over it, between the share that is right and the mean confidence.
    upper.bar(middle[some], found.right[some], width, color=_BAR, label="share right")
    gap = found.confidence - found.right
    for rows, (fill, line), name in ((gap > 0, _OVER, "too confident"), (gap < 0, _UNDER, "not confident enough")):
        if (rows & some).any():
            at = rows & some
            low = np.minimum(found.right, found.confidence)[at]
            upper.bar(middle[at], np.abs(gap)[at], width, low, color=fill, edgecolor=line, hatch="////", linewidth=0, label=name)
    upper.plot([0, 1], [0, 1], color=_SOFT, linewidth=1.2, linestyle=(0, (4, 3)), label="as right as confident")
    upper.set_ylim(0, 1.02)
    upper.set_xlim(0, 1)
    upper.set_ylabel("right", color=_SOFT)
    note = f"expected calibration error {100 * error:.1f} %   ·   {100 * np.mean(right):.1f} % right"
    upper.set_title(f"{note}, mean confidence {100 * np.mean(confidence):.1f} %", loc="left", fontsize=9.5, color=_SOFT)
    lower.bar(middle, found.count, width, color="#b3b8c0")
    for x, count in zip(middle[some], found.count[some], strict=True):
        text = f"{count:,}" if count < 10_000 else f"{count / 1000:,.0f}k"
        lower.text(x, count, text, ha="center", va="bottom", fontsize=min(8.5, 110 / bins), color=_SOFT)
    lower.set_ylim(0, 1.22 * found.count.max())
    lower.yaxis.set_major_locator(MaxNLocator(3, integer=True))
    lower.yaxis.set_major_formatter(FuncFormatter(lambda y, _: f"{y:,.0f}"))
    lower.set_ylabel("predictions", color=_SOFT)
    lower.set_xlabel("confidence", color=_SOFT)
    percent = FuncFormatter(lambda share, _: f"{100 * share:.0f} %")
    upper.yaxis.set_major_formatter(percent)
    lower.xaxis.set_major_formatter(percent)
    for axes in (upper, lower):
        axes.set_axisbelow(True)
        axes.grid(axis="y", color=_GRID, linewidth=0.8)
        axes.tick_params(which="both", length=0, labelcolor=_SOFT, labelsize=9)
        axes.tick_params(axis="x", pad=7)
        for side in ("top", "left", "right"):
            axes.spines[side].set_visible(False)
        axes.spines["bottom"].set_color(_GRID)
    figure.legend(
        handles=upper.get_legend_handles_labels()[0],
        loc="outside lower center",
        ncols=4,
        columnspacing=1.4,
        handlelength=1.6,
        frameon=False,
        fontsize=9,
        labelcolor=_INK,
    )
    if title:
        figure.suptitle(title, x=0.015, ha="left", fontsize=14, fontweight="bold", color=_INK, parse_math=False)
    path = Path(file)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, format="png")
    return path
