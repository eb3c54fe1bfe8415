"""ALiBi against the biases of transformers."""

from __future__ import annotations

import pytest
import torch

from weft.blocks import ALiBi, MultiHeadAttention, Transformer, TransformerLayer
from weft.core.masks import Causal
from weft.core.seq import Seq


@pytest.mark.parametrize("heads", [1, 2, 3, 4, 6, 7, 8, 12, 16, 20])
def test_alibi_equals_transformers(heads):
    modeling = pytest.importorskip("transformers.models.bloom.modeling_bloom")
    position = ALiBi(8, heads=heads)
    at = torch.arange(6)[None]
    table = modeling.build_alibi_tensor(torch.ones(1, 6), heads, torch.float32).view(heads, 1, 6)
    torch.testing.assert_close(torch.tensor(position.slopes), table[:, 0, 1])  # the bias at key 1 is the slope
    # transformers adds slope * s, which differs from -slope * (t - s) by a constant for each query: the softmax is the same.
    future = Causal().allow(at, at)
    weights = [b.masked_fill(~future, -torch.inf).softmax(-1) for b in (table.expand(-1, 6, -1), position.bias(at, at)[0])]
    torch.testing.assert_close(weights[1], weights[0])


def test_published_slopes_of_8_and_12_heads():
    """Press et al. 2022, section 3: 1/2, 1/4, ..., 1/256 for 8 heads; for 12, also those between them, from the first."""
    eight = [2.0**-h for h in range(1, 9)]
    assert ALiBi(8, heads=8).slopes == eight
    assert ALiBi(8, heads=12).slopes == [*eight, 2**-0.5, 2**-1.5, 2**-2.5, 2**-3.5]


def test_a_bias_of_a_part_of_the_positions_is_that_part_of_the_whole():
    position, at = ALiBi(8, heads=3), torch.arange(50)[None]
    prepared = position.at(at, None)
    assert prepared.bias(at[:, 10:20], at[:, 5:30]).equal(position.bias(at, at)[:, :, 10:20, 5:30])


def test_keys_after_the_query_are_penalized_by_their_distance_too():
    bias = ALiBi(8, heads=1).bias(torch.tensor([[1]]), torch.tensor([[0, 1, 2, 3]]))
    assert bias.flatten().tolist() == [-(2.0**-8), 0.0, -(2.0**-8), -(2.0**-7)]


def test_the_number_of_heads_must_fit_the_attention():
    def layer(dim, memory):
        return TransformerLayer(dim, memory, mixer=lambda size: MultiHeadAttention(size, heads=2))

    with pytest.raises(ValueError, match=r"position\.heads is 4, but self-attention has 2 heads"):
        Transformer(8, layer=layer, position=ALiBi)
    encoder = Transformer(8, layer=layer, position=lambda dim: ALiBi(dim, heads=2))
    assert encoder(Seq(torch.randn(2, 5, 8))).data.shape == (2, 5, 8)
