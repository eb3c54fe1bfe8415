"""Token and position embeddings, and their sum."""

from __future__ import annotations

import math
from functools import partial

import pytest
import torch
from torch.nn import functional as F

from weft.blocks import (
    LayerNorm,
    LearnedPositionEmbedder,
    SharedTokenEmbedder,
    SinusoidalPositionEmbedder,
    SumEmbedder,
    TokenEmbedder,
    TokenTypeEmbedder,
)
from weft.core.fields import TextField
from weft.core.seq import Seq

FIELD = TextField("text", 11, max_length=9)
PARTS = [
    TokenEmbedder,
    SinusoidalPositionEmbedder,
    LearnedPositionEmbedder,
    partial(SumEmbedder, parts=[TokenEmbedder, SinusoidalPositionEmbedder, LearnedPositionEmbedder], norm=LayerNorm),
]


def test_token_embedder_looks_up_and_scales():
    ids = torch.tensor([[3, 8, 0], [10, 3, 3]])
    token = TokenEmbedder(16, FIELD)
    torch.testing.assert_close(token(Seq(ids)).data, token.weight[ids] * 4)
    torch.testing.assert_close(TokenEmbedder(16, FIELD, scale=0.5)(Seq(ids)).data.shape, torch.Size([2, 3, 16]))
    half = TokenEmbedder(16, FIELD, scale=0.5)
    torch.testing.assert_close(half(Seq(ids)).data, half.weight[ids] / 2)
    assert token.table() is token.weight


@pytest.mark.parametrize("part", PARTS)
def test_one_hot_soft_ids_equal_ids(part):
    ids = torch.tensor([[3, 8, 0], [10, 3, 3]])
    mask = torch.tensor([[True] * 3, [False, True, True]])
    embedder = part(16, FIELD)
    hard, soft = embedder(Seq(ids, mask)), embedder(Seq(F.one_hot(ids, 11).float(), mask))
    torch.testing.assert_close(soft.data, hard.data)


def test_soft_ids_give_the_expected_embedding():
    token = TokenEmbedder(4, FIELD)
    weights = torch.zeros(1, 1, 11)
    weights[0, 0, 3], weights[0, 0, 7] = 0.25, 0.75
    want = 0.25 * token.weight[3] + 0.75 * token.weight[7]
    torch.testing.assert_close(token(Seq(weights)).data[0, 0], want * 2)
    with pytest.raises(ValueError, match="soft ids have 5 entries, but the vocabulary has 11 ids"):
        token(Seq(torch.ones(1, 2, 5)))


@pytest.mark.parametrize("dtype", [torch.int64, torch.int32])
@pytest.mark.parametrize(("row", "at", "number"), [(0, 0, 11), (1, 2, -1), (1, 0, 4000)])
def test_ids_out_of_range_are_reported(row, at, number, dtype):
    ids = torch.tensor([[3, 8, 0], [10, 3, 3]], dtype=dtype)
    ids[row, at] = number
    shared = SharedTokenEmbedder(4, FIELD)
    shared.share(TokenEmbedder(4, FIELD))
    for embedder in (
        TokenEmbedder(4, FIELD),
        shared,
        SumEmbedder(4, FIELD, parts=[SinusoidalPositionEmbedder, TokenEmbedder]),
        TokenEmbedder(4, FIELD).bfloat16(),
    ):
        with pytest.raises(ValueError, match=rf"id {number} \(row {row}, position {at}\) is out of range; ids are 0 to 10"):
            embedder(Seq(ids))


def test_token_types_out_of_range_are_reported():
    with pytest.raises(ValueError, match=r"segment -1 \(row 0, position 1\) is out of range; values are 0 to 1"):
        TokenTypeEmbedder(4, FIELD)(Seq(torch.tensor([[3, 8]])).mark(segment=torch.tensor([[0, -1]])))


@pytest.mark.parametrize("part", [TokenEmbedder, LearnedPositionEmbedder, TokenTypeEmbedder])
def test_lookup_compiles_without_graph_breaks_and_runs_on_the_meta_device(part):
    embedder, ids = part(4, FIELD), torch.tensor([[3, 8, 0]])
    x = Seq(ids).mark(segment=ids * 0, position=ids * 0 + 1)
    torch._dynamo.reset()
    compiled = torch.compile(embedder, backend="eager", fullgraph=True)  # raises where the graph breaks
    torch.testing.assert_close(compiled(x).data, embedder(x).data)
    assert embedder.to("meta")(x.to("meta")).data.shape == (1, 3, 4)


def test_sinusoidal_equals_the_formula():
    for dim in (6, 7):
        data = SinusoidalPositionEmbedder(dim, FIELD)(Seq(torch.zeros(1, 4, dtype=torch.long))).data[0]
        half = math.ceil(dim / 2)
        for t in range(4):
            rates = [10_000 ** (-i / half) for i in range(half)]
            want = [math.sin(t * r) for r in rates] + [math.cos(t * r) for r in rates]
            torch.testing.assert_close(data[t], torch.tensor(want[:dim]), atol=1e-5, rtol=1e-5)


def test_sinusoidal_keeps_its_precision_in_bfloat16():
    x = Seq(torch.zeros(1, 300, dtype=torch.long))
    low = SinusoidalPositionEmbedder(8, FIELD).to(torch.bfloat16)(x).data
    assert low.dtype == torch.bfloat16
    torch.testing.assert_close(low, SinusoidalPositionEmbedder(8, FIELD)(x).data.bfloat16())


@pytest.mark.parametrize("part", PARTS)
def test_positions_count_real_tokens_or_follow_the_position_mark(part):
    embedder = part(8, FIELD)
    ids = torch.tensor([[4, 5, 6]])
    want = embedder(Seq(ids)).data
    padded = torch.tensor([[9, 4, 5, 6, 9]])
    mask = torch.tensor([[False, True, True, True, False]])
    torch.testing.assert_close(embedder(Seq(padded, mask)).data[:, 1:4], want)
    later = embedder(Seq(ids[:, 1:]).mark(position=torch.tensor([[1, 2]]))).data
    torch.testing.assert_close(later, want[:, 1:])


def test_learned_positions_have_an_offset_and_a_maximum():
    learned = LearnedPositionEmbedder(4, FIELD, length=3, offset=2)
    assert learned.weight.shape == (5, 4)
    torch.testing.assert_close(learned(Seq(torch.zeros(1, 3, dtype=torch.long))).data[0], learned.weight[2:])
    with pytest.raises(
        ValueError, match="a sequence has 4 tokens, but there are 3 learned positions; lower max_length of the data"
    ):
        learned(Seq(torch.zeros(1, 4, dtype=torch.long)))
    x = Seq(torch.zeros(2, 2, dtype=torch.long))
    with pytest.raises(ValueError, match="token 1 of row 1 has position 3, but there are 3 learned positions; raise length"):
        learned(x.mark(position=torch.tensor([[0, 2], [1, 3]])))
    with pytest.raises(
        ValueError, match="token 0 of row 1 has position -1, but there are 3 learned positions; positions are 0 to 2"
    ):
        learned(x.mark(position=torch.tensor([[0, 2], [-1, 0]])))  # negative positions do not reach the rows before position 0
    assert LearnedPositionEmbedder(4, FIELD).length == 9 + 7


def test_sum_adds_and_normalizes_its_parts_and_exposes_the_token_embeddings():
    ids = torch.tensor([[3, 8, 0]])
    total = SumEmbedder(8, FIELD, parts=[SinusoidalPositionEmbedder, TokenEmbedder], norm=LayerNorm)
    waves, token = total.parts
    torch.testing.assert_close(total(Seq(ids)).data, F.layer_norm(waves(Seq(ids)).data + token(Seq(ids)).data, (8,)))
    assert total.table() is token.weight
    with pytest.raises(ValueError, match="SumEmbedder has no embedding matrix to tie a head to"):
        SumEmbedder(8, FIELD, parts=[SinusoidalPositionEmbedder]).table()
    with pytest.raises(ValueError, match="parts is empty, but sum needs"):
        SumEmbedder(8, FIELD, parts=[])


def test_initial_variances():
    field = TextField("text", 2000)
    token = TokenEmbedder(64, field)
    vectors = token(Seq(torch.arange(2000)[None])).data
    assert vectors.std().item() == pytest.approx(1, abs=0.05)
    logits = F.linear(vectors[0, :50], token.table())
    assert logits.std().item() == pytest.approx(1, abs=0.2)
