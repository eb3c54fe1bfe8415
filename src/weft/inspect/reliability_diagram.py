"""Calibration of a classifier: expected calibration error and reliability diagram."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from weft.inspect.plotting import (
    GREEN,
    MUTED,
    ORANGE,
    TEXT,
    compact_count,
    format_axis,
    new_figure,
    save_png,
    set_title,
    style_axes,
)

_BAR, _COUNT_BAR = "#3f74dd", "#b3b8c0"
_OVERCONFIDENT, _UNDERCONFIDENT = ("#f6d9ca", ORANGE), ("#cfeae1", GREEN)


@dataclass(frozen=True)
class CalibrationBins:
    """Predictions grouped by confidence.

    Args:
        edges: Edges of the bins, one more than there are bins.
        count: Number of predictions in each bin.
        confidence: Mean confidence in each bin; 0 for an empty one.
        accuracy: Accuracy in each bin; 0 for an empty one.
    """

    edges: np.ndarray
    count: np.ndarray
    confidence: np.ndarray
    accuracy: np.ndarray

    @property
    def error(self) -> float:
        """Expected calibration error."""
        return float(round((self.count * np.abs(self.accuracy - self.confidence)).sum() / self.count.sum(), 12))


def calibration_bins(
    confidence: Sequence[float] | np.ndarray, correct: Sequence[bool] | np.ndarray, bins: int = 10
) -> CalibrationBins:
    """Group predictions into bins of equal width over 0 to 1; a confidence on an edge belongs to the bin below it.

    Args:
        confidence: Confidence of each prediction, between 0 and 1.
        correct: Whether each prediction is correct.
        bins: Number of bins.
    """
    p, hit = np.asarray(confidence, np.float64), np.asarray(correct, np.float64)
    if p.shape != hit.shape or p.ndim != 1 or not len(p):
        raise ValueError(
            f"confidence has shape {p.shape} and correct has shape {hit.shape}; pass one value of each per prediction, "
            "for at least one prediction"
        )
    if not ((p >= 0) & (p <= 1)).all() or not np.isin(hit, (0, 1)).all():
        raise ValueError("confidence must be between 0 and 1, and correct must be boolean")
    if bins < 1:
        raise ValueError(f"bins is {bins}; must be at least 1")
    edges = np.linspace(0, 1, bins + 1)
    index = np.clip(np.searchsorted(edges, p, side="left") - 1, 0, bins - 1)
    count = np.bincount(index, minlength=bins)
    means = [np.bincount(index, values, minlength=bins) / np.maximum(count, 1) for values in (p, hit)]
    return CalibrationBins(edges, count, means[0], means[1])


def expected_calibration_error(
    confidence: Sequence[float] | np.ndarray, correct: Sequence[bool] | np.ndarray, bins: int = 10
) -> float:
    """Expected calibration error (ECE): mean distance between confidence and accuracy.

    ECE = sum_b n_b / n |accuracy in bin b - mean confidence in bin b|

    Naeini et al. 2015; Guo et al. 2017, https://arxiv.org/abs/1706.04599

    Args:
        confidence: Confidence of each prediction, between 0 and 1.
        correct: Whether each prediction is correct.
        bins: Number of bins.

    >>> expected_calibration_error([0.9, 0.9, 0.6, 0.6], [True, True, True, False])
    0.1
    """
    return calibration_bins(confidence, correct, bins).error


def plot_reliability_diagram(
    confidence: Sequence[float] | np.ndarray,
    correct: Sequence[bool] | np.ndarray,
    file: str | Path,
    title: str = "",
    bins: int = 10,
) -> Path:
    """Plot accuracy over confidence (reliability diagram) to a PNG file, with the expected calibration error.

    Bars of a calibrated model end on the diagonal: of the predictions with confidence 0.8, 80 % are correct. The gap between
    accuracy and mean confidence is hatched. Below, a histogram of the confidence.

    Guo et al. 2017, https://arxiv.org/abs/1706.04599

    Args:
        confidence: Confidence of each prediction, between 0 and 1.
        correct: Whether each prediction is correct.
        file: The file to write.
        title: Title of the plot.
        bins: Number of bins.
    """
    found = calibration_bins(confidence, correct, bins)
    figure = new_figure((6.4, 6.8), padding=(0.14, 0.12))
    upper, lower = figure.subplots(2, 1, sharex=True, height_ratios=[3.4, 1])
    _draw_accuracy(upper, found)
    note = f"expected calibration error {100 * found.error:.1f} %   ·   accuracy {100 * np.mean(correct):.1f} %"
    upper.set_title(f"{note}, mean confidence {100 * np.mean(confidence):.1f} %", loc="left", fontsize=9.5, color=MUTED)
    _draw_histogram(lower, found)
    for axes in (upper, lower):
        style_axes(axes)
        axes.tick_params(axis="x", pad=7)
    handles = upper.get_legend_handles_labels()[0]
    style: dict[str, Any] = {"columnspacing": 1.4, "handlelength": 1.6, "frameon": False, "fontsize": 9, "labelcolor": TEXT}
    figure.legend(handles=handles, loc="outside lower center", ncols=4, **style)
    set_title(figure, title)
    return save_png(figure, file)


def _draw_accuracy(axes: Any, bins: CalibrationBins) -> None:
    """Draw the accuracy of each bin, and over it the gap to the mean confidence."""
    filled, width = bins.count > 0, 0.92 / len(bins.count)
    middle = (bins.edges[:-1] + bins.edges[1:]) / 2
    axes.bar(middle[filled], bins.accuracy[filled], width, color=_BAR, label="accuracy")
    gap = bins.confidence - bins.accuracy
    for side, (fill, line), name in ((gap > 0, _OVERCONFIDENT, "overconfident"), (gap < 0, _UNDERCONFIDENT, "underconfident")):
        at = side & filled
        if at.any():
            low, style = np.minimum(bins.accuracy, bins.confidence)[at], {"hatch": "////", "linewidth": 0}
            axes.bar(middle[at], np.abs(gap)[at], width, low, color=fill, edgecolor=line, label=name, **style)
    axes.plot([0, 1], [0, 1], color=MUTED, linewidth=1.2, linestyle=(0, (4, 3)), label="perfect calibration")
    axes.set_ylim(0, 1.02)
    axes.set_xlim(0, 1)
    axes.set_ylabel("accuracy", color=MUTED)
    format_axis(axes.yaxis, "{:.0%}")


def _draw_histogram(axes: Any, bins: CalibrationBins) -> None:
    """Draw the number of predictions in each bin."""
    filled, middle = bins.count > 0, (bins.edges[:-1] + bins.edges[1:]) / 2
    axes.bar(middle, bins.count, 0.92 / len(bins.count), color=_COUNT_BAR)
    for x, count in zip(middle[filled], bins.count[filled], strict=True):
        size = min(8.5, 110 / len(bins.count))
        axes.text(x, count, compact_count(int(count)), ha="center", va="bottom", fontsize=size, color=MUTED)
    axes.set_ylim(0, 1.22 * bins.count.max())
    format_axis(axes.yaxis, "{:,.0f}", ticks=3)
    axes.set_ylabel("predictions", color=MUTED)
    axes.set_xlabel("confidence", color=MUTED)
    format_axis(axes.xaxis, "{:.0%}")
