"""Feed-forward networks against their formulas."""

from __future__ import annotations

import torch
from torch import nn

from weft.blocks import GatedFeedForward, Linear, PositionwiseFeedForward, Tanh


def test_feed_forward_networks_equal_their_formulas():
    x = torch.randn(2, 3, 4)
    plain = PositionwiseFeedForward(4, hidden=6, activation=Tanh)
    torch.testing.assert_close(plain(x), plain.down(torch.tanh(plain.up(x))))
    gated = GatedFeedForward(4, hidden=6)
    torch.testing.assert_close(gated(x), gated.down(nn.functional.silu(gated.gate(x)) * gated.up(x)))
    assert PositionwiseFeedForward(4).up.out_features == 16
    assert all(isinstance(m, Linear) for m in (plain.up, plain.down, gated.gate, gated.up, gated.down))
