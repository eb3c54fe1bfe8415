from __future__ import annotations

import sys

import matplotlib.colors
import matplotlib.image
import numpy as np
import pytest

from weft.inspect import plot_learning_curve
from weft.inspect.learning_curve import to_percent
from weft.inspect.plotting import MAX_POINTS


def rows(updates=200):
    rng = np.random.default_rng(0)
    train = [{"step": u, "loss": 3 * 0.97**u + 0.01 + 0.01 * rng.random()} for u in range(1, updates + 1)]
    metric_values = {"loss": 0.5, "exact_match": 0.9, "exact_match/a": 0.8, "perplexity": 1.6, "bleu": 30.0}
    return [*train, {"step": updates // 2, "valid": metric_values}, {"step": updates, "valid": metric_values}, {"note": "x"}]


def labels(figure):
    return [text.get_text() for text in figure.legends[0].get_texts()]


def test_plot_shows_losses_and_metrics_of_the_log(tmp_path, saved_figures):
    file = plot_learning_curve(rows(), tmp_path / "new" / "curve.png", "dates")
    assert file.read_bytes().startswith(b"\x89PNG")
    [figure] = saved_figures
    assert labels(figure) == ["training loss", "validation loss", "validation exact match", "validation bleu"]
    assert figure.get_suptitle() == "dates"
    left, right = figure.axes
    assert left.get_yscale() == "log"
    raw, smoothed, valid = left.lines
    assert len(raw.get_xdata()) == len(smoothed.get_xdata()) == 200 and list(valid.get_xdata()) == [100, 200]
    assert [list(line.get_ydata()) for line in right.lines] == [[90.0, 90.0], [30.0, 30.0]]


def test_equal_metrics_are_all_visible(tmp_path, saved_figures):
    metric_values = {"exact_match": 0.5, "exact_match_worst_group": 0.5, "accuracy": 0.5}
    file = plot_learning_curve([{"step": u, "valid": metric_values} for u in (0, 50, 100)], tmp_path / "c.png")
    [axes] = [axes for axes in saved_figures[0].axes if axes.lines]
    colors = [np.round(255 * np.array(matplotlib.colors.to_rgb(line.get_color()))) for line in axes.lines]
    # a column of pixels between two points
    pixels = 255 * matplotlib.image.imread(file)[:, :, :3]
    x, y = axes.transData.transform((25, 50))
    column = pixels[len(pixels) - round(y) - 30 : len(pixels) - round(y) + 30, round(x)]
    seen = [int((np.abs(column - color).max(1) < 50).sum()) for color in colors]
    assert len(seen) == 3 and min(seen) >= 2


def test_pyplot_and_its_backend_are_not_touched(tmp_path):
    before = sys.modules.get("matplotlib.pyplot")
    backend = matplotlib.rcParams._get("backend") if hasattr(matplotlib.rcParams, "_get") else None
    plot_learning_curve(rows(), tmp_path / "c.png")
    assert sys.modules.get("matplotlib.pyplot") is before
    if backend is not None:
        assert matplotlib.rcParams._get("backend") == backend


@pytest.mark.parametrize(
    ("log", "expected"),
    [
        ([{"step": 1, "loss": 2.0}], ["training loss"]),
        ([{"step": 1, "loss": 0.0}, {"step": 2, "loss": 0.0}], ["training loss"]),
        ([{"step": 1, "loss": -3.0}, {"step": 2, "loss": 5.0}], ["training loss"]),
        (
            [{"step": 1, "loss": float("nan")}, {"step": 2, "loss": 1.0}, {"step": 3, "loss": float("inf")}],
            ["training loss"],
        ),
        ([{"step": 9, "valid": {"accuracy": 0.5}}], ["validation accuracy"]),
        ([{"step": u, "loss": 1.0} for u in range(10_000)], ["training loss"]),
    ],
)
def test_incomplete_logs_are_plotted(tmp_path, saved_figures, log, expected):
    assert plot_learning_curve(log, tmp_path / "c.png", "$x_1$").exists()
    assert labels(saved_figures[0]) == expected
    assert all(len(line.get_xdata()) <= MAX_POINTS for axes in saved_figures[0].axes for line in axes.lines)


def test_an_empty_log_and_missing_matplotlib_are_rejected(tmp_path, monkeypatch):
    with pytest.raises(ValueError, match="nothing to plot"):
        plot_learning_curve([], tmp_path / "c.png")
    with pytest.raises(ValueError, match="nothing to plot"):
        plot_learning_curve([{"step": 1, "loss": float("nan")}], tmp_path / "c.png")
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(ValueError, match=r"matplotlib: pip install 'weft\[plots\]'"):
        plot_learning_curve(rows(), tmp_path / "c.png")


def test_fractions_and_scores_are_converted_to_percent():
    assert list(to_percent(np.array([0.0, 0.5]))) == [0, 50]
    assert list(to_percent(np.array([0.5, 40.0]))) == [0.5, 40]
    assert to_percent(np.array([3.0, 400.0])) is None and to_percent(np.array([-1.0])) is None
