from __future__ import annotations

import math

import pytest
import torch
from torch import nn

from weft.blocks.attention.multihead import MultiHeadAttention
from weft.core.masks import Causal, Full
from weft.core.seq import Seq
from weft.inspect import attention


class Two(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = MultiHeadAttention(8, 8, heads=2)
        self.deeper = nn.ModuleList([MultiHeadAttention(8, 8, heads=4)])

    def forward(self, x: Seq, mask) -> Seq:
        x = self.first(x, self.first.project(x), mask)
        return self.deeper[0](x, self.deeper[0].project(x), mask)


@pytest.fixture
def model() -> Two:
    torch.manual_seed(0)
    return Two()


X = Seq(torch.randn(3, 5, 8, generator=torch.Generator().manual_seed(1)), torch.arange(5) < torch.tensor([[5], [3], [4]]))


def test_maps_are_the_attention_weights_by_module_name(model):
    with attention(model) as maps:
        model(X, Causal())
        model(X, Full())
    assert {name: [tuple(m.shape) for m in found] for name, found in maps.items()} == {
        "first": [(3, 2, 5, 5)] * 2,
        "deeper.0": [(3, 4, 5, 5)] * 2,
    }
    query, key = ((f(X.data)).unflatten(-1, (2, 4)).transpose(1, 2) for f in (model.first.query, model.first.key))
    score = query @ key.transpose(2, 3) / math.sqrt(4)
    allowed = X.real()[:, None, None] & torch.ones(5, 5, dtype=torch.bool).tril()
    expected = score.masked_fill(~allowed, -torch.inf).softmax(-1)
    real = X.real()[:, None, :, None].expand_as(expected)
    assert torch.allclose(maps["first"][0][real], expected[real], atol=1e-6)
    assert not maps["first"][0].requires_grad


def test_recording_does_not_change_the_output(model):
    plain = model(X, Causal()).data
    with attention(model) as maps:
        recorded = model(X, Causal()).data
    assert torch.allclose(plain[X.real()], recorded[X.real()], atol=1e-6)
    model(X, Causal())
    assert all(len(found) == 1 for found in maps.values())


def test_only_this_model_is_recorded(model):
    other = Two()
    with attention(model) as maps, attention(other.first) as inner:
        other(X, Full())
    assert maps == {} and list(inner) == [""]
