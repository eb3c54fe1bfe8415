"""All decoders: incremental decoding equals the full pass, padding does not matter, and they are causal."""

from __future__ import annotations

from functools import partial

import pytest
import torch
from torch import nn

from weft.blocks import (
    AdditiveScore,
    AlignmentAttention,
    AttentionGRU,
    AttentionLSTM,
    GeneralScore,
    GRUDecoder,
    LSTMDecoder,
    MultiHeadAttention,
    PostNorm,
    RMSNorm,
    TransformerDecoder,
    TransformerLayer,
)
from weft.core.masks import Causal, Full
from weft.core.seq import Memory, Seq

DIM, MEMORY = 8, 6
CLOSE = {"atol": 1e-5, "rtol": 1e-4}
ODD_LAYER = partial(
    TransformerLayer,
    mixer=partial(MultiHeadAttention, heads=2, score=AdditiveScore),
    context=partial(AlignmentAttention, score=GeneralScore),
)
ALONE = {
    "lstm": LSTMDecoder,
    "lstm-2": partial(LSTMDecoder, layers=2),
    "gru": GRUDecoder,
    "transformer": TransformerDecoder,
    "transformer-mixed": partial(TransformerDecoder, layers=3, layer=[TransformerLayer, ODD_LAYER], position=None, norm=RMSNorm),
}
LOOKING = {
    **ALONE,
    "attention-lstm": AttentionLSTM,
    "attention-lstm-2": partial(AttentionLSTM, layers=2, score=GeneralScore),
    "attention-gru": AttentionGRU,
    "transformer-post": partial(TransformerDecoder, layer=partial(TransformerLayer, residual=PostNorm), norm=None),
}
CASES = [pytest.param(d, None, id=f"{n}-alone") for n, d in ALONE.items()]
CASES += [pytest.param(d, MEMORY, id=n) for n, d in LOOKING.items()]


def randn(*shape):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(sum(shape)))


def example_memory(rows=3):
    """Two sources, one padded on the left, and a vector."""
    mask = torch.tensor([[True] * 4, [False, True, True, True], [False, False, False, True]])[:rows]
    return Memory((Seq(randn(rows, 4, MEMORY), mask), Seq(randn(rows, 2, MEMORY))), randn(rows, MEMORY))


def build(decoder, memory):
    torch.manual_seed(0)
    return decoder(DIM, memory).eval(), None if memory is None else example_memory()


@pytest.mark.parametrize(("decoder", "memory"), CASES)
@pytest.mark.parametrize("chunks", [(6,), (1,) * 6, (3, 1, 2)], ids=str)
def test_incremental_decoding_equals_the_full_forward_pass(decoder, memory, chunks):
    module, given = build(decoder, memory)
    data = randn(3, 6, DIM)
    want = module(Seq(data), given).hidden.data
    state, got = module.start(given, 3), []
    for chunk in data.split(chunks, 1):
        done = module.step(Seq(chunk), state)
        state = done.state
        got.append(done.hidden.data)
    torch.testing.assert_close(torch.cat(got, 1), want, **CLOSE)


@pytest.mark.parametrize(("decoder", "memory"), CASES)
@pytest.mark.parametrize("marked", [False, True])
def test_incremental_decoding_of_padded_chunks_equals_the_full_forward_pass(decoder, memory, marked):
    module, given = build(decoder, memory)
    data = randn(3, 6, DIM)
    mask = torch.tensor(
        [[True, True, True, True, True, True], [False, True, True, False, True, False], [False, False, False, True, True, True]]
    )
    want = module(Seq(data, mask), given).hidden.data
    state, got, seen = module.start(given, 3), [], torch.zeros(3, dtype=torch.long)
    for chunk, real in zip(data.split((3, 1, 2), 1), mask.split((3, 1, 2), 1), strict=True):
        x = Seq(chunk, real)
        if marked:
            x = x.mark(position=seen[:, None] + x.positions())
            seen = seen + x.lengths()
        done = module.step(x, state)
        state = done.state
        got.append(done.hidden.data)
    torch.testing.assert_close(torch.cat(got, 1)[mask], want[mask], **CLOSE)


@pytest.mark.parametrize(("decoder", "memory"), CASES)
def test_selected_rows_continue_as_if_decoded_alone(decoder, memory):
    module, given = build(decoder, memory)
    data, rows = randn(3, 5, DIM), torch.tensor([2, 0, 0, 1])
    state = module.step(Seq(data[:, :3]), module.start(given, 3)).state.select(rows)
    got = module.step(Seq(data[rows, 3:]), state).hidden.data
    torch.testing.assert_close(got, module(Seq(data), given).hidden.data[rows, 3:], **CLOSE)


@pytest.mark.parametrize(("decoder", "memory"), CASES)
@pytest.mark.parametrize("side", ["left", "right"])
def test_padding_does_not_change_the_output(decoder, memory, side):
    module, given = build(decoder, memory)
    data = randn(3, 4, DIM)
    want = module(Seq(data), given).hidden.data
    noise, real, pads = 50 * randn(3, 2, DIM), torch.ones(3, 4, dtype=torch.bool), torch.zeros(3, 2, dtype=torch.bool)
    order = [0, 1] if side == "right" else [1, 0]
    wide = torch.cat([[data, noise][i] for i in order], 1)
    mask = torch.cat([[real, pads][i] for i in order], 1)
    got = module(Seq(wide, mask), given).hidden.data
    torch.testing.assert_close(got[mask].view_as(want), want, **CLOSE)
    assert got.isfinite().all()


@pytest.mark.parametrize(("decoder", "memory"), [c for c in CASES if c.values[1]])
def test_padding_of_the_memory_does_not_change_the_output(decoder, memory):
    module, given = build(decoder, memory)
    x = Seq(randn(3, 4, DIM))
    want = module(x, given).hidden.data
    first, second = given.sources
    noise, pads = 50 * randn(3, 2, MEMORY), torch.zeros(3, 2, dtype=torch.bool)
    wide = Seq(torch.cat([noise, second.data], 1), torch.cat([pads, second.real()], 1))
    torch.testing.assert_close(module(x, Memory((first, wide), given.vector)).hidden.data, want, **CLOSE)


@pytest.mark.parametrize(("decoder", "memory"), CASES)
def test_decoders_are_causal(decoder, memory):
    module, given = build(decoder, memory)
    data = randn(3, 5, DIM).requires_grad_()
    (module(Seq(data), given).hidden.data[:, 2] @ randn(DIM)).sum().backward()
    assert data.grad is not None
    assert not data.grad[:, 3:].any()
    assert data.grad[:, 0].any()


@pytest.mark.parametrize(("decoder", "memory"), [c for c in CASES if c.values[1]])
def test_memory_affects_the_output_and_every_parameter_gets_a_gradient(decoder, memory):
    module, given = build(decoder, memory)
    x = Seq(randn(3, 4, DIM))
    module(x, given).hidden.data.square().sum().backward()
    assert not [name for name, p in module.named_parameters() if p.grad is None]
    changed = Memory(tuple(s.with_data(s.data.flip(0)) for s in given.sources), given.vector.flip(0))
    assert not torch.allclose(module(x, changed).hidden.data, module(x, given).hidden.data)


@pytest.mark.parametrize(("ours", "torch_class"), [(LSTMDecoder, nn.LSTM), (GRUDecoder, nn.GRU)])
def test_recurrent_decoder_equals_torch_from_the_projected_initial_state(ours, torch_class):
    module = ours(DIM, MEMORY, layers=2)
    theirs = torch_class(DIM, DIM, 2, batch_first=True)
    theirs.load_state_dict(module.recurrent.state_dict())
    data, vector = randn(3, 4, DIM), randn(3, MEMORY)
    first = torch.tanh(module.bridge(vector)).view(3, -1, 2, DIM).permute(1, 2, 0, 3).contiguous()
    want = theirs(data, (first[0], first[1]) if torch_class is nn.LSTM else first[0])[0]
    torch.testing.assert_close(module(Seq(data), Memory((), vector)).hidden.data, want)
    torch.testing.assert_close(module(Seq(data), None).hidden.data, theirs(data)[0])


def test_attention_decoder_equals_the_formula_of_luong():
    module, given = AttentionLSTM(DIM, MEMORY, score=GeneralScore), example_memory()
    data = randn(3, 4, DIM)
    first = torch.tanh(module.bridge(given.vector)).view(3, 2, 1, DIM).permute(1, 2, 0, 3).contiguous()
    h = module.recurrent(data, (first[0], first[1]))[0]
    source = torch.cat([s.data for s in given.sources], 1)
    real = torch.cat([s.real() for s in given.sources], 1)
    logits = torch.einsum("btd,de,bse->bts", h, module.attention.score.map.weight, source)
    context = logits.masked_fill(~real[:, None], -torch.inf).softmax(-1) @ source
    want = torch.tanh(module.join(torch.cat([h, module.attention.out(context)], -1)))
    torch.testing.assert_close(module(Seq(data), given).hidden.data, want, **CLOSE)


def test_a_padded_step_does_not_change_the_state():
    for decoder in (LSTMDecoder, partial(GRUDecoder, layers=2)):
        module = decoder(DIM, None)
        state = module.step(Seq(randn(2, 3, DIM)), module.start(None, 2)).state
        mask = torch.tensor([[False], [True]])
        after = module.step(Seq(randn(2, 1, DIM), mask), state).state
        for old, new in zip(state.vectors, after.vectors, strict=True):
            assert torch.equal(new[:, 0], old[:, 0])
            assert not torch.equal(new[:, 1], old[:, 1])


def test_dropout_applies_to_the_output_in_training_only():
    module, x = LSTMDecoder(DIM, None, dropout=0.5), Seq(randn(4, 50, DIM))
    assert 0.4 < (module(x).hidden.data == 0).float().mean() < 0.6
    assert not (module.eval()(x).hidden.data == 0).any()


def test_decoders_reject_a_missing_memory_and_unsupported_masks():
    for decoder, plain in ((AttentionLSTM, "lstm"), (AttentionGRU, "gru")):
        with pytest.raises(ValueError, match=f"needs a memory to attend to.*use {plain}"):
            decoder(DIM, None)
        with pytest.raises(ValueError, match="needs a memory to attend to, but got one without sources"):
            decoder(DIM, MEMORY)(Seq(randn(1, 2, DIM)), Memory((), randn(1, MEMORY)))
    with pytest.raises(ValueError, match="was built with cross-attention, but got no memory"):
        TransformerDecoder(DIM, MEMORY)(Seq(randn(1, 2, DIM)), None)
    with pytest.raises(ValueError, match="needs a memory to attend to, but got one without sources"):
        TransformerDecoder(DIM, MEMORY)(Seq(randn(1, 2, DIM)), Memory((), randn(1, MEMORY)))
    with pytest.raises(ValueError, match="LSTMDecoder does not support the mask Full; supported: Causal"):
        LSTMDecoder(DIM, None)(Seq(randn(1, 2, DIM)), None, Full())
    assert LSTMDecoder(DIM, None)(Seq(randn(1, 2, DIM)), None, Causal()).hidden.width == 2
