"""A latent space as a picture: places on a plane, coloured by class, some with their texts.

N places, P width of the space.
"""

from __future__ import annotations

import unicodedata
import warnings
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

_INK, _SOFT, _GRID = "#1c2128", "#667080", "#e6e9ee"
_COLOURS = ("#1d5cd6", "#d9662b", "#15916b", "#8a4fd0", "#b8860b", "#c2255c", "#0b7285", "#5c940d")
_REST, _OTHERS = "#adb5bd", "others"
_LONGEST = 36


@dataclass(frozen=True)
class Plane:
    """Places seen on the plane in which they differ most.

    Args:
        xy_N2: Where each is.
        share_2: How much of all variance each axis has, 0 to 1.
    """

    xy_N2: np.ndarray
    share_2: np.ndarray


def principal_plane(z_NP: np.ndarray) -> Plane:
    """The two principal components: the axes of largest variance.

    Z - mean = U S V^T;  xy = (Z - mean) V_2;  share_k = S_k^2 / sum S^2

    Each axis points to where its largest weight is positive, so that the picture does not depend on who computed it.

    >>> principal_plane(np.array([[0.0, 0, 5], [4, 0, 5], [0, 2, 5], [4, 2, 5]])).share_2.tolist()
    [0.8, 0.2]
    """
    z = np.asarray(z_NP, np.float64)
    if z.ndim != 2 or len(z) < 2:
        raise ValueError(f"a plane needs two places or more, but there are {len(z)}")
    if not np.isfinite(z).all():
        raise ValueError("some places have numbers that are not finite")
    centred = z - z.mean(0)
    _, s, axes = np.linalg.svd(centred, full_matrices=False)
    share = s**2 / max(float((s**2).sum()), 1e-300)
    axes, share = axes[:2], share[:2]
    if len(axes) < 2:  # a line, not a plane
        axes, share = np.concatenate([axes, np.zeros((1, z.shape[1]))]), np.append(share, 0.0)
    largest = axes[np.arange(2), np.abs(axes).argmax(1)]
    axes = axes * np.where(largest < 0, -1.0, 1.0)[:, None]
    return Plane(centred @ axes.T, share.round(12))


def latent_picture(
    z_NP: np.ndarray,
    file: str | Path,
    *,
    labels: Sequence[str | None] = (),
    texts: Sequence[str] = (),
    annotate: int = 14,
    title: str = "",
) -> Plane:
    """Draw places into a PNG file on their principal plane, coloured by class, some of them with their texts.

    Texts are those of places far from each other; one that finds no room beside its place is left out.

    Args:
        z_NP: The places.
        file: The file to write.
        labels: The class of each; none = one colour. Of more than eight classes the most frequent have colours.
        texts: What stands at each.
        annotate: At most so many texts.
        title: Stands above the picture.
    """
    try:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
    except ImportError:
        raise ValueError("a picture needs the package matplotlib: pip install 'weft[plots]'") from None
    for name, given in (("labels", labels), ("texts", texts)):
        if len(given) not in (0, len(z_NP)):
            raise ValueError(f"{len(given)} {name} for {len(z_NP)} places: give one for each, or none")
    plane = principal_plane(z_NP)
    figure = Figure(figsize=(9.6, 7.2), dpi=150, facecolor="white", layout="constrained")
    canvas = FigureCanvasAgg(figure)
    axes = figure.add_subplot()
    size, alpha = float(np.clip(9000 / len(z_NP), 9, 42)), 0.8 if len(z_NP) <= 300 else 0.55
    for name, colour, rows in _groups(labels, len(z_NP)):
        at = plane.xy_N2[rows]
        below = 1 if colour == _REST else 2
        axes.scatter(at[:, 0], at[:, 1], s=size, color=colour, alpha=alpha, linewidths=0, label=name, zorder=below)
    axes.margins(0.09)
    axes.set_xlabel(f"first component ({plane.share_2[0]:.1%} of the variance)", color=_SOFT)
    axes.set_ylabel(f"second component ({plane.share_2[1]:.1%})", color=_SOFT)
    axes.tick_params(length=0, labelcolor=_SOFT, labelsize=8)
    axes.grid(color=_GRID, linewidth=0.8)
    axes.set_axisbelow(True)
    for side in axes.spines.values():
        side.set_visible(False)
    if any(labels):
        legend = figure.legend(loc="outside right upper", frameon=False, labelcolor=_INK, fontsize=9, handletextpad=0.2)
        for text in legend.get_texts():
            text.set_parse_math(False)
        for handle in filter(None, legend.legend_handles):
            handle.set(alpha=1, sizes=[36])
    if title:
        figure.suptitle(_shown(title, 90), x=0.01, ha="left", fontsize=13, fontweight="bold", color=_INK, parse_math=False)
    path = Path(file)
    path.parent.mkdir(parents=True, exist_ok=True)
    with warnings.catch_warnings():
        # A font has no picture for every sign of every language: a box stands there instead.
        warnings.filterwarnings("ignore", message=".*[Gg]lyph.*missing")
        canvas.draw()  # until then no one knows where the axes are, and after it they stay there
        figure.set_layout_engine("none")
        if texts and annotate:
            _annotate(axes, canvas.get_renderer(), plane.xy_N2, texts, annotate)
        figure.savefig(path, format="png")
    return plane


def _groups(labels: Sequence[str | None], rows: int) -> list[tuple[str, str, np.ndarray]]:
    """Name, colour and rows of each class, the most frequent first; the rest together."""
    if not any(labels):
        return [("", _COLOURS[0], np.arange(rows))]
    named = np.array([name or _OTHERS for name in labels], dtype=object)
    counts = Counter(named.tolist())
    order = sorted(counts, key=lambda name: (name == _OTHERS, -counts[name], name))
    own = [name for name in order if name != _OTHERS][: len(_COLOURS)]
    found = [(_shown(name, 24), colour, np.flatnonzero(named == name)) for name, colour in zip(own, _COLOURS, strict=False)]
    rest = np.flatnonzero(~np.isin(named, own))
    return [*found, *([(_OTHERS, _REST, rest)] if len(rest) else [])]


def spread(xy_N2: np.ndarray, most: int) -> list[int]:
    """Rows far from each other: the one farthest from the middle, then each time the one farthest from all so far.

    >>> spread(np.array([[0.0, 0], [1, 0], [9, 0], [10, 0]]), 2)
    [0, 3]
    """
    scale = np.maximum(np.ptp(xy_N2, axis=0), 1e-12)
    xy = xy_N2 / scale
    far = np.linalg.norm(xy - xy.mean(0), axis=1)
    chosen = [int(far.argmax())]
    near = np.linalg.norm(xy - xy[chosen[0]], axis=1)
    while len(chosen) < min(most, len(xy)) and near.max() > 0:
        chosen.append(int(near.argmax()))
        near = np.minimum(near, np.linalg.norm(xy - xy[chosen[-1]], axis=1))
    return chosen


def _annotate(axes: Any, renderer: Any, xy_N2: np.ndarray, texts: Sequence[str], most: int) -> None:
    """Write texts beside their places, each where it covers no other text; what finds no room is left out."""
    from matplotlib.text import Text

    taken: list[Any] = []
    inside, points = axes.get_window_extent(renderer), axes.transData.transform(xy_N2)
    for row in spread(xy_N2, 4 * most):
        if len(taken) == most:
            return
        best: tuple[int, Any, Any] | None = None
        for dx, dy, across, up in _AROUND:
            note = axes.annotate(
                _shown(texts[row], _LONGEST),
                xy_N2[row],
                xytext=(dx, dy),
                textcoords="offset points",
                ha=across,
                va=up,
                fontsize=7.5,
                color=_INK,
                parse_math=False,
                bbox={"boxstyle": "round,pad=0.2", "facecolor": "white", "alpha": 0.85, "linewidth": 0},
                arrowprops={"arrowstyle": "-", "color": _SOFT, "linewidth": 0.7, "shrinkA": 0, "shrinkB": 2},
                zorder=5,
            )
            note.update_positions(renderer)
            box = Text.get_window_extent(note, renderer).padded(3)  # without the line to its place
            fits = inside.x0 <= box.x0 and box.x1 <= inside.x1 and inside.y0 <= box.y0 and box.y1 <= inside.y1
            hidden = ((points > (box.x0, box.y0)) & (points < (box.x1, box.y1))).all(1).sum()
            if fits and not any(box.overlaps(other) for other in taken) and (best is None or hidden < best[0]):
                if best is not None:
                    best[1].remove()
                best = int(hidden), note, box
            else:
                note.remove()
        if best is not None:
            taken.append(best[2])


_AROUND = tuple(
    (
        reach * x,
        reach * y,
        "left" if x > 0 else "right" if x < 0 else "center",
        "bottom" if y > 0 else "top" if y < 0 else "center",
    )
    for reach in (7, 16, 30)
    for x, y in ((1, 0), (-1, 0), (0.7, 0.7), (-0.7, 0.7), (0.7, -0.7), (-0.7, -0.7), (0, 1), (0, -1))
)
"""Where a text may stand around its place: how far, and which of its sides is near."""


def _shown(text: str, most: int) -> str:
    """A text that can stand in a picture: signs that turn or hide others are named, a long one is cut."""
    named = "".join(f"U+{ord(c):04X}" if unicodedata.category(c)[0] == "C" else c for c in text)
    return named if len(named) <= most else named[: most - 1] + "…"
