from __future__ import annotations

import sys
from importlib import import_module

import numpy as np
import pytest

from weft.inspect.confusion import _fewer, confusion, confusion_counts


@pytest.fixture
def drawn(monkeypatch):
    """The figures that were saved."""
    metric_values = []
    from matplotlib.figure import Figure

    save = Figure.savefig
    monkeypatch.setattr(Figure, "savefig", lambda self, *a, **k: (metric_values.append(self), save(self, *a, **k))[1])
    return metric_values


def cells(figure):
    return {(int(t.get_position()[1]), int(t.get_position()[0])): t.get_text() for t in figure.axes[0].texts}


def test_counts_equal_those_of_scikit_learn():
    metrics = import_module("sklearn.metrics")
    rng = np.random.default_rng(0)
    right, guess = (np.array(list("cabd"))[rng.integers(0, 4, 90)] for _ in range(2))
    names, counts = confusion_counts(right.tolist(), guess.tolist(), order=["d", "c"])
    assert names == ["d", "c", "a", "b"]
    assert np.array_equal(counts, metrics.confusion_matrix(right, guess, labels=names))


def test_classes_are_in_the_order_people_expect():
    found = ["10", "9", "x", "label 12", "label 3", "1e1", "-2"]
    assert confusion_counts(found, found)[0] == ["-2", "9", "10", "1e1", "label 3", "label 12", "x"]


def test_picture(tmp_path, drawn):
    file = confusion(list("aaab"), list("aabb"), tmp_path / "new" / "c.png", "$x_1$")
    assert file.read_bytes().startswith(b"\x89PNG")
    [figure] = drawn
    [axes] = figure.axes
    assert cells(figure) == {(0, 0): "2", (0, 1): "1", (1, 1): "1"}
    assert (axes.get_xlabel(), axes.get_ylabel()) == ("predicted", "right")
    assert [t.get_text() for t in axes.get_xticklabels()] == ["a", "b"]
    assert figure.get_suptitle() == "$x_1$" and axes.get_title(loc="left") == "4 rows, 75.0 % right"


def test_colour_is_the_share_of_the_row(tmp_path, drawn):
    confusion(list("aaaab"), list("aaabb"), tmp_path / "c.png")
    image = np.asarray(drawn[0].axes[0].images[0].get_array())
    assert np.array_equal(image[1, 0], [1, 1, 1])
    light = image.sum(axis=2)
    assert light[1, 1] < light[0, 0] < light[0, 1] < light[1, 0]
    red, _, blue = image[0, 1]
    assert red > blue and image[0, 0][2] > image[0, 0][0]


def test_many_classes(tmp_path, drawn):
    rng = np.random.default_rng(1)
    right = rng.integers(0, 100, 4000)
    guess = np.where((right < 5) & (rng.random(4000) < 0.5), 7, right)
    confusion([str(r) for r in right], [str(g) for g in guess], tmp_path / "c.png", most=7)
    axes = drawn[0].axes[0]
    assert [t.get_text() for t in axes.get_yticklabels()] == ["0", "1", "2", "3", "4", "7", "others"]
    assert "the 6 of 100 classes with most mistakes" in axes.get_title(loc="left")
    names, counts = confusion_counts([str(r) for r in right], [str(g) for g in guess])
    fewer, sums = _fewer(names, counts, 7)
    assert fewer[-1] == "others" and sums.sum() == 4000 and sums[-1, -1] == ((right > 4) & (right != 7)).sum()
    assert sums[5, 5] == (right == 7).sum() and sums[:5, 5].sum() == (right != guess).sum()


def test_errors(tmp_path, monkeypatch):
    with pytest.raises(ValueError, match="1 predictions for 2 labels"):
        confusion(["a", "b"], ["a"], tmp_path / "c.png")
    with pytest.raises(ValueError, match="no rows"):
        confusion([], [], tmp_path / "c.png")
    with pytest.raises(ValueError, match="most is 1"):
        confusion(["a"], ["a"], tmp_path / "c.png", most=1)
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(ValueError, match=r"matplotlib: pip install 'weft\[plots\]'"):
        confusion(["a"], ["a"], tmp_path / "c.png")
