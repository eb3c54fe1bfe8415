"""Scores: temperatures, cosine similarity, and scores by the position of the key."""

from __future__ import annotations

from functools import partial

import pytest
import torch
import torch.nn.functional as F

from weft.blocks import (
    AdditiveScore,
    AlignmentAttention,
    AttentionLSTM,
    CosineScore,
    DotScore,
    GeneralScore,
    LocationScore,
    MultiHeadAttention,
    ScaledDotScore,
)
from weft.core.masks import Full
from weft.core.seq import Memory, Seq


def scores(score, query, key):
    return score(query, score.prepare(key, torch.arange(key.shape[2]).expand(key.shape[0], -1)))


@pytest.mark.parametrize("factory", [DotScore, ScaledDotScore, GeneralScore, AdditiveScore, partial(LocationScore, length=5)])
def test_the_temperature_divides_the_scores(factory):
    query, key = torch.randn(2, 3, 4, 6), torch.randn(2, 3, 5, 6)
    plain, cold = factory(6, 6), factory(6, 6, temperature=0.25)
    cold.load_state_dict(plain.state_dict())
    torch.testing.assert_close(scores(cold, query, key), 4 * scores(plain, query, key))


def test_cosine_scores_are_similarities_over_a_learned_temperature():
    score = CosineScore(6, 6, temperature=0.5)
    query, key = torch.randn(2, 3, 4, 6), torch.randn(2, 3, 5, 6)
    want = F.cosine_similarity(query[:, :, :, None], key[:, :, None], -1) / 0.5
    torch.testing.assert_close(scores(score, query, key), want)
    torch.testing.assert_close(scores(score, 7 * query, 0.1 * key), want)
    scores(score, query, key).square().sum().backward()
    assert score.log_temperature.grad is not None and score.log_temperature.grad.item() != 0


def test_location_scores_ignore_the_content_of_keys():
    score = LocationScore(6, 3, length=5)
    query, key = torch.randn(2, 1, 4, 6), torch.randn(2, 1, 5, 3)
    found = scores(score, query, key)
    torch.testing.assert_close(found, F.linear(query, score.weight), msg="softmax(W h) of Luong et al., before the softmax")
    assert found.equal(scores(score, query, torch.randn(2, 1, 5, 3)))


def test_location_scores_follow_the_positions_of_the_tokens_not_their_slots():
    """With padding on the left, and in a memory that is joined from two, the scores are those of the whole."""
    attention = AlignmentAttention(6, 6, score=lambda dim, memory: LocationScore(dim, memory, length=4))
    query, memory = Seq(torch.randn(1, 2, 6)), torch.randn(1, 4, 6)
    want = attention(query, attention.project(Seq(memory)), Full()).data
    padded = Seq(F.pad(memory, (0, 0, 2, 0)), torch.tensor([[False] * 2 + [True] * 4]))
    torch.testing.assert_close(attention(query, attention.project(padded), Full()).data, want)
    at = torch.arange(4)[None]
    halves = [attention.project(Seq(memory[:, s]).mark(position=at[:, s])) for s in (slice(0, 1), slice(1, 4))]
    torch.testing.assert_close(attention(query, halves[0].join(halves[1]), Full()).data, want)


def test_a_recurrent_decoder_attends_by_location():
    decoder = AttentionLSTM(6, 6, score=lambda dim, memory: LocationScore(dim, memory, length=4))
    memory = torch.randn(1, 4, 6)
    x = Seq(torch.randn(1, 3, 6))
    plain, other = (decoder(x, Memory((Seq(m),))).hidden.data for m in (memory, memory.flip(1)))
    assert not torch.allclose(plain, other), "the values at a position still matter"


def test_positions_that_location_does_not_have_and_keys_without_positions_are_errors():
    attention = AlignmentAttention(6, 6, score=lambda dim, memory: LocationScore(dim, memory, length=4))
    with pytest.raises(ValueError, match="key 4 of row 0 has position 4, but the score location has length 4; raise it"):
        attention.project(Seq(torch.randn(1, 5, 6)))
    with pytest.raises(ValueError, match="the score location needs the positions of the keys"):
        LocationScore(6, 6, length=4).prepare(torch.randn(1, 1, 3, 6))


def test_cosine_refuses_sizes_that_differ():
    with pytest.raises(ValueError, match="CosineScore needs queries and keys of equal size, but they have 4 and 6"):
        CosineScore(4, 6)
    attention = MultiHeadAttention(8, 6, heads=2, score=CosineScore)
    assert attention(Seq(torch.ones(1, 2, 8)), attention.project(Seq(torch.ones(1, 3, 6))), Full()).data.shape == (1, 2, 8)
