"""Linear-chain CRF against enumeration of all tag sequences."""

from __future__ import annotations

import itertools

import pytest
import torch

from weft.blocks import CRF
from weft.core.fields import TagsField

C = 3
LENGTHS = [4, 1, 3]
MASK = torch.arange(5)[None] < torch.tensor(LENGTHS)[:, None]


@pytest.fixture
def crf():
    made = CRF(TagsField("tags", C)).double()
    with torch.no_grad():
        for parameter in made.parameters():
            parameter.copy_(torch.randn_like(parameter))
    return made


def score(crf, score_TC, tags):
    total = crf.first[tags[0]] + crf.last[tags[-1]]
    for t, tag in enumerate(tags):
        total = total + score_TC[t, tag] + (crf.pair[tags[t - 1], tag] if t else 0.0)
    return total


def test_nll_equals_enumeration_of_all_tag_sequences(crf):
    score_BTC, tag_BT = torch.randn(3, 5, C, dtype=torch.float64), torch.randint(C, (3, 5))
    got_B = crf.nll(score_BTC, tag_BT, MASK)
    for row, length in enumerate(LENGTHS):
        every = torch.stack([score(crf, score_BTC[row], y) for y in itertools.product(range(C), repeat=length)])
        torch.testing.assert_close(got_B[row], every.logsumexp(0) - score(crf, score_BTC[row], tag_BT[row, :length].tolist()))


def test_viterbi_equals_enumeration_of_all_tag_sequences(crf):
    score_BTC = torch.randn(3, 5, C, dtype=torch.float64)
    got_BT = crf.best(score_BTC, MASK)
    for row, length in enumerate(LENGTHS):
        every = list(itertools.product(range(C), repeat=length))
        want = max(every, key=lambda y, row=row: score(crf, score_BTC[row], y).item())
        assert got_BT[row].tolist() == [*want, *[0] * (5 - length)]


def test_padding_does_not_change_the_loss_and_empty_rows_have_loss_zero(crf):
    score_BTC, tag_BT = torch.randn(3, 5, C, dtype=torch.float64), torch.randint(C, (3, 5))
    poisoned = score_BTC.masked_fill(~MASK[..., None], torch.inf)
    torch.testing.assert_close(crf.nll(poisoned, tag_BT, MASK), crf.nll(score_BTC, tag_BT, MASK))
    score_BTC.requires_grad_()
    nll_B = crf.nll(score_BTC, tag_BT, torch.zeros_like(MASK))
    assert nll_B.tolist() == [0.0, 0.0, 0.0]
    (gradient,) = torch.autograd.grad(nll_B.sum(), score_BTC)
    assert not gradient.any()


def test_tags_are_independent_before_training():
    crf, score_BTC, tag_BT = CRF(TagsField("tags", C)), torch.randn(3, 5, C), torch.randint(C, (3, 5))
    apart_BT = torch.nn.functional.cross_entropy(score_BTC.mT, tag_BT, reduction="none")
    torch.testing.assert_close(crf.nll(score_BTC, tag_BT, MASK), (apart_BT * MASK).sum(1))
    assert torch.equal(crf.best(score_BTC, MASK), score_BTC.argmax(-1) * MASK)


def test_half_precision_scores_are_summed_in_float32(crf):
    half = CRF(TagsField("tags", C)).bfloat16()
    nll_B = half.nll(torch.randn(3, 5, C).bfloat16(), torch.randint(C, (3, 5)), MASK)
    assert nll_B.dtype is torch.float32
