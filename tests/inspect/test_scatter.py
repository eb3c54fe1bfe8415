from __future__ import annotations

import sys
from importlib import import_module

import numpy as np
import pytest

from weft.inspect.scatter import latent_picture, principal_plane, spread


@pytest.fixture
def drawn(monkeypatch):
    """The figures that were saved."""
    metric_values = []
    from matplotlib.figure import Figure

    save = Figure.savefig
    monkeypatch.setattr(Figure, "savefig", lambda self, *a, **k: (metric_values.append(self), save(self, *a, **k))[1])
    return metric_values


def some(rows=80, seed=0):
    return np.random.default_rng(seed).normal(size=(rows, 5)) * [5, 3, 1, 1, 0.1] + 7


def test_the_plane_is_that_of_scikit_learn():
    z = some()
    plane, other = principal_plane(z), import_module("sklearn.decomposition").PCA(2)
    np.testing.assert_allclose(np.abs(plane.xy_N2), np.abs(other.fit_transform(z)), atol=1e-9)
    np.testing.assert_allclose(plane.share_2, other.explained_variance_ratio_)


def test_the_plane_does_not_depend_on_the_order_of_rows():
    z = some()
    order = np.random.default_rng(1).permutation(len(z))
    np.testing.assert_allclose(principal_plane(z[order]).xy_N2, principal_plane(z).xy_N2[order], atol=1e-9)


def test_a_line_and_a_point_are_planes_too():
    line = principal_plane(np.array([[1.0], [2.0], [4.0]]))
    assert line.share_2.tolist() == [1, 0] and np.ptp(line.xy_N2[:, 0]) == 3 and not line.xy_N2[:, 1].any()
    assert principal_plane(np.ones((3, 4))).share_2.tolist() == [0, 0]


def test_texts_stand_apart_inside_the_picture(tmp_path, drawn):
    from matplotlib.text import Text

    z = some(300)
    texts = [f"a text that has the number {row}, and is long" for row in range(len(z))]
    labels = ["good" if row % 3 else "bad" for row in range(len(z))]
    plane = latent_picture(z, tmp_path / "new" / "map.png", labels=labels, texts=texts, title="$x_1$")
    assert (tmp_path / "new" / "map.png").read_bytes().startswith(b"\x89PNG")
    [figure] = drawn
    [axes] = figure.axes
    assert f"{plane.share_2[0]:.1%} of the variance" in axes.get_xlabel() and f"{plane.share_2[1]:.1%}" in axes.get_ylabel()
    assert [t.get_text() for t in figure.legends[0].get_texts()] == ["good", "bad"] and figure.get_suptitle() == "$x_1$"
    assert sum(len(dots.get_offsets()) for dots in axes.collections) == 300
    renderer = figure.canvas.get_renderer()
    boxes, inside = [Text.get_window_extent(note, renderer) for note in axes.texts], axes.get_window_extent(renderer)
    assert 8 <= len(boxes) <= 14 and all(len(note.get_text()) <= 36 for note in axes.texts)
    assert not any(a.overlaps(b) for i, a in enumerate(boxes) for b in boxes[:i])
    assert all(inside.x0 <= box.x0 and box.x1 <= inside.x1 and inside.y0 <= box.y0 and box.y1 <= inside.y1 for box in boxes)


def test_many_classes_and_none(tmp_path, drawn):
    z = some(60)
    latent_picture(
        z, tmp_path / "a.png", labels=[None if row % 4 == 0 else f"{row % 20:02}" for row in range(60)], texts=["\u202ea"] * 60
    )
    latent_picture(z, tmp_path / "b.png", annotate=0, texts=["a"] * 60)
    many, one = drawn
    assert len(many.legends[0].get_texts()) == 9 and many.legends[0].get_texts()[-1].get_text() == "others"
    assert {note.get_text() for note in many.axes[0].texts} == {"U+202Ea"}
    assert not one.legends and not one.axes[0].texts


def test_chosen_rows_are_far_apart():
    xy = np.array([[0.0, 0], [0.1, 0], [5, 0], [10, 0], [0, 10]])
    assert set(spread(xy, 3)) == {0, 3, 4} and len(spread(np.zeros((4, 2)), 3)) == 1


def test_mistakes(tmp_path, monkeypatch):
    for z, said in ((some(1), "two places or more, but there are 1"), (np.full((3, 2), np.inf), "not finite")):
        with pytest.raises(ValueError, match=said):
            latent_picture(z, tmp_path / "x.png")
    for name in ("labels", "texts"):
        with pytest.raises(ValueError, match=f"1 {name} for 9 places"):
            latent_picture(some(9), tmp_path / "x.png", **{name: ["a"]})  # pyright: ignore[reportArgumentType]
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(ValueError, match="matplotlib"):
        latent_picture(some(9), tmp_path / "x.png")
