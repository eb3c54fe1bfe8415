from __future__ import annotations

import sys
from importlib import import_module

import numpy as np
import pytest

from weft.inspect.latent_space import farthest_points, plot_latent_space, principal_components


def codes(rows=80, seed=0):
    return np.random.default_rng(seed).normal(size=(rows, 5)) * [5, 3, 1, 1, 0.1] + 7


def test_components_equal_those_of_scikit_learn():
    z = codes()
    components, other = principal_components(z), import_module("sklearn.decomposition").PCA(2)
    np.testing.assert_allclose(np.abs(components.xy_N2), np.abs(other.fit_transform(z)), atol=1e-9)
    np.testing.assert_allclose(components.explained_variance_ratio, other.explained_variance_ratio_)


def test_components_do_not_depend_on_the_order_of_the_codes():
    z = codes()
    order = np.random.default_rng(1).permutation(len(z))
    np.testing.assert_allclose(principal_components(z[order]).xy_N2, principal_components(z).xy_N2[order], atol=1e-9)


def test_codes_on_a_line_and_in_one_point_have_components():
    line = principal_components(np.array([[1.0], [2.0], [4.0]]))
    assert line.explained_variance_ratio.tolist() == [1, 0] and np.ptp(line.xy_N2[:, 0]) == 3 and not line.xy_N2[:, 1].any()
    assert principal_components(np.ones((3, 4))).explained_variance_ratio.tolist() == [0, 0]


def test_texts_do_not_overlap_and_stay_inside_the_axes(tmp_path, saved_figures):
    from matplotlib.text import Text

    z = codes(300)
    texts = [f"a text that has the number {row}, and is long" for row in range(len(z))]
    labels = ["good" if row % 3 else "bad" for row in range(len(z))]
    components = plot_latent_space(z, tmp_path / "new" / "map.png", labels=labels, texts=texts, title="$x_1$")
    assert (tmp_path / "new" / "map.png").read_bytes().startswith(b"\x89PNG")
    [figure] = saved_figures
    [axes] = figure.axes
    assert (
        f"{components.explained_variance_ratio[0]:.1%} of the variance" in axes.get_xlabel()
        and f"{components.explained_variance_ratio[1]:.1%}" in axes.get_ylabel()
    )
    assert [t.get_text() for t in figure.legends[0].get_texts()] == ["good", "bad"] and figure.get_suptitle() == "$x_1$"
    assert sum(len(dots.get_offsets()) for dots in axes.collections) == 300
    renderer = figure.canvas.get_renderer()
    boxes, inside = [Text.get_window_extent(note, renderer) for note in axes.texts], axes.get_window_extent(renderer)
    assert 8 <= len(boxes) <= 14 and all(len(note.get_text()) <= 36 for note in axes.texts)
    assert not any(a.overlaps(b) for i, a in enumerate(boxes) for b in boxes[:i])
    assert all(inside.x0 <= box.x0 and box.x1 <= inside.x1 and inside.y0 <= box.y0 and box.y1 <= inside.y1 for box in boxes)


def test_rare_classes_are_merged_and_classes_are_optional(tmp_path, saved_figures):
    z = codes(60)
    plot_latent_space(
        z, tmp_path / "a.png", labels=[None if row % 4 == 0 else f"{row % 20:02}" for row in range(60)], texts=["\u202ea"] * 60
    )
    plot_latent_space(z, tmp_path / "b.png", annotate=0, texts=["a"] * 60)
    many, one = saved_figures
    assert len(many.legends[0].get_texts()) == 9 and many.legends[0].get_texts()[-1].get_text() == "others"
    assert {note.get_text() for note in many.axes[0].texts} == {"U+202Ea"}
    assert not one.legends and not one.axes[0].texts


def test_farthest_points_are_far_apart():
    xy = np.array([[0.0, 0], [0.1, 0], [5, 0], [10, 0], [0, 10]])
    assert set(farthest_points(xy, 3)) == {0, 3, 4} and len(farthest_points(np.zeros((4, 2)), 3)) == 1


def test_invalid_arguments_are_rejected(tmp_path, monkeypatch):
    for z, message in ((codes(1), "at least two codes"), (np.full((3, 2), np.inf), "not finite")):
        with pytest.raises(ValueError, match=message):
            plot_latent_space(z, tmp_path / "x.png")
    for name in ("labels", "texts"):
        with pytest.raises(ValueError, match=f"got 1 {name} for 9 latent codes"):
            plot_latent_space(codes(9), tmp_path / "x.png", **{name: ["a"]})  # pyright: ignore[reportArgumentType]
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(ValueError, match="matplotlib"):
        plot_latent_space(codes(9), tmp_path / "x.png")
