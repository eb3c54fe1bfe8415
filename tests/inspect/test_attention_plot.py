"""Attention weights and class probabilities as an image."""

from __future__ import annotations

import numpy as np

from weft.inspect.attention_page import AttentionExample, AttentionMap
from weft.inspect.attention_plot import plot_attention
from weft.inspect.inspection import SELF


def test_image_shows_the_attention_weights(tmp_path, saved_figures, recwarn):
    weight = np.random.default_rng(0).dirichlet(np.ones(3), (2, 4))
    tokens = ["$x$", "\u202eb", "漢", "long" * 9]
    cross = AttentionExample(
        tokens[:3], tokens, {"other": AttentionMap(weight[:, :3], tokens[:3], tokens[:3], SELF), "m": weight}
    )
    plot_attention(cross, tmp_path / "a.png", "$t$")
    layers = {f"l{n}": AttentionMap(weight, tokens, tokens[:3], SELF) for n in range(3)}
    plot_attention(AttentionExample([], [], layers), tmp_path / "b.png")
    plot_attention(AttentionExample([], [], classes=[("good", 0.75), ("bad", 0.25)]), tmp_path / "c.png")
    [axes] = saved_figures[0].axes
    assert np.allclose(axes.images[0].get_array(), weight.mean(0))
    assert [label.get_text() for label in axes.get_yticklabels()] == ["$x$", "U+202Eb", "漢", "longlonglongl…"]
    assert len(saved_figures[1].axes) == 6
    assert all(np.allclose(a.images[0].get_array(), weight[n % 2]) for n, a in enumerate(saved_figures[1].axes))
    assert [patch.get_width() for patch in saved_figures[2].axes[0].patches] == [0.75, 0.25]
    assert not [w for w in recwarn if "lyph" in str(w.message)]
