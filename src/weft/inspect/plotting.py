"""Shared parts of the plots: colors, figures, axes, and PNG files. Matplotlib is imported on first use."""

from __future__ import annotations

import io
import unicodedata
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from weft.core.files import make_folder, write_bytes

if TYPE_CHECKING:
    from matplotlib.figure import Figure

TEXT, MUTED, GRID, BLUE, ORANGE, GREEN = "#1c2128", "#667080", "#e6e9ee", "#1d5cd6", "#d9662b", "#15916b"
"""Colors of titles, of axis labels, of grid lines, and of data."""
LINE_COLORS = (BLUE, ORANGE, GREEN, "#8a4fd0", "#c0397e", "#8a7a13")
"""Colors of curves, in order."""
MAX_POINTS = 3000
"""Maximum number of points of a curve: more cannot be seen at the resolution of the plots."""


def new_figure(size: tuple[float, float] | None = None, dpi: int = 160, padding: tuple[float, float] | None = None) -> Figure:
    """Return an empty figure with a canvas of its own; ``matplotlib.pyplot`` and its backend are not touched.

    Args:
        size: Width and height in inches; None = that of matplotlib.
        dpi: Pixels per inch.
        padding: Horizontal and vertical padding of the axes in inches; None = that of matplotlib.
    """
    try:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
    except ImportError:
        raise ValueError("plots need the package matplotlib: pip install 'weft[plots]'") from None
    figure = Figure(figsize=size, dpi=dpi, facecolor="white", layout="constrained")
    FigureCanvasAgg(figure)
    if padding is not None:
        figure.set_layout_engine("constrained", w_pad=padding[0], h_pad=padding[1])
    return figure


def style_axes(axes: Any, *, label_size: float = 9, grid: bool = True) -> None:
    """Horizontal grid lines below the data, no tick marks, and no spines except for the bottom one."""
    axes.set_axisbelow(True)
    axes.tick_params(which="both", length=0, labelcolor=MUTED, labelsize=label_size)
    if grid:
        axes.grid(axis="y", color=GRID, linewidth=0.8)
    for side in ("top", "left", "right"):
        axes.spines[side].set_visible(False)
    axes.spines["bottom"].set_color(GRID)


def remove_spines(axes: Any) -> None:
    """Remove the frame of the axes."""
    for spine in axes.spines.values():
        spine.set_visible(False)


def set_log_scale(axes: Any, values: np.ndarray) -> bool:
    """Make the y axis logarithmic if the values are positive and span more than a factor of 10; return whether they do."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

    if not len(values) or values.min() <= 0 or values.max() <= 10 * values.min():
        return False
    axes.set_yscale("log")
    axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5) if values.max() < 1000 * values.min() else (1,)))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda y, _: f"{y:g}"))
    axes.yaxis.set_minor_formatter(NullFormatter())
    return True


def format_axis(axis: Any, template: str | None, *, ticks: int | None = None, integer: bool = True) -> None:
    """Set the ticks of an axis.

    Args:
        axis: The x or y axis.
        template: Format string of the labels, such as ``{:,.0f}``; None = that of matplotlib.
        ticks: Maximum number of ticks; None = that of matplotlib.
        integer: Whether ticks are at integers only.
    """
    from matplotlib.ticker import FuncFormatter, MaxNLocator

    if ticks is not None:
        axis.set_major_locator(MaxNLocator(ticks, integer=integer))
    if template is not None:
        axis.set_major_formatter(FuncFormatter(lambda value, _: template.format(value)))


def set_title(figure: Figure, title: str, *, x: float = 0.015, size: float = 14) -> None:
    """Write a bold title at the top left; "" = none. ``$`` is a character, not math mode."""
    if title:
        figure.suptitle(title, x=x, ha="left", fontsize=size, fontweight="bold", color=TEXT, parse_math=False)


def save_png(figure: Figure, path: str | Path) -> Path:
    """Write the figure to a PNG file, creating its folder; return the path."""
    file = Path(path)
    image = io.BytesIO()
    with ignore_missing_glyphs():
        figure.savefig(image, format="png")
    make_folder(file.parent)
    write_bytes(file, image.getvalue())
    return file


@contextmanager
def ignore_missing_glyphs() -> Iterator[None]:
    """Suppress the warning for characters that the font has no glyph for: it shows boxes instead."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".*[Gg]lyph.*missing")
        yield


def printable(text: str, max_length: int) -> str:
    """Return a text for a plot: control and formatting characters by their code points, long texts truncated.

    >>> printable("a\\tlong text", 9)
    'aU+0009l…'
    """
    named = "".join(f"U+{ord(c):04X}" if unicodedata.category(c)[0] == "C" else c for c in text)
    return named if len(named) <= max_length else named[: max_length - 1] + "…"


def compact_count(count: int) -> str:
    """Return a count with few digits.

    >>> compact_count(9999), compact_count(12_345)
    ('9,999', '12k')
    """
    return f"{count:,}" if count < 10_000 else f"{count / 1000:,.0f}k"


# ------------------------------------------------------------------------------------------------------------------ curves


def smooth(y: np.ndarray) -> np.ndarray:
    """Centered moving average over a window of 1/25 of the points; shorter at the start, where learning curves are steep."""
    at, sums = np.arange(len(y)), np.concatenate([[0.0], np.cumsum(y)])
    reach = np.minimum(max(1, len(y) // 50), at)
    start, end = at - reach, np.minimum(at + reach + 1, len(y))
    return (sums[end] - sums[start]) / (end - start)


def thin(x: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return at most ``MAX_POINTS`` of the points, evenly spaced, with the first and the last."""
    keep = np.unique(np.linspace(0, len(x) - 1, min(len(x), MAX_POINTS)).round().astype(int))
    return x[keep], y[keep]


def finite_points(points: Sequence[tuple[float, float | None]]) -> tuple[np.ndarray, np.ndarray]:
    """Return x and y of the points whose y is neither missing nor infinite nor nan."""
    kept = [(x, float(y)) for x, y in points if y is not None and np.isfinite(float(y))]
    return np.array([x for x, _ in kept], np.float64), np.array([y for _, y in kept], np.float64)
