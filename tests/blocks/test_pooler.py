"""Poolers against one row at a time."""

from __future__ import annotations

from functools import partial

import pytest
import torch

from weft.blocks import ConcatPooler, FirstPooler, LastPooler, MaxPooler, MeanPooler, PositionConcatPooler
from weft.core.seq import Seq

BY_HAND = {
    FirstPooler: lambda r: r[0],
    LastPooler: lambda r: r[-1],
    MeanPooler: lambda r: r.mean(0),
    MaxPooler: lambda r: r.max(0).values,
}
MASK = torch.tensor(
    [[True] * 5, [True, True, False, False, False], [False, False, True, True, True], [False, True, False, True, False]]
)


@pytest.mark.parametrize("pooler", BY_HAND, ids=lambda p: p.__name__)
def test_pooler_equals_its_formula_over_real_tokens(pooler):
    data = torch.randn(4, 5, 3) - 5  # negative, so that zeros of padding would be the maximum
    got = pooler(3)(Seq(data.masked_fill(~MASK[..., None], torch.nan), MASK))
    want = torch.stack([BY_HAND[pooler](row[real]) for row, real in zip(data, MASK, strict=True)])
    torch.testing.assert_close(got, want)
    plain = torch.stack([BY_HAND[pooler](row) for row in data])
    torch.testing.assert_close(pooler(3)(Seq(data)), plain)


@pytest.mark.parametrize("pooler", [*BY_HAND, partial(ConcatPooler, parts=[FirstPooler, MaxPooler]), PositionConcatPooler])
def test_row_of_padding_gives_finite_values_and_gradients(pooler):
    data = torch.randn(2, 3, 4, requires_grad=True)
    mask = torch.tensor([[False] * 3, [True] * 3])
    module = pooler(4)
    out = module(Seq(data, mask))
    out.sum().backward()
    assert out.isfinite().all()
    assert data.grad is not None and data.grad.isfinite().all() and not data.grad[0].any()


def test_concat_projects_its_parts():
    x = Seq(torch.randn(2, 3, 4))
    concat = ConcatPooler(4, parts=[LastPooler, MeanPooler, MaxPooler])
    want = concat.out(torch.cat([LastPooler(4)(x), MeanPooler(4)(x), MaxPooler(4)(x)], -1))
    torch.testing.assert_close(concat(x), want)
    with pytest.raises(ValueError, match="parts is empty, but concat needs at least one pooler"):
        ConcatPooler(4, parts=[])


def test_position_concat_has_weights_for_each_position_of_the_real_tokens():
    pooler = PositionConcatPooler(3, positions=5)
    data = torch.randn(4, 5, 3)
    weight_LDD = pooler.out.weight.unflatten(1, (5, 3)).transpose(0, 1)
    want = torch.stack(
        [
            sum((weight_LDD[t] @ h_D for t, h_D in enumerate(row[real])), pooler.out.bias)
            for row, real in zip(data, MASK, strict=True)
        ]
    )
    torch.testing.assert_close(pooler(Seq(data.masked_fill(~MASK[..., None], torch.nan), MASK)), want)
    wide = Seq(torch.cat([torch.randn(4, 3, 3), data], 1), torch.cat([torch.zeros(4, 3, dtype=torch.bool), MASK], 1))
    torch.testing.assert_close(pooler(wide), want)  # eight columns, but no row has more than five real tokens
    with pytest.raises(ValueError, match="the text has 6 tokens, but position-concat has 5 positions; raise positions"):
        pooler(Seq(torch.randn(1, 6, 3)))


def test_position_concat_sums_the_tokens_of_a_word():
    pooler = PositionConcatPooler(3, positions=4)
    data, word = torch.randn(2, 7, 3), torch.tensor([[0, 1, 1, 2, 3, 3, 0], [0, 1, 2, 2, 0, 0, 0]])
    mask = torch.tensor([[True] * 7, [True] * 5 + [False] * 2])
    placed = torch.zeros(2, 4, 3)
    for row, real in enumerate(mask):
        for t in real.nonzero()[:, 0].tolist():
            placed[row, word[row, t]] += data[row, t]
    x = Seq(data.masked_fill(~mask[..., None], torch.nan), mask).mark(word=word)
    torch.testing.assert_close(pooler(x), pooler.out(placed.flatten(1)))  # seven tokens, but only three words
    with pytest.raises(ValueError, match="the text has 4 words, but position-concat has 4 positions"):
        pooler(x.mark(word=word + (word == 3)))
