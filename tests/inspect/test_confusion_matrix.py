from __future__ import annotations

import sys
import tracemalloc
from importlib import import_module

import numpy as np
import pytest

from weft.inspect.confusion_matrix import confusion_matrix, plot_confusion_matrix


def cells(figure):
    return {(int(t.get_position()[1]), int(t.get_position()[0])): t.get_text() for t in figure.axes[0].texts}


def test_counts_equal_those_of_scikit_learn():
    metrics = import_module("sklearn.metrics")
    rng = np.random.default_rng(0)
    labels, guess = (np.array(list("cabd"))[rng.integers(0, 4, 90)] for _ in range(2))
    names, counts = confusion_matrix(labels.tolist(), guess.tolist(), order=["d", "c"])
    assert names == ["d", "c", "a", "b"]
    assert np.array_equal(counts, metrics.confusion_matrix(labels, guess, labels=names))


def test_classes_are_sorted_with_numbers_by_value():
    found = ["10", "9", "x", "label 12", "label 3", "1e1", "-2"]
    assert confusion_matrix(found, found)[0] == ["-2", "9", "10", "1e1", "label 3", "label 12", "x"]


def test_plot_shows_counts_labels_and_accuracy(tmp_path, saved_figures):
    file = plot_confusion_matrix(list("aaab"), list("aabb"), tmp_path / "new" / "c.png", "$x_1$")
    assert file.read_bytes().startswith(b"\x89PNG")
    [figure] = saved_figures
    [axes] = figure.axes
    assert cells(figure) == {(0, 0): "2", (0, 1): "1", (1, 1): "1"}
    assert (axes.get_xlabel(), axes.get_ylabel()) == ("predicted", "true")
    assert [t.get_text() for t in axes.get_xticklabels()] == ["a", "b"]
    assert figure.get_suptitle() == "$x_1$" and axes.get_title(loc="left") == "4 examples, accuracy 75.0 %"


def test_color_is_the_fraction_of_the_row(tmp_path, saved_figures):
    plot_confusion_matrix(list("aaaab"), list("aaabb"), tmp_path / "c.png")
    image = np.asarray(saved_figures[0].axes[0].images[0].get_array())
    assert np.array_equal(image[1, 0], [1, 1, 1])
    light = image.sum(axis=2)
    assert light[1, 1] < light[0, 0] < light[0, 1] < light[1, 0]
    red, _, blue = image[0, 1]
    assert red > blue and image[0, 0][2] > image[0, 0][0]


def test_classes_with_few_errors_are_merged(tmp_path, saved_figures):
    rng = np.random.default_rng(1)
    right = rng.integers(0, 100, 4000)
    guess = np.where((right < 5) & (rng.random(4000) < 0.5), 7, right)
    plot_confusion_matrix([str(r) for r in right], [str(g) for g in guess], tmp_path / "c.png", max_classes=7)
    axes = saved_figures[0].axes[0]
    assert [t.get_text() for t in axes.get_yticklabels()] == ["0", "1", "2", "3", "4", "7", "others"]
    assert "the 6 of 100 classes with the most errors" in axes.get_title(loc="left")
    kept, sums = confusion_matrix([str(r) for r in right], [str(g) for g in guess], max_classes=7)
    assert kept[-1] == "others" and sums.sum() == 4000 and sums[-1, -1] == ((right > 4) & (right != 7)).sum()
    assert sums[5, 5] == (right == 7).sum() and sums[:5, 5].sum() == (right != guess).sum()


def test_memory_does_not_grow_with_the_square_of_the_classes(tmp_path):
    labels = [str(n) for n in range(200_000)]
    tracemalloc.start()
    names, counts = confusion_matrix(labels, ["0"] * len(labels), max_classes=20)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert len(names) == 20 and counts.sum() == len(labels) and counts[0, 0] == 1 and counts[-1, 0] == len(labels) - 19
    assert peak < 200e6


def test_invalid_arguments_are_rejected(tmp_path, monkeypatch):
    with pytest.raises(ValueError, match="got 1 predictions for 2 labels"):
        plot_confusion_matrix(["a", "b"], ["a"], tmp_path / "c.png")
    with pytest.raises(ValueError, match="got no labels"):
        plot_confusion_matrix([], [], tmp_path / "c.png")
    with pytest.raises(ValueError, match="max_classes is 1; must be at least 2"):
        plot_confusion_matrix(["a"], ["a"], tmp_path / "c.png", max_classes=1)
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(ValueError, match=r"matplotlib: pip install 'weft\[plots\]'"):
        plot_confusion_matrix(["a"], ["a"], tmp_path / "c.png")
