"""Activations against torch."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from weft.blocks import GELU, GELUTanh, Identity, LeakyReLU, ReLU, Sigmoid, SiLU, Tanh

PAIRS = [
    (ReLU, nn.ReLU()),
    (LeakyReLU, nn.LeakyReLU(0.2)),
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
