"""Residual connections against their formulas."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from weft.blocks import PostNorm, PreNorm


def test_residuals_equal_their_formulas():
    x, f = torch.randn(2, 3, 4), lambda y: y * y
    pre, post = PreNorm(4), PostNorm(4)
    torch.testing.assert_close(pre(x, f), x + f(nn.functional.layer_norm(x, (4,))))
    torch.testing.assert_close(post(x, f), nn.functional.layer_norm(x + f(x), (4,)))


@pytest.mark.parametrize("residual", [PreNorm, PostNorm])
def test_residual_dropout_applies_to_the_sub_layer_only(residual):
    x = torch.randn(1, 500, 4)
    layer = residual(4, norm=lambda dim: nn.Identity(), dropout=0.5)
    kept = (layer(x, lambda y: torch.full_like(y, 7.0)) - x).round().flatten()
    assert set(kept.tolist()) == {0.0, 14.0}
    assert 0.4 < (kept == 0).float().mean() < 0.6
