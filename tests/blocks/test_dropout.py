"""Dropout from random bits: distribution, mean, gradient, and reproducibility from the seed of torch."""

from __future__ import annotations

import math

import pytest
import torch
from torch import nn
from torch._subclasses.fake_tensor import FakeTensorMode

from weft.blocks import MultiHeadAttention
from weft.blocks.dropout import LEVELS, DropoutLayer, dropout
from weft.core.masks import Full
from weft.core.seq import Seq


@pytest.mark.parametrize("rate", [0.1, 0.3, 0.5, 0.9])
def test_dropped_fraction_matches_the_rate(rate):
    n = 400_003  # not a multiple of four, the number of elements per random integer
    dropped = int((dropout(torch.ones(n), rate) == 0).sum())
    assert abs(dropped - n * rate) < 5 * math.sqrt(n * rate * (1 - rate))


def test_mask_elements_are_independent():
    kept = (dropout(torch.ones(100_000, 4), 0.3) != 0).double()
    fraction_kept = kept.mean(0)
    assert (fraction_kept - 0.7).abs().max() < 5 * math.sqrt(0.21 / 100_000)
    apart = torch.corrcoef(kept.T) - torch.eye(4)
    following = torch.corrcoef(torch.stack([kept.flatten()[:-1], kept.flatten()[1:]]))[0, 1]
    assert max(apart.abs().max().item(), abs(following.item())) < 5 / math.sqrt(100_000)


@pytest.mark.parametrize("rate", [0.1, 1 / 3, 0.7])
def test_kept_elements_are_scaled_to_preserve_the_mean(rate):
    y = dropout(torch.ones(1000, dtype=torch.float64), rate)
    rounded = round(rate * LEVELS) / LEVELS
    assert abs(rounded - rate) <= 0.5 / LEVELS
    assert set(y.tolist()) == {0.0, 1 / (1 - rounded)}


def test_gradient_is_the_scaled_mask():
    x = torch.randn(40, 50, requires_grad=True)
    y = dropout(x, 0.25)
    (gradient,) = torch.autograd.grad(y.sum(), x)
    assert set(gradient.unique().tolist()) == {0.0, torch.tensor(1 / 0.75).item()}
    torch.testing.assert_close(y, x * gradient)


def test_mask_depends_on_the_seed_and_not_on_the_number_of_threads():
    x, threads = torch.randn(333, 77), torch.get_num_threads()
    torch.manual_seed(5)
    one, two = dropout(x, 0.2), dropout(x, 0.2)
    torch.manual_seed(5)
    try:
        torch.set_num_threads(2)
        again = dropout(x, 0.2)
    finally:
        torch.set_num_threads(threads)
    assert torch.equal(one, again)
    assert not torch.equal(one, two)
    torch.manual_seed(6)
    assert not torch.equal(one, dropout(x, 0.2))


def test_no_dropout_in_eval_mode_or_at_rate_zero():
    x, before = torch.randn(5, 6), torch.get_rng_state()
    assert DropoutLayer(0.5).eval()(x) is x
    assert DropoutLayer(0.0)(x) is x
    assert torch.equal(torch.get_rng_state(), before)
    assert DropoutLayer(0.5)(torch.zeros(0, 3)).shape == (0, 3)


def test_input_is_not_modified_and_output_can_be_modified_in_place():
    x = torch.randn(30, 40, requires_grad=True)
    copy = x.detach().clone()
    y = dropout(x, 0.5)
    mask = (y != 0).float() * 2
    y.add_(1.0).sum().backward()
    assert torch.equal(x.detach(), copy)
    assert x.grad is not None and torch.equal(x.grad, mask)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float64])
def test_dtype_is_preserved_and_the_scale_is_not_rounded(dtype):
    x = torch.linspace(1, 9, 512, dtype=dtype, requires_grad=True)
    y = dropout(x, 0.1)
    assert y.dtype == dtype
    y.sum().backward()
    assert x.grad is not None and x.grad.dtype == dtype
    scale = LEVELS / (LEVELS - round(0.1 * LEVELS))
    kept = y != 0
    torch.testing.assert_close(y[kept], (x.double() * scale).to(dtype)[kept], rtol=1e-7 if dtype == torch.float64 else 0, atol=0)


def test_non_contiguous_input():
    x = torch.randn(6, 8, 10).transpose(0, 2)
    y = dropout(x, 0.5)
    assert y.shape == x.shape
    torch.testing.assert_close(y[y != 0], 2 * x[y != 0])


def test_meta_and_fake_tensors():
    assert DropoutLayer(0.1)(torch.empty(3, 4, device="meta")).shape == (3, 4)
    with FakeTensorMode():
        assert DropoutLayer(0.1)(torch.empty(3, 4)).shape == (3, 4)


def test_compiles_without_graph_breaks():
    drop = torch.compile(nn.Sequential(DropoutLayer(0.5), nn.Identity()), backend="aot_eager", fullgraph=True)
    x = torch.ones(1000, requires_grad=True)
    y = drop(x)
    assert set(y.unique().tolist()) == {0.0, 2.0}
    y.sum().backward()
    assert x.grad is not None and torch.equal(x.grad, y)


def test_a_rate_that_rounds_to_one_still_keeps_elements():
    y = dropout(torch.ones(2_000_000), 0.999999)
    assert set(y.unique().tolist()) == {0.0, float(LEVELS)}


def test_attention_dropout_only_in_training():
    torch.manual_seed(0)
    attention, x = MultiHeadAttention(8, 8, heads=2, dropout=0.5), Seq(torch.randn(1, 5, 8).expand(4000, -1, -1))
    plain = attention.eval()(x, attention.project(x), Full()).data
    dropped = attention.train()(x, attention.project(x), Full()).data
    assert not torch.equal(dropped[0], dropped[1])
    torch.testing.assert_close(dropped.mean(0), plain[0], rtol=0, atol=0.03)


def test_attention_without_allowed_keys_gives_zeros_in_training():
    attention = MultiHeadAttention(8, 8, heads=2, bias=False, dropout=0.5)
    x = Seq(torch.randn(2, 3, 8), torch.tensor([[True, True, False], [False, False, False]]))
    y = attention(x, attention.project(x), Full()).data
    assert torch.equal(y[1], torch.zeros(3, 8))
    assert y.isfinite().all() and not torch.equal(y[0], torch.zeros(3, 8))


def test_functional_form_equals_the_module():
    x = torch.randn(9, 9)
    torch.manual_seed(1)
    one = DropoutLayer(0.4)(x)
    torch.manual_seed(1)
    assert torch.equal(one, dropout(x, 0.4))
    assert isinstance(DropoutLayer(0.4), nn.Dropout)  # code that searches for dropout modules finds it
