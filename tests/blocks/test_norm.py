"""Normalization against torch."""

from __future__ import annotations

import torch
from torch import nn

from weft.blocks import BatchNorm, LayerNorm, RMSNorm, UnitNorm


def test_norms_equal_torch():
    x = torch.randn(2, 3, 8) * 3 + 1
    ours, theirs = LayerNorm(8, eps=1e-3), nn.LayerNorm(8, eps=1e-3)
    rms, their_rms = RMSNorm(8, eps=1e-3), nn.RMSNorm(8, eps=1e-3)
    for mine, reference in ((ours, theirs), (rms, their_rms)):
        for parameter in reference.parameters():
            nn.init.normal_(parameter)
        mine.load_state_dict(reference.state_dict())
        torch.testing.assert_close(mine(x), reference(x))


def test_batch_norm_of_one_row_uses_running_statistics_and_does_not_update_them():
    norm = BatchNorm(4)
    for _ in range(5):
        norm(3 * torch.randn(9, 4) + 1)
    before = norm.running_mean.clone(), norm.running_var.clone()
    row = torch.randn(1, 4)
    assert torch.equal(norm(row), norm.eval()(row))
    assert torch.equal(norm.running_mean, before[0]) and torch.equal(norm.running_var, before[1])
    norm.train()(torch.randn(2, 4))
    assert not torch.equal(norm.running_mean, before[0])


def test_unit_norm_gives_vectors_of_norm_one():
    x = torch.randn(5, 6)
    y = UnitNorm(6)(x)
    torch.testing.assert_close(y.norm(dim=-1), torch.ones(5))
    torch.testing.assert_close(nn.functional.cosine_similarity(x, y), torch.ones(5))
    assert torch.equal(UnitNorm(6)(torch.zeros(1, 6)), torch.zeros(1, 6))
