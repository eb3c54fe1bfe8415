"""Tables and plots of docs/about/benchmarks.md, written by the benchmark commands.

A table is between the markers ``<!-- NAME -->`` and ``<!-- end NAME -->``; a plot is a file under docs/images.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from weft.core.io import write_text

PAGE = Path(__file__).parents[1] / "docs" / "about" / "benchmarks.md"
IMAGES = PAGE.parents[1] / "images"
INK, SOFT = "#1c2128", "#667080"
COLORS = ("#1d5cd6", "#d9662b", "#15916b", "#8a4fd0", "#b8860b", "#c2255c", "#0b7285", "#5c940d", "#e03131", "#495057")
"""Colors of the plots of weft."""

Series = Sequence[tuple[float, float]]


def show(name: str, lines: Iterable[str], page: Path | None = PAGE) -> None:
    """Print a table, and write it between the markers of this name in the page, if one is given. Raises ValueError if the
    page has no such markers."""
    table = "\n".join(lines)
    print(f"\n{name}\n\n{table}", flush=True)
    if page is None:
        return
    begin, end = f"<!-- {name} -->\n", f"\n<!-- end {name} -->"
    before, found, rest = page.read_text(encoding="utf-8").partition(begin)
    _, closed, after = rest.partition(end)
    if not (found and closed):
        raise ValueError(f"{page} has no markers for the table {name!r}; add the lines {begin.strip()} and {end.strip()}")
    write_text(page, f"{before}{begin}\n{table}\n{end}{after}")


def scatter(
    file: Path,
    title: str,
    panels: Mapping[str, Mapping[str, Series]],
    axes: tuple[str, str],
    more: Callable[[Any], None] | None = None,
) -> None:
    """Scatter plot with one color per name, panels side by side and one legend; ``more`` adds to each panel."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(4 * len(panels) + 4.4, 4.4), dpi=160, facecolor="white", layout="constrained")
    FigureCanvasAgg(figure)
    names = list(dict.fromkeys(name for panel in panels.values() for name in panel))
    handles = dict[str, Any]()
    for plot, (head, panel) in zip(figure.subplots(1, len(panels), squeeze=False)[0], panels.items(), strict=True):
        for name, found in panel.items():
            color = COLORS[names.index(name) % len(COLORS)]
            marker = "os^"[names.index(name) // len(COLORS)]
            points = plot.scatter(*zip(*found, strict=True), s=36, color=color, marker=marker, alpha=0.8, linewidths=0, zorder=2)
            handles.setdefault(name, points)
        plot.set_title(head, loc="left", fontsize=10, color=INK, pad=14)
        plot.set_xlabel(axes[0], color=SOFT)
        plot.set_ylabel(axes[1], color=SOFT)
        plot.tick_params(length=0, labelcolor=SOFT, labelsize=8)
        plot.grid(color="#e6e9ee", linewidth=0.8)
        plot.set_axisbelow(True)
        plot.margins(0.07)
        plot.spines[:].set_visible(False)
        if more is not None:
            more(plot)
    figure.suptitle(title, x=0.01, ha="left", fontsize=13, fontweight="bold", color=INK)
    legend = {"loc": "outside right upper", "frameon": False, "labelcolor": INK, "fontsize": 8, "handletextpad": 0.2}
    figure.legend(list(handles.values()), list(handles), **legend)
    file.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(file)
    print(f"wrote {file}")
