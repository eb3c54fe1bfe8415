"""Attention: kernels, masks, recorders, multi-head and alignment attention."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from weft.blocks import (
    AdditiveScore,
    AlignmentAttention,
    CosineScore,
    DotScore,
    GeneralScore,
    MultiHeadAttention,
    RotaryPosition,
    ScaledDotScore,
    record_attention,
)
from weft.blocks.attention.attend import attend
from weft.core.contracts import Position
from weft.core.masks import Causal, Full, Prefix, Window
from weft.core.seq import KV, Seq

SCORES = [DotScore, ScaledDotScore, GeneralScore, AdditiveScore, CosineScore]
OWNER = nn.Identity()


def vectors(*shape):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(sum(shape)))


def by_hand(score, query, key, value, allow):
    """One query at a time, over the list of its allowed keys."""
    out = torch.zeros(*query.shape[:-1], value.shape[-1])
    for b, h, t in torch.cartesian_prod(*(torch.arange(n) for n in query.shape[:3])).tolist():
        keys = [s for s in range(key.shape[2]) if allow[b, h, t, s]]
        if keys:
            logits = torch.stack(
                [score(query[b, h, t][None, None, None], key[b, h, s][None, None, None]).squeeze() for s in keys]
            )
            out[b, h, t] = sum(w * value[b, h, s] for w, s in zip(logits.softmax(0), keys, strict=True))
    return out


@pytest.mark.parametrize("score_class", SCORES)
def test_attend_equals_a_loop_over_queries(score_class):
    score = score_class(4, 4)
    query, key, value = vectors(2, 2, 3, 4), score.prepare(vectors(2, 2, 5, 4)), vectors(2, 2, 5, 6)
    allow = vectors(2, 2, 3, 5) > 0
    allow[0, 0, 1] = False
    out = attend(query, key, value, score, owner=OWNER, allow=allow)
    torch.testing.assert_close(out, by_hand(score, query, key, value, allow), atol=1e-5, rtol=1e-5)


def test_scores_equal_their_formulas():
    query, key = vectors(1, 1, 2, 4), vectors(1, 1, 3, 4)
    dot = torch.einsum("bhtk,bhsk->bhts", query, key)
    torch.testing.assert_close(DotScore(4, 4)(query, key), dot)
    torch.testing.assert_close(ScaledDotScore(4, 4)(query, key), dot / 2)
    general = GeneralScore(4, 6)
    wide = vectors(1, 1, 3, 6)
    want = torch.einsum("bhtk,kj,bhsj->bhts", query, general.map.weight, wide)
    torch.testing.assert_close(general(query, general.prepare(wide)), want)
    additive = AdditiveScore(4, 6, hidden=5)
    pair = torch.tanh((query @ additive.query.weight.T)[:, :, :, None] + (wide @ additive.key.weight.T)[:, :, None])
    torch.testing.assert_close(additive(query, additive.prepare(wide)), (pair @ additive.vector.weight.T)[..., 0])


@pytest.mark.parametrize("score_class", SCORES)
def test_scale_reproduces_the_score_with_prepared_keys(score_class):
    score = score_class(4, 4)
    query, key = vectors(1, 2, 3, 4), score.prepare(vectors(1, 2, 5, 4))
    if score.scale is None:
        assert score_class in (AdditiveScore, CosineScore)
    else:
        torch.testing.assert_close(score(query, key), score.scale * query @ key.transpose(-1, -2))


@pytest.mark.parametrize("score_class", [DotScore, ScaledDotScore])
def test_dot_product_scores_need_equal_sizes(score_class):
    with pytest.raises(ValueError, match="of equal size, but they have 4 and 6; use general or additive"):
        score_class(4, 6)


@pytest.mark.parametrize("score_class", SCORES)
@pytest.mark.parametrize("case", ["nothing", "allow", "bias", "both", "causal", "causal and bias"])
def test_recording_does_not_change_the_output_and_gets_the_weights(score_class, case):
    score = score_class(4, 4)
    query, key, value = vectors(2, 2, 5, 4), score.prepare(vectors(2, 2, 5, 4)), vectors(2, 2, 5, 4)
    allow = vectors(2, 1, 5, 5) > 0.5 if case in ("allow", "both") else None
    bias = vectors(1, 2, 5, 5) if "bias" in case or case == "both" else None
    options = {"owner": OWNER, "allow": allow, "bias": bias, "causal": "causal" in case}
    off = attend(query, key, value, score, **options)
    seen = []
    with record_attention(lambda owner, weights: seen.append((owner, weights))):
        on = attend(query, key, value, score, **options)
    attend(query, key, value, score, **options)
    torch.testing.assert_close(on, off, atol=1e-5, rtol=1e-5)
    [(owner, weights)] = seen
    assert owner is OWNER
    torch.testing.assert_close(weights @ value, on)
    can = torch.ones(5, 5, dtype=torch.bool) if allow is None else allow
    can = can.tril() if "causal" in case else can
    torch.testing.assert_close(weights.sum(-1), can.any(-1).float().expand(2, 2, 5))
    assert not weights.masked_select(~can.expand_as(weights)).any()


def test_recorders_nest_and_are_removed_after_an_error():
    score, x = DotScore(4, 4), vectors(1, 1, 2, 4)
    outer, inner = [], []
    with record_attention(lambda *_: outer.append(1)):
        with pytest.raises(RuntimeError), record_attention(lambda *_: inner.append(1)):
            attend(x, x, x, score, owner=OWNER)
            raise RuntimeError
        attend(x, x, x, score, owner=OWNER)
    attend(x, x, x, score, owner=OWNER)
    assert (len(outer), len(inner)) == (2, 1)


@pytest.mark.parametrize("score_class", SCORES)
def test_query_without_allowed_keys_gives_zeros_and_finite_gradients(score_class):
    score = score_class(4, 4)
    x = vectors(1, 1, 3, 4).requires_grad_()
    allow = torch.tensor([[True, False, True], [False, False, False], [True, True, True]])
    out = attend(x, score.prepare(x), x, score, owner=OWNER, allow=allow)
    assert not out[0, 0, 1].any()
    out.square().sum().backward()
    assert x.grad is not None and x.grad.isfinite().all() and x.grad.any()


def test_dropout_only_in_training():
    score, x = ScaledDotScore(4, 4), vectors(1, 2, 16, 4)
    clean = attend(x, x, x, score, owner=OWNER)
    assert not torch.allclose(clean, attend(x, x, x, score, owner=OWNER, dropout=0.5))


def loaded(heads=2, dim=8, memory=6):
    """MultiHeadAttention and torch.nn.MultiheadAttention with the same weights."""
    ours = MultiHeadAttention(dim, memory, heads=heads)
    theirs = nn.MultiheadAttention(dim, heads, kdim=memory, vdim=memory, batch_first=True)
    with torch.no_grad():
        for name in ("q", "k", "v"):
            mine = {"q": ours.query, "k": ours.key, "v": ours.value}[name]
            if getattr(theirs, f"{name}_proj_weight") is None:
                at = "qkv".index(name) * dim
                theirs.in_proj_weight[at : at + dim] = mine.weight
            else:
                getattr(theirs, f"{name}_proj_weight").copy_(mine.weight)
        theirs.in_proj_bias.copy_(torch.cat([ours.query.bias, ours.key.bias, ours.value.bias]))
        theirs.out_proj.load_state_dict(ours.out.state_dict())
    return ours, theirs


@pytest.mark.parametrize("memory", [6, 8])
def test_multihead_equals_torch_over_a_padded_memory(memory):
    ours, theirs = loaded(memory=memory)
    query, data = vectors(2, 3, 8), vectors(2, 5, memory)
    mask = torch.tensor([[True] * 5, [False, True, True, True, False]])
    want, _ = theirs(query, data, data, key_padding_mask=~mask)
    got = ours(Seq(query), ours.project(Seq(data, mask)), Full()).data
    torch.testing.assert_close(got, want, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("mask", [Full(), Causal(), Prefix(2), Window(reach=1), Causal() & Window(reach=2)], ids=str)
@pytest.mark.parametrize("padded", [False, True])
def test_multihead_equals_torch_under_masks(mask, padded):
    ours, theirs = loaded(memory=8)
    data = vectors(2, 5, 8)
    real = torch.tensor([[True] * 5, [True, True, True, False, False]])
    at = torch.arange(5)[None]
    may = mask.allow(at, at)
    forbid = torch.zeros(5, 5, dtype=torch.bool) if may is None else ~may[0]
    want, _ = theirs(data, data, data, attn_mask=forbid, key_padding_mask=~real if padded else None)
    x = Seq(data, real if padded else None)
    got = ours(x, ours.project(x), mask).data
    where = real if padded else torch.ones_like(real)
    torch.testing.assert_close(got[where], want[where], atol=1e-5, rtol=1e-5)


def test_causal_mask_without_padding_is_passed_as_is_causal(monkeypatch):
    seen = []
    true = torch.nn.functional.scaled_dot_product_attention

    def spy(*args, **options):
        seen.append((options["attn_mask"] is not None, options["is_causal"]))
        return true(*args, **options)

    monkeypatch.setattr(torch.nn.functional, "scaled_dot_product_attention", spy)
    attention, x = MultiHeadAttention(8, 8), Seq(vectors(2, 5, 8))
    attention(x, attention.project(x), Causal())
    attention(x, attention.project(x), Full())
    padded = Seq(x.data, torch.ones(2, 5, dtype=torch.bool))
    attention(padded, attention.project(padded), Causal())
    marked = x.mark(position=torch.arange(5).flip(0).expand(2, -1))
    attention(marked, attention.project(marked), Causal())
    assert seen == [(False, True), (False, False), (True, False), (True, False)]


def test_causal_mask_uses_explicit_positions():
    attention, data = MultiHeadAttention(8, 8), vectors(1, 4, 8)
    order = torch.tensor([[2, 0, 3, 1]])
    x = Seq(data).mark(position=order)
    got = attention(x, attention.project(x), Causal()).data
    sort = order.argsort(1)[0]
    plain = Seq(data[:, sort])
    want = attention(plain, attention.project(plain), Causal()).data
    torch.testing.assert_close(got[:, sort], want, atol=1e-5, rtol=1e-5)


def test_causal_mask_uses_key_positions_of_several_segments():
    attention, data = MultiHeadAttention(8, 8), vectors(1, 3, 8)
    query, half = Seq(data), attention.project(Seq(data[:, :2]))
    joined = half.join(attention.project(query))
    maps = []
    with record_attention(lambda _, weights: maps.append(weights)):
        out = attention(query, joined, Causal()).data
    seen = maps[0][0, 0] > 0
    assert torch.equal(seen, torch.tensor([[0, 1, 0, 1, 2]]) <= torch.arange(3)[:, None])
    torch.testing.assert_close(attention(query, joined, Causal()).data, out, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize(
    "attention", [MultiHeadAttention(8, 8), AlignmentAttention(8, 8, score=DotScore)], ids=lambda a: type(a).__name__
)
def test_attention_with_rotary_positions_is_translation_invariant(attention):
    data, rotary = vectors(2, 5, 8), RotaryPosition(8)

    def run(at):
        x = Seq(data).mark(position=at.expand(2, -1))
        return attention(x, attention.project(x, rotary), Full(), rotary).data

    plain = run(torch.arange(5))
    torch.testing.assert_close(run(torch.arange(5) + 11), plain, atol=1e-5, rtol=1e-4)
    assert not torch.allclose(run(torch.arange(5) * 2), plain, atol=1e-4)
    assert not torch.allclose(run(torch.zeros(5, dtype=torch.long)), plain, atol=1e-4)


def test_multihead_adds_the_position_bias_to_the_scores():
    class Near(Position):
        def bias(self, query_BT, key_BS):
            return -100.0 * (query_BT[:, None, :, None] - key_BS[:, None, None, :]).abs()

    attention, x = MultiHeadAttention(8, 8, heads=2), Seq(vectors(1, 4, 8))
    maps = []
    with record_attention(lambda _, weights: maps.append(weights)):
        attention(x, attention.project(x), Full(), Near(8))
    torch.testing.assert_close(maps[0], torch.eye(4).expand(1, 2, 4, 4), atol=1e-4, rtol=0)
    plain = attention(x, attention.project(x), Full(), Near(8)).data
    torch.testing.assert_close(plain, attention.out(attention.value(x.data)), atol=1e-4, rtol=1e-4)


def test_multihead_rejects_heads_that_do_not_divide_dim():
    with pytest.raises(ValueError, match=r"dim 10 is not divisible by 4 heads.*set head_dim"):
        MultiHeadAttention(10, 10, heads=4)
    assert MultiHeadAttention(10, 10, heads=4, head_dim=3).out.in_features == 12


@pytest.mark.parametrize("memory", [8, 6])
def test_alignment_is_a_weighted_average_of_the_memory(memory):
    attention = AlignmentAttention(8, memory)
    query, source = vectors(2, 3, 8), Seq(vectors(2, 4, memory), torch.tensor([[True] * 4, [False, True, True, False]]))
    maps = []
    with record_attention(lambda owner, weights: maps.append((owner, weights))):
        got = attention(Seq(query), attention.project(source), Full()).data
    [(owner, weights)] = maps
    assert owner is attention and got.shape == query.shape
    score = attention.score
    want = score(query[:, None], score.prepare(source.data[:, None])).masked_fill(~source.real()[:, None, None], -torch.inf)
    torch.testing.assert_close(weights, want.softmax(-1))
    torch.testing.assert_close(got, attention.out(weights[:, 0] @ source.data))


def test_rotary_depends_on_relative_positions_and_preserves_norms():
    rotary = RotaryPosition(12)
    for width in (6, 5):
        q, k = vectors(1, 2, 1, width), vectors(1, 2, 1, width)

        def score(at_q, at_k, q=q, k=k):
            turned = rotary.rotate(q, torch.tensor([[at_q]])), rotary.rotate(k, torch.tensor([[at_k]]))
            return (turned[0] * turned[1]).sum(-1)

        torch.testing.assert_close(score(3, 7), score(13, 17), atol=1e-5, rtol=1e-5)
        assert not torch.allclose(score(3, 7), score(3, 8))
        torch.testing.assert_close(rotary.rotate(q, torch.tensor([[9]])).norm(dim=-1), q.norm(dim=-1))


def test_rotary_angles_equal_those_of_the_paper():
    x = vectors(1, 1, 1, 4)
    a = torch.complex(x[..., :2], x[..., 2:])
    turned = a * torch.exp(1j * 5 * torch.tensor([1.0, 10_000.0**-0.5]))
    want = torch.cat([turned.real, turned.imag], -1)
    torch.testing.assert_close(RotaryPosition(8).rotate(x, torch.tensor([[5]])), want)


def test_projected_memory_can_be_joined_and_selected():
    attention, data = MultiHeadAttention(8, 8), vectors(2, 5, 8)
    full = attention.project(Seq(data))
    late = Seq(data[:, 2:]).mark(position=torch.arange(2, 5).expand(2, -1))
    joined = attention.project(Seq(data[:, :2])).join(attention.project(late))
    query = Seq(data)
    torch.testing.assert_close(attention(query, joined, Causal()).data, attention(query, full, Causal()).data)
    rows = torch.tensor([1, 1, 0])
    picked = attention(query.select(rows), full.select(rows), Full()).data
    torch.testing.assert_close(picked, attention(query, full, Full()).data[rows])
    assert isinstance(joined, KV)
