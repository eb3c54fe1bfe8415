"""Recurrent and bag-of-words encoders; references are torch's packed sequences and rows without padding."""

from __future__ import annotations

from functools import partial

import pytest
import torch
from torch import nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from weft.blocks import GRU, LSTM, BagOfWords, PositionwiseFeedForward
from weft.blocks.recurrent.ordering import SequenceOrder
from weft.core.masks import Causal
from weft.core.seq import Seq

CLASSES = [(LSTM, nn.LSTM), (GRU, nn.GRU)]
LENGTHS = [5, 2, 3, 1]
RIGHT = torch.arange(5)[None] < torch.tensor(LENGTHS)[:, None]
HOLES = torch.tensor([[True, False, True, True, False], [False, False, False, True, True], [True] * 5, [False] * 5])


def reference(encoder, torch_class, layers, bidirectional):
    """The network of torch with the same weights."""
    hidden = 8 // (1 + bidirectional)
    theirs = torch_class(8, hidden, layers, batch_first=True, bidirectional=bidirectional)
    state = {}
    for part, suffix in ((encoder.forward_layers, ""), (encoder.backward_layers, "_reverse")):
        for i, network in enumerate(part):
            state |= {name.replace("_l0", f"_l{i}{suffix}"): value for name, value in network.state_dict().items()}
    theirs.load_state_dict(state)
    return theirs


@pytest.mark.parametrize(("ours", "torch_class"), CLASSES)
@pytest.mark.parametrize("layers", [1, 2])
@pytest.mark.parametrize("bidirectional", [False, True])
def test_recurrent_encoder_equals_torch_on_packed_sequences(ours, torch_class, layers, bidirectional):
    encoder = ours(8, layers=layers, bidirectional=bidirectional)
    theirs = reference(encoder, torch_class, layers, bidirectional)
    data = torch.randn(4, 5, 8)
    packed = pack_padded_sequence(data, torch.tensor(LENGTHS), batch_first=True, enforce_sorted=False)
    want, _ = pad_packed_sequence(theirs(packed)[0], batch_first=True)
    got = encoder(Seq(data, RIGHT)).data
    torch.testing.assert_close(got, want, atol=1e-6, rtol=1e-5)  # zeros at padding, as torch has them
    torch.testing.assert_close(encoder(Seq(data)).data, theirs(data)[0], atol=1e-6, rtol=1e-5)


@pytest.mark.parametrize("encoder", [LSTM, partial(LSTM, bidirectional=True, layers=2), partial(GRU, bidirectional=True)])
@pytest.mark.parametrize("mask", [RIGHT, RIGHT.flip(1), HOLES], ids=["right", "left", "holes"])
def test_padding_does_not_change_the_output(encoder, mask):
    module, data = encoder(8), torch.randn(4, 5, 8)
    poisoned = data.masked_fill(~mask[..., None], torch.nan).requires_grad_()
    got = module(Seq(poisoned, mask)).data
    for row in range(4):
        if mask[row].any():
            alone = module(Seq(data[row, mask[row]][None])).data[0]
            torch.testing.assert_close(got[row, mask[row]], alone, atol=1e-6, rtol=1e-5)
    assert not got[~mask].any()
    got.sum().backward()
    assert all(p.grad is not None and p.grad.isfinite().all() for p in module.parameters())
    assert poisoned.grad is not None and poisoned.grad.isfinite().all() and not poisoned.grad[~mask].any()


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("mask", [RIGHT, RIGHT.flip(1), HOLES, None])
def test_restore_inverts_reorder(reverse, mask):
    data = torch.randn(4, 5, 3)
    order = SequenceOrder.of(Seq(data, mask), reverse)
    kept = data if mask is None else data * mask[..., None]
    arranged = order.reorder(data)
    torch.testing.assert_close(order.restore(arranged), kept)
    real = torch.ones(4, 5, dtype=torch.bool) if mask is None else mask
    for row in range(4):
        words = data[row, real[row]]
        torch.testing.assert_close(arranged[row, : len(words)], words.flip(0) if reverse else words)


def test_states_are_the_input_and_the_output_of_every_layer():
    encoder, x = LSTM(8, layers=3), Seq(torch.randn(2, 4, 8))
    states = encoder.states(x)
    assert len(states) == 4 and states[0] is x
    torch.testing.assert_close(states[-1].data, encoder(x).data)
    torch.testing.assert_close(states[1].data, encoder.forward_layers[0](x.data)[0])


def test_dropout_applies_to_the_output_of_every_layer():
    encoder = GRU(8, dropout=0.5)
    out = encoder(Seq(torch.randn(4, 50, 8))).data
    assert 0.4 < (out == 0).float().mean() < 0.6
    assert not (encoder.eval()(Seq(torch.randn(4, 5, 8))).data == 0).any()


def test_recurrent_encoders_reject_odd_dim_and_unsupported_masks():
    with pytest.raises(ValueError, match="dim 7 is odd"):
        LSTM(7, bidirectional=True)
    with pytest.raises(ValueError, match="LSTM does not support the mask Causal; supported: Full"):
        LSTM(8)(Seq(torch.randn(1, 2, 8)), Causal())


def test_bag_of_words_positions_do_not_interact():
    x = Seq(torch.randn(2, 5, 8))
    order = torch.randperm(5)
    plain, mapped = BagOfWords(8), BagOfWords(8, feedforward=PositionwiseFeedForward)
    assert plain(x).data is x.data and not list(plain.parameters())
    torch.testing.assert_close(mapped(x.with_data(x.data[:, order]), Causal()).data, mapped(x).data[:, order])
    torch.testing.assert_close(mapped(x).data, mapped.feedforward(x.data))
