"""Transformer layers and stacks against torch, with masks and positions."""

from __future__ import annotations

from functools import partial

import pytest
import torch
from torch import nn

from weft.blocks import (
    GELU,
    MultiHeadAttention,
    PositionwiseFeedForward,
    PostNorm,
    PreNorm,
    RMSNorm,
    Transformer,
    TransformerDecoder,
    TransformerLayer,
    record_attention,
)
from weft.core.masks import Causal, Full, Window
from weft.core.seq import Memory, Seq

CLOSE = {"atol": 1e-5, "rtol": 1e-4}
MASK = torch.tensor([[True] * 5, [False, False, True, True, True]])


def layer(residual):
    feedforward = partial(PositionwiseFeedForward, hidden=12, activation=GELU)
    return partial(TransformerLayer, mixer=partial(MultiHeadAttention, heads=2), feedforward=feedforward, residual=residual)


def copy_attention(ours, theirs):
    theirs.in_proj_weight.copy_(torch.cat([ours.query.weight, ours.key.weight, ours.value.weight]))
    theirs.in_proj_bias.copy_(torch.cat([ours.query.bias, ours.key.bias, ours.value.bias]))
    theirs.out_proj.load_state_dict(ours.out.state_dict())


@torch.no_grad()
def copy_layer(ours, theirs):
    copy_attention(ours.mixer, theirs.self_attn)
    norms = [ours.mixer_residual.norm]
    if ours.context is not None:
        copy_attention(ours.context, theirs.multihead_attn)
        norms.append(ours.context_residual.norm)
    theirs.linear1.load_state_dict(ours.feedforward.up.state_dict())
    theirs.linear2.load_state_dict(ours.feedforward.down.state_dict())
    for i, norm in enumerate([*norms, ours.feedforward_residual.norm]):
        nn.init.normal_(norm.weight)
        getattr(theirs, f"norm{i + 1}").load_state_dict(norm.state_dict())


@pytest.mark.parametrize("residual", [PreNorm, PostNorm])
def test_encoder_equals_torch(residual):
    ours = Transformer(8, layers=2, layer=layer(residual), position=None)
    options = {"dropout": 0.0, "activation": "gelu", "batch_first": True, "norm_first": residual is PreNorm}
    theirs = [nn.TransformerEncoderLayer(8, 2, 12, **options) for _ in range(2)]
    want = data = torch.randn(2, 5, 8)
    for mine, reference in zip(ours.stack.layers, theirs, strict=True):
        copy_layer(mine, reference)
        want = reference(want, src_key_padding_mask=~MASK)
    got = ours(Seq(data, MASK)).data
    torch.testing.assert_close(got[MASK], ours.stack.norm(want)[MASK], **CLOSE)


@pytest.mark.parametrize("residual", [PreNorm, PostNorm])
def test_decoder_equals_torch(residual):
    ours = TransformerDecoder(8, 8, layers=2, layer=layer(residual), position=None, norm=None)
    options = {"dropout": 0.0, "activation": "gelu", "batch_first": True, "norm_first": residual is PreNorm}
    theirs = [nn.TransformerDecoderLayer(8, 2, 12, **options) for _ in range(2)]
    want = data = torch.randn(2, 3, 8)
    source = torch.randn(2, 5, 8)
    triangle = torch.ones(3, 3, dtype=torch.bool).triu(1)
    for mine, reference in zip(ours.stack.layers, theirs, strict=True):
        copy_layer(mine, reference)
        want = reference(want, source, tgt_mask=triangle, memory_key_padding_mask=~MASK)
    got = ours(Seq(data), Memory((Seq(source, MASK),))).hidden.data
    torch.testing.assert_close(got, want, **CLOSE)


def test_encoder_without_positions_is_permutation_equivariant():
    data, order = torch.randn(1, 5, 8), torch.tensor([3, 1, 4, 0, 2])
    without, rotary = Transformer(8, position=None), Transformer(8)
    torch.testing.assert_close(without(Seq(data[:, order])).data, without(Seq(data)).data[:, order], **CLOSE)
    assert not torch.allclose(rotary(Seq(data[:, order])).data, rotary(Seq(data)).data[:, order], atol=1e-3)


@pytest.mark.parametrize("mask", [Full(), Causal(), Window(reach=1)], ids=str)
@pytest.mark.parametrize("flip", [False, True])
def test_padding_does_not_change_the_output_under_any_mask(mask, flip):
    encoder, data = Transformer(8), torch.randn(2, 5, 8)
    real = MASK.flip(1) if flip else MASK
    got = encoder(Seq(data.masked_fill(~real[..., None], 77.0), real), mask).data
    alone = encoder(Seq(data[1:, real[1]]), mask).data
    torch.testing.assert_close(got[1:, real[1]], alone, **CLOSE)
    assert encoder(Seq(data, torch.zeros_like(real)), mask).data.isfinite().all()


def test_receptive_field_of_one_layer_is_the_mask():
    for mask in (Causal(), Window(reach=1), Causal() & Window(reach=2)):
        encoder, data, way = Transformer(8, layers=1), torch.randn(1, 5, 8), torch.randn(8)
        jacobian = torch.autograd.functional.jacobian(lambda x, e=encoder, m=mask, way=way: e(Seq(x), m).data @ way, data)
        assert isinstance(jacobian, torch.Tensor)
        sees = jacobian[0, :, 0].abs().sum(-1) > 0
        at = torch.arange(5)[None]
        may = mask.allow(at, at)
        assert may is not None
        assert torch.equal(sees, may[0])


def test_states_and_cycled_layers():
    layers = [partial(TransformerLayer, mixer=partial(MultiHeadAttention, heads=n)) for n in (1, 2)]
    encoder, x = Transformer(8, layers=5, layer=layers, norm=RMSNorm), Seq(torch.randn(2, 3, 8))
    assert [layer.mixer.heads for layer in encoder.stack.layers] == [1, 2, 1, 2, 1]
    states = encoder.states(x)
    assert len(states) == 6 and states[0] is x
    torch.testing.assert_close(states[-1].data, encoder(x).data)
    with pytest.raises(ValueError, match="layer is an empty list"):
        Transformer(8, layer=[])


def test_recorder_gets_the_attention_module():
    decoder, seen = TransformerDecoder(8, 8, layers=2), []
    names = {module: name for name, module in decoder.named_modules()}
    x, memory = Seq(torch.randn(2, 3, 8)), Memory((Seq(torch.randn(2, 5, 8)),))
    plain = decoder(x, memory).hidden.data
    with record_attention(lambda owner, weights: seen.append((names[owner], tuple(weights.shape)))):
        recorded = decoder(x, memory).hidden.data
    torch.testing.assert_close(recorded, plain, **CLOSE)
    own, other = (2, 4, 3, 3), (2, 4, 3, 5)
    layers = [f"stack.layers.{i}" for i in range(2)]
    assert seen == [(f"{n}.{part}", shape) for n in layers for part, shape in (("mixer", own), ("context", other))]


def test_cross_attention_is_built_only_with_a_memory():
    assert TransformerLayer(8, None).context is None
    wide = TransformerLayer(8, 6, context=partial(MultiHeadAttention, heads=1))
    assert (wide.context.heads, wide.context.key.in_features) == (1, 6)
    with pytest.raises(TypeError, match="TransformerLayer has no cross-attention"):
        TransformerLayer(8, None).project(Memory())
