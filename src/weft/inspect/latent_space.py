"""Plot a latent space: codes projected to their principal components, colored by class, some labeled with their texts.

Shape suffixes: N codes, P dimensions of the latent space.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from weft.inspect.plotting import (
    BLUE,
    GREEN,
    GRID,
    MUTED,
    ORANGE,
    TEXT,
    ignore_missing_glyphs,
    new_figure,
    printable,
    remove_spines,
    save_png,
    set_title,
)

_COLORS = (BLUE, ORANGE, GREEN, "#8a4fd0", "#b8860b", "#c2255c", "#0b7285", "#5c940d")
_OTHERS, _OTHERS_COLOR = "others", "#adb5bd"
_MAX_LENGTH = 36
"""Maximum number of characters of a label."""


@dataclass(frozen=True)
class PrincipalComponents:
    """Points projected to their first two principal components.

    Args:
        xy_N2: Coordinates of the points.
        explained_variance_ratio: Fraction of the variance along each of the two components.
    """

    xy_N2: np.ndarray
    explained_variance_ratio: np.ndarray


def principal_components(z_NP: np.ndarray) -> PrincipalComponents:
    """Project points to their first two principal components (PCA).

    Z - mean = U S V^T;  xy = (Z - mean) V_2;  explained_variance_ratio_k = S_k^2 / sum S^2

    The sign of each component is chosen such that its weight of largest magnitude is positive.

    >>> points = np.array([[0.0, 0, 5], [4, 0, 5], [0, 2, 5], [4, 2, 5]])
    >>> principal_components(points).explained_variance_ratio.tolist()
    [0.8, 0.2]
    """
    z = np.asarray(z_NP, np.float64)
    if z.ndim != 2 or len(z) < 2:
        raise ValueError(f"got latent codes of shape {z.shape}; pass at least two codes, N x dimensions")
    if not np.isfinite(z).all():
        raise ValueError("some latent codes are not finite")
    centered = z - z.mean(0)
    _, s, axes = np.linalg.svd(centered, full_matrices=False)
    ratio = s**2 / max(float((s**2).sum()), 1e-300)
    axes, ratio = axes[:2], ratio[:2]
    if len(axes) < 2:  # a latent space of one dimension
        axes, ratio = np.concatenate([axes, np.zeros((1, z.shape[1]))]), np.append(ratio, 0.0)
    largest = axes[np.arange(2), np.abs(axes).argmax(1)]
    axes = axes * np.where(largest < 0, -1.0, 1.0)[:, None]
    return PrincipalComponents(centered @ axes.T, ratio.round(12))


def plot_latent_space(
    z_NP: np.ndarray,
    file: str | Path,
    *,
    labels: Sequence[str | None] = (),
    texts: Sequence[str] = (),
    annotate: int = 14,
    title: str = "",
) -> PrincipalComponents:
    """Plot latent codes on their first two principal components to a PNG file; return the projection.

    Texts are shown for codes that are far from each other, and only where they overlap no other text.

    Args:
        z_NP: The latent codes.
        file: The file to write.
        labels: Class of each code; empty = one color. Of more than eight classes, the most frequent have a color of their own.
        texts: Text of each code; empty = no texts.
        annotate: Maximum number of codes labeled with their text.
        title: Title of the plot.
    """
    for name, values in (("labels", labels), ("texts", texts)):
        if len(values) not in (0, len(z_NP)):
            raise ValueError(f"got {len(values)} {name} for {len(z_NP)} latent codes; pass one per code, or none")
    components = principal_components(z_NP)
    figure = new_figure((9.6, 7.2), dpi=150)
    axes = figure.add_subplot()
    _draw_points(axes, components, labels)
    if any(labels):
        legend = figure.legend(loc="outside right upper", frameon=False, labelcolor=TEXT, fontsize=9, handletextpad=0.2)
        for text in legend.get_texts():
            text.set_parse_math(False)
        for handle in filter(None, legend.legend_handles):
            handle.set(alpha=1, sizes=[36])
    set_title(figure, printable(title, 90), x=0.01, size=13)
    if texts and annotate:
        canvas: Any = figure.canvas
        with ignore_missing_glyphs():
            canvas.draw()  # computes the layout of the axes, which must not change after texts are added
            figure.set_layout_engine("none")
            _annotate(axes, canvas.get_renderer(), components.xy_N2, texts, annotate)
    save_png(figure, file)
    return components


def _draw_points(axes: Any, components: PrincipalComponents, labels: Sequence[str | None]) -> None:
    """Draw a point for each code, and label the axes with the explained variance."""
    count = len(components.xy_N2)
    size, alpha = float(np.clip(9000 / count, 9, 42)), 0.8 if count <= 300 else 0.55
    for name, color, rows in _classes(labels, count):
        xy, below = components.xy_N2[rows], 1 if color == _OTHERS_COLOR else 2
        axes.scatter(xy[:, 0], xy[:, 1], s=size, color=color, alpha=alpha, linewidths=0, label=name, zorder=below)
    axes.margins(0.09)
    first, second = components.explained_variance_ratio
    axes.set_xlabel(f"first principal component ({first:.1%} of the variance)", color=MUTED)
    axes.set_ylabel(f"second principal component ({second:.1%})", color=MUTED)
    axes.tick_params(length=0, labelcolor=MUTED, labelsize=8)
    axes.grid(color=GRID, linewidth=0.8)
    axes.set_axisbelow(True)
    remove_spines(axes)


def _classes(labels: Sequence[str | None], count: int) -> list[tuple[str, str, np.ndarray]]:
    """Return name, color and indices of each class, most frequent first; the classes without a color are merged."""
    if not any(labels):
        return [("", _COLORS[0], np.arange(count))]
    named = np.array([name or _OTHERS for name in labels], dtype=object)
    counts = Counter(named.tolist())
    order = sorted(counts, key=lambda name: (name == _OTHERS, -counts[name], name))
    own = [name for name in order if name != _OTHERS][: len(_COLORS)]
    found = [(printable(name, 24), color, np.flatnonzero(named == name)) for name, color in zip(own, _COLORS, strict=False)]
    others = np.flatnonzero(~np.isin(named, own))
    return [*found, *([(_OTHERS, _OTHERS_COLOR, others)] if len(others) else [])]


def farthest_points(xy_N2: np.ndarray, count: int) -> list[int]:
    """Farthest point sampling: start at the point farthest from the mean, then add the point farthest from all chosen ones.

    Returns indices; fewer than ``count`` if there are fewer different points. Both axes are scaled to the same range.

    >>> farthest_points(np.array([[0.0, 0], [1, 0], [9, 0], [10, 0]]), 2)
    [0, 3]
    """
    scale = np.maximum(np.ptp(xy_N2, axis=0), 1e-12)
    xy = xy_N2 / scale
    far = np.linalg.norm(xy - xy.mean(0), axis=1)
    chosen = [int(far.argmax())]
    near = np.linalg.norm(xy - xy[chosen[0]], axis=1)
    while len(chosen) < min(count, len(xy)) and near.max() > 0:
        chosen.append(int(near.argmax()))
        near = np.minimum(near, np.linalg.norm(xy - xy[chosen[-1]], axis=1))
    return chosen


def _annotate(axes: Any, renderer: Any, xy_N2: np.ndarray, texts: Sequence[str], max_texts: int) -> None:
    """Write texts next to their points, each where it overlaps no other text and covers the fewest points."""
    from matplotlib.text import Text

    taken: list[Any] = []
    inside, points = axes.get_window_extent(renderer), axes.transData.transform(xy_N2)
    for row in farthest_points(xy_N2, 4 * max_texts):
        if len(taken) == max_texts:
            return
        best: tuple[int, Any, Any] | None = None
        for dx, dy, horizontal, vertical in _OFFSETS:
            note = axes.annotate(
                printable(texts[row], _MAX_LENGTH),
                xy_N2[row],
                xytext=(dx, dy),
                textcoords="offset points",
                ha=horizontal,
                va=vertical,
                fontsize=7.5,
                color=TEXT,
                parse_math=False,
                bbox={"boxstyle": "round,pad=0.2", "facecolor": "white", "alpha": 0.85, "linewidth": 0},
                arrowprops={"arrowstyle": "-", "color": MUTED, "linewidth": 0.7, "shrinkA": 0, "shrinkB": 2},
                zorder=5,
            )
            note.update_positions(renderer)
            box = Text.get_window_extent(note, renderer).padded(3)  # the text without the line to its point
            fits = inside.x0 <= box.x0 and box.x1 <= inside.x1 and inside.y0 <= box.y0 and box.y1 <= inside.y1
            covered = ((points > (box.x0, box.y0)) & (points < (box.x1, box.y1))).all(1).sum()
            if fits and not any(box.overlaps(other) for other in taken) and (best is None or covered < best[0]):
                if best is not None:
                    best[1].remove()
                best = int(covered), note, box
            else:
                note.remove()
        if best is not None:
            taken.append(best[2])


_OFFSETS = tuple(
    (
        reach * x,
        reach * y,
        "left" if x > 0 else "right" if x < 0 else "center",
        "bottom" if y > 0 else "top" if y < 0 else "center",
    )
    for reach in (7, 16, 30)
    for x, y in ((1, 0), (-1, 0), (0.7, 0.7), (-0.7, 0.7), (0.7, -0.7), (-0.7, -0.7), (0, 1), (0, -1))
)
"""Candidate offsets of a text from its point, with its horizontal and vertical alignment."""
