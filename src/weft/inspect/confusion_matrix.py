"""Confusion matrix of a classifier, as counts and as a plot.

Shape suffixes: C classes.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from weft.inspect.plotting import (
    BLUE,
    GRID,
    MUTED,
    ORANGE,
    TEXT,
    compact_count,
    new_figure,
    printable,
    remove_spines,
    save_png,
    set_title,
)

_OTHERS = "others"


def confusion_matrix(
    labels: Sequence[str], predictions: Sequence[str], order: Sequence[str] = (), max_classes: int | None = None
) -> tuple[list[str], np.ndarray]:
    """Return the class names and the C x C counts: rows are the gold labels, columns the predictions.

    Args:
        labels: Gold label of each example.
        predictions: Predicted class of each example.
        order: The first classes in order; the others follow sorted, numbers by value.
        max_classes: Of more classes, those with the most errors are kept, ties broken by frequency, and the others are merged
            into a last one. None = all are kept.

    >>> confusion_matrix(["a", "a", "b"], ["a", "b", "b"])[1].tolist()
    [[1, 1], [0, 1]]
    """
    if len(labels) != len(predictions):
        raise ValueError(f"got {len(predictions)} predictions for {len(labels)} labels; pass one prediction per label")
    if not len(labels):
        raise ValueError("got no labels; a confusion matrix needs at least one example")
    found = {*map(str, labels), *map(str, predictions)}
    names = [*dict.fromkeys(map(str, order)), *sorted(found - set(map(str, order)), key=_natural_order)]
    index = {name: at for at, name in enumerate(names)}
    label_N, guess_N = (np.array([index[str(one)] for one in given], np.int64) for given in (labels, predictions))
    if max_classes is not None and len(names) > max_classes:
        names, group_C = _merge_classes(names, label_N, guess_N, max_classes)
        label_N, guess_N = group_C[label_N], group_C[guess_N]
    size = len(names)
    return names, np.bincount(label_N * size + guess_N, minlength=size**2).reshape(size, size)


def _merge_classes(names: list[str], label_N: np.ndarray, guess_N: np.ndarray, max_classes: int) -> tuple[list[str], np.ndarray]:
    """The names of the classes that are kept, and the new index of each class; no C x C counts, for many classes."""
    rows_C, columns_C, right_C = (
        np.bincount(found, minlength=len(names)) for found in (label_N, guess_N, label_N[label_N == guess_N])
    )
    kept = np.sort(np.lexsort((-rows_C, -(rows_C + columns_C - 2 * right_C)))[: max_classes - 1])
    group_C = np.full(len(names), max_classes - 1)
    group_C[kept] = np.arange(max_classes - 1)
    return [names[at] for at in kept] + [_OTHERS], group_C


def plot_confusion_matrix(
    labels: Sequence[str],
    predictions: Sequence[str],
    file: str | Path,
    title: str = "",
    order: Sequence[str] = (),
    max_classes: int = 20,
) -> Path:
    """Plot the confusion matrix to a PNG file: rows are the gold labels, columns the predictions.

    A cell shows its count. Its color shows the fraction of its row: blue on the diagonal, orange for errors.

    Args:
        labels: Gold label of each example.
        predictions: Predicted class of each example.
        file: The file to write.
        title: Title of the plot.
        order: The first classes in order; the others follow sorted, numbers by value.
        max_classes: Maximum number of classes. Of more, those with the most errors are shown and the others are merged.
    """
    if max_classes < 2:
        raise ValueError(f"max_classes is {max_classes}; must be at least 2")
    names, counts_CC = confusion_matrix(labels, predictions, order, max_classes)
    total = len({*map(str, order), *map(str, labels), *map(str, predictions)})
    accuracy = np.mean([str(label) == str(guess) for label, guess in zip(labels, predictions, strict=True)])
    note = f"{len(labels):,} examples, accuracy {100 * accuracy:.1f} %"
    if merged := total > max_classes:
        note += f"; the {max_classes - 1} of {total} classes with the most errors"
    size = len(names)
    cell = float(np.clip(6.5 / size, 0.46, 1.15))
    shown = [printable(name, 18) for name in names]
    longest = 0.085 * max(map(len, shown))
    figure = new_figure((max(4.6, cell * size + 1.3 + longest), cell * size + 1.6 + longest), padding=(0.14, 0.12))
    axes = figure.add_subplot()
    _draw_cells(axes, counts_CC, cell, merged=merged)
    _label_classes(axes, shown, turned=longest > cell)
    axes.set_title(note, loc="left", fontsize=9.5, color=MUTED)
    set_title(figure, title)
    return save_png(figure, file)


def _draw_cells(axes: Any, counts_CC: np.ndarray, cell: float, *, merged: bool) -> None:
    """Color each cell by its fraction of the row, and write its count; ``cell`` is its size in inches."""
    from matplotlib.colors import to_rgb

    fraction_CC = counts_CC / np.maximum(counts_CC.sum(axis=1, keepdims=True), 1)
    base = np.where(np.eye(len(counts_CC), dtype=bool)[..., None], to_rgb(BLUE), to_rgb(ORANGE))
    if merged:  # the merged classes with each other: correct and incorrect predictions cannot be told apart
        base[-1, -1] = to_rgb(MUTED)
    # small fractions are slightly colored already, so that rare confusions are visible
    depth = np.where(counts_CC > 0, 0.06 + 0.94 * fraction_CC**0.7, 0)[..., None]
    axes.imshow(1 - depth * (1 - base), interpolation="nearest", aspect="equal")
    for row, column in np.argwhere(counts_CC > 0):
        text = compact_count(int(counts_CC[row, column]))
        color = "white" if depth[row, column, 0] > 0.65 else TEXT
        points = min(10.0, 46 * cell / max(len(text), 3))
        axes.text(column, row, text, ha="center", va="center", fontsize=points, color=color, parse_math=False)


def _label_classes(axes: Any, names: Sequence[str], *, turned: bool) -> None:
    """Label rows and columns with the class names, on the x axis turned by 45 degrees if they are long."""
    size = len(names)
    axes.set_xticks(range(size), names, parse_math=False)
    axes.set_yticks(range(size), names, parse_math=False)
    if turned:
        axes.tick_params(axis="x", labelrotation=45)
        for text in axes.get_xticklabels():
            text.set(ha="right", rotation_mode="anchor")
    axes.set_xticks(np.arange(-0.5, size), minor=True)
    axes.set_yticks(np.arange(-0.5, size), minor=True)
    axes.grid(which="minor", color=GRID, linewidth=0.8)
    axes.tick_params(which="both", length=0, labelcolor=MUTED, labelsize=9)
    axes.set_xlabel("predicted", color=MUTED)
    axes.set_ylabel("true", color=MUTED)
    remove_spines(axes)


def _natural_order(name: str) -> tuple[object, ...]:
    """Sort key by the value of numbers, also inside of names: 9 before 10."""
    if re.fullmatch(r"[+-]?[0-9]+(\.[0-9]+)?([eE][+-]?[0-9]+)?", name):
        return 0, float(name), name
    return 1, [int(part) if at % 2 else part for at, part in enumerate(re.split(r"([0-9]+)", name))], name
