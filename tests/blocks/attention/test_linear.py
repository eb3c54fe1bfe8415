"""Linear attention against its definition, sums over all pairs of positions."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F

from weft.blocks import GELU, LinearAttention, ReLU, RotaryPosition, Transformer, TransformerLayer
from weft.blocks.attention.linear import CHUNK
from weft.blocks.attention.position import RelativePositionBias
from weft.core.masks import Causal, Full, Latest
from weft.core.seq import Seq

LENGTH = 2 * CHUNK + 7


def definition(module, x_BTD, causal, feature, position=None):
    """The formula with the T x T matrix of weights, in the precision of the input."""

    def split(z_BTD):
        return z_BTD.unflatten(-1, (module.splits, -1)).transpose(1, 2)

    query, key = (split(feature(f(x_BTD))) for f in (module.query, module.key))
    normalizer = query @ key.mT
    weight = normalizer
    if position is not None:
        at = torch.arange(x_BTD.shape[1])[None]
        weight = position.rotate(query, at) @ position.rotate(key, at).mT
    if causal:
        normalizer, weight = normalizer.tril(), weight.tril()
    out = weight @ split(module.value(x_BTD)) / normalizer.sum(-1, keepdim=True)
    return module.out(out.transpose(1, 2).flatten(2))


@pytest.mark.parametrize("length", [1, CHUNK, CHUNK + 1, LENGTH])
@pytest.mark.parametrize("mask", [Full(), Causal()])
def test_output_equals_the_quadratic_definition(length, mask):
    module = LinearAttention(8, heads=2).double()
    x_BTD = torch.randn(2, length, 8, dtype=torch.float64)
    want = definition(module, x_BTD, isinstance(mask, Causal), lambda x: F.elu(x) + 1)
    torch.testing.assert_close(module(Seq(x_BTD), mask).hidden.data, want)


@pytest.mark.parametrize("mask", [Full(), Causal()])
def test_a_rotary_position_rotates_the_numerator_only(mask):
    module, position = LinearAttention(8, heads=2).double(), RotaryPosition(8)
    x_BTD = torch.randn(2, LENGTH, 8, dtype=torch.float64)
    want = definition(module, x_BTD, isinstance(mask, Causal), lambda x: F.elu(x) + 1, position)
    torch.testing.assert_close(module(Seq(x_BTD), mask, position).hidden.data, want)


def test_gradients_equal_those_of_the_definition():
    module = LinearAttention(4, heads=1).double()
    x_BTD = torch.randn(1, LENGTH, 4, dtype=torch.float64)
    direction = torch.randn(1, LENGTH, 4, dtype=torch.float64)
    outputs = (module(Seq(x_BTD), Causal()).hidden.data, definition(module, x_BTD, True, lambda x: F.elu(x) + 1))
    got, want = (torch.autograd.grad((y * direction).sum(), list(module.parameters())) for y in outputs)
    torch.testing.assert_close(got, want)


@pytest.mark.parametrize("position", [None, RotaryPosition(8)])
def test_steps_after_a_long_prefill_equal_one_pass(position):
    module = LinearAttention(8, heads=2).double()
    x_BTD = torch.randn(2, LENGTH, 8, dtype=torch.float64)
    want = module(Seq(x_BTD), Causal(), position).hidden.data
    at_BT = torch.arange(LENGTH).expand(2, -1)
    prefill = module(Seq(x_BTD[:, :-2]), Causal(), position)
    state, got = prefill.state, [prefill.hidden.data]
    for t in (LENGTH - 2, LENGTH - 1):
        step = module(Seq(x_BTD[:, t : t + 1]).mark(position=at_BT[:, t : t + 1]), Latest(), position, state)
        state = step.state
        got.append(step.hidden.data)
    torch.testing.assert_close(torch.cat(got, 1), want)
    assert state.sum_BHKV.shape == (2, 2, 4, 5), "the state does not grow with the length"


def test_queries_without_keys_and_zero_features_give_finite_outputs_and_gradients():
    module = LinearAttention(4, heads=1, feature_map=ReLU)
    with torch.no_grad():
        module.query.bias.fill_(-100.0)
    x = Seq(torch.randn(2, 3, 4), torch.tensor([[False] * 3, [False, True, True]]))
    out = module(x, Causal()).hidden.data
    out.sum().backward()
    assert bool(out.isfinite().all()) and all(bool(p.grad.isfinite().all()) for p in module.parameters())


def test_a_feature_map_that_can_be_negative_is_refused():
    with pytest.raises(ValueError, match=r"feature_map is GELU, which can be negative; use elu-plus-one, relu or sigmoid"):
        LinearAttention(8, feature_map=GELU)


def test_a_bias_of_attention_scores_is_refused():
    def layer(dim, memory):
        return TransformerLayer(dim, memory, mixer=LinearAttention)

    encoder = Transformer(8, layer=layer, position=RelativePositionBias)
    with pytest.raises(ValueError, match="cannot add a bias to attention scores; use the position rotary, or null"):
        encoder(Seq(torch.randn(1, 3, 8)))
