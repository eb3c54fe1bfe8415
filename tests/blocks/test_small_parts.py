"""Activations, norms, feed-forward maps and residuals against torch and their formulas."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from weft.blocks import (
    GELU,
    GatedFeedForward,
    GELUTanh,
    Identity,
    LayerNorm,
    Linear,
    PositionwiseFeedForward,
    PostNorm,
    PreNorm,
    ReLU,
    RMSNorm,
    Sigmoid,
    SiLU,
    Tanh,
)

PAIRS = [
    (ReLU, nn.ReLU()),
    (GELU, nn.GELU()),
    (GELUTanh, nn.GELU(approximate="tanh")),
    (SiLU, nn.SiLU()),
    (Tanh, nn.Tanh()),
    (Sigmoid, nn.Sigmoid()),
    (Identity, nn.Identity()),
]


@pytest.mark.parametrize(("ours", "torchs"), PAIRS, ids=lambda v: getattr(v, "__name__", ""))
def test_activation_equals_torch(ours, torchs):
    x = torch.linspace(-4, 4, 101)
    torch.testing.assert_close(ours()(x), torchs(x))


def test_norms_equal_torch():
    x = torch.randn(2, 3, 8) * 3 + 1
    ours, theirs = LayerNorm(8, eps=1e-3), nn.LayerNorm(8, eps=1e-3)
    rms, their_rms = RMSNorm(8, eps=1e-3), nn.RMSNorm(8, eps=1e-3)
    for mine, reference in ((ours, theirs), (rms, their_rms)):
        for parameter in reference.parameters():
            nn.init.normal_(parameter)
        mine.load_state_dict(reference.state_dict())
        torch.testing.assert_close(mine(x), reference(x))


def test_feed_forward_formulas():
    x = torch.randn(2, 3, 4)
    plain = PositionwiseFeedForward(4, hidden=6, activation=Tanh)
    torch.testing.assert_close(plain(x), plain.down(torch.tanh(plain.up(x))))
    gated = GatedFeedForward(4, hidden=6)
    torch.testing.assert_close(gated(x), gated.down(nn.functional.silu(gated.gate(x)) * gated.up(x)))
    assert PositionwiseFeedForward(4).up.out_features == 16
    assert all(isinstance(m, Linear) for m in (plain.up, plain.down, gated.gate, gated.up, gated.down))


def test_residual_formulas():
    x, f = torch.randn(2, 3, 4), lambda y: y * y
    pre, post = PreNorm(4), PostNorm(4)
    torch.testing.assert_close(pre(x, f), x + f(nn.functional.layer_norm(x, (4,))))
    torch.testing.assert_close(post(x, f), nn.functional.layer_norm(x + f(x), (4,)))


@pytest.mark.parametrize("residual", [PreNorm, PostNorm])
def test_residual_drops_only_the_sub_layer(residual):
    x = torch.randn(1, 500, 4)
    layer = residual(4, norm=lambda dim: nn.Identity(), dropout=0.5)
    kept = (layer(x, lambda y: torch.full_like(y, 7.0)) - x).round().flatten()
    assert set(kept.tolist()) == {0.0, 14.0}
    assert 0.4 < (kept == 0).float().mean() < 0.6
