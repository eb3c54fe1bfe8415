"""Which classes are taken for which, as a picture.

Shape suffixes: C classes.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

import numpy as np

_INK, _SOFT, _GRID = "#1c2128", "#667080", "#e6e9ee"
_RIGHT, _WRONG = "#1d5cd6", "#d9662b"
_REST = "others"


def confusion(
    labels: Sequence[str],
    predictions: Sequence[str],
    file: str | Path,
    title: str = "",
    order: Sequence[str] = (),
    most: int = 20,
) -> Path:
    """Draw how often each class was predicted for each right one into a PNG file.

    Rows are the right classes, columns the predicted ones. A cell has the count; its colour is the share of its row, blue where
    the prediction is right and orange where it is wrong.

    Args:
        labels: The right classes.
        predictions: The predicted ones.
        file: The file to write.
        title: Stands above the picture.
        order: The classes in the order to show them; sorted otherwise.
        most: With more classes, those with most mistakes (and then most rows) are shown, and the rest together.
    """
    try:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.colors import to_rgb
        from matplotlib.figure import Figure
    except ImportError:
        raise ValueError("a picture needs the package matplotlib: pip install 'weft[plots]'") from None
    names, counts_CC = confusion_counts(labels, predictions, order)
    if most < 2:
        raise ValueError(f"most is {most}, but a picture of confusions needs two classes or more")
    share_right, total = counts_CC.diagonal().sum() / counts_CC.sum(), len(names)
    if cut := total > most:
        names, counts_CC = _fewer(names, counts_CC, most)
    size = len(names)
    share_CC = counts_CC / np.maximum(counts_CC.sum(axis=1, keepdims=True), 1)

    cell = float(np.clip(6.5 / size, 0.46, 1.15))
    shown = [name if len(name) <= 18 else f"{name[:17]}…" for name in names]
    longest = 0.085 * max(map(len, shown))
    figure = Figure(figsize=(max(4.6, cell * size + 1.3 + longest), cell * size + 1.6 + longest), dpi=160, facecolor="white")
    FigureCanvasAgg(figure)
    figure.set_layout_engine("constrained", w_pad=0.14, h_pad=0.12)
    axes = figure.add_subplot()
    # White to the class's colour; a little of it already where the share is small, so that rare confusions are seen.
    base = np.where(np.eye(size, dtype=bool)[..., None], to_rgb(_RIGHT), to_rgb(_WRONG))
    if cut:  # One of the others taken for another of them is there too: neither right nor wrong.
        base[-1, -1] = to_rgb(_SOFT)
    depth = np.where(counts_CC > 0, 0.06 + 0.94 * share_CC**0.7, 0)[..., None]
    axes.imshow(1 - depth * (1 - base), interpolation="nearest", aspect="equal")
    for row, column in np.argwhere(counts_CC > 0):
        count = int(counts_CC[row, column])
        text = f"{count:,}" if count < 10_000 else f"{count / 1000:,.0f}k"
        colour = "white" if depth[row, column, 0] > 0.65 else _INK
        points = min(10.0, 46 * cell / max(len(text), 3))
        axes.text(column, row, text, ha="center", va="center", fontsize=points, color=colour, parse_math=False)
    axes.set_xticks(range(size), shown, parse_math=False)
    axes.set_yticks(range(size), shown, parse_math=False)
    if longest > cell:
        axes.tick_params(axis="x", labelrotation=45)
        for text in axes.get_xticklabels():
            text.set(ha="right", rotation_mode="anchor")
    axes.set_xticks(np.arange(-0.5, size), minor=True)
    axes.set_yticks(np.arange(-0.5, size), minor=True)
    axes.grid(which="minor", color=_GRID, linewidth=0.8)
    axes.tick_params(which="both", length=0, labelcolor=_SOFT, labelsize=9)
    axes.set_xlabel("predicted", color=_SOFT)
    axes.set_ylabel("right", color=_SOFT)
    for spine in axes.spines.values():
        spine.set_visible(False)
    note = f"{len(labels):,} rows, {100 * share_right:.1f} % right"
    if cut:
        note += f"; the {size - 1} of {total} classes with most mistakes"
    axes.set_title(note, loc="left", fontsize=9.5, color=_SOFT)
    if title:
        figure.suptitle(title, x=0.015, ha="left", fontsize=14, fontweight="bold", color=_INK, parse_math=False)
    path = Path(file)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, format="png")
    return path


def confusion_counts(
    labels: Sequence[str], predictions: Sequence[str], order: Sequence[str] = ()
) -> tuple[list[str], np.ndarray]:
    """The classes, and C x C: how often each (column) was predicted where another (row) is right.

    >>> confusion_counts(["a", "a", "b"], ["a", "b", "b"])[1].tolist()
    [[1, 1], [0, 1]]
    """
    if len(labels) != len(predictions):
        raise ValueError(f"{len(predictions)} predictions for {len(labels)} labels")
    if not len(labels):
        raise ValueError("there are no rows to draw")
    found = {*map(str, labels), *map(str, predictions)}
    names = [*dict.fromkeys(map(str, order)), *sorted(found - set(map(str, order)), key=_natural)]
    place = {name: at for at, name in enumerate(names)}
    pairs = [place[str(right)] * len(names) + place[str(guess)] for right, guess in zip(labels, predictions, strict=True)]
    return names, np.bincount(pairs, minlength=len(names) ** 2).reshape(len(names), len(names))


def _natural(name: str) -> tuple[object, ...]:
    """Numbers by their value, also those inside of names: 9 before 10."""
    if re.fullmatch(r"[+-]?[0-9]+(\.[0-9]+)?([eE][+-]?[0-9]+)?", name):
        return 0, float(name), name
    return 1, [int(part) if at % 2 else part for at, part in enumerate(re.split(r"([0-9]+)", name))], name


def _fewer(names: list[str], counts_CC: np.ndarray, most: int) -> tuple[list[str], np.ndarray]:
    """The classes with most mistakes, and the others as one."""
    rows_C, columns_C = counts_CC.sum(axis=1), counts_CC.sum(axis=0)
    wrong_C = rows_C + columns_C - 2 * counts_CC.diagonal()
    kept = np.sort(np.lexsort((-rows_C, -wrong_C))[: most - 1])
    group_C = np.full(len(names), most - 1)
    group_C[kept] = np.arange(most - 1)
    fewer = np.zeros((most, most), counts_CC.dtype)
    np.add.at(fewer, (group_C[:, None], group_C[None, :]), counts_CC)
    return [names[at] for at in kept] + [_REST], fewer
