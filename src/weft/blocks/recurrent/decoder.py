"""Recurrent decoders, with and without attention over the memory. Shape suffixes: L layers; others: see seq.py."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import reduce
from typing import ClassVar

import torch
from torch import Tensor, nn

from weft.blocks.attention.alignment import AlignmentAttention
from weft.blocks.attention.score import AdditiveScore
from weft.blocks.dropout import DropoutLayer
from weft.blocks.linear import Linear
from weft.blocks.recurrent.ordering import SequenceOrder, run_recurrent
from weft.core.contracts import Decoder, Score
from weft.core.masks import Causal, Full, Mask
from weft.core.options import Dropout, Layers
from weft.core.registry import Build, block
from weft.core.seq import KV, Decoded, Memory, Seq


@dataclass(frozen=True)
class RecurrentState:
    """Decoding state: the hidden (and cell) states, each L x B x D, and the projected memory for attention."""

    vectors: tuple[Tensor, ...]
    context: KV | None = None

    def select(self, rows: Tensor) -> RecurrentState:
        context = None if self.context is None else self.context.select(rows)
        return RecurrentState(tuple(v_LBD[:, rows] for v_LBD in self.vectors), context)


class RecurrentDecoder(Decoder):
    """Recurrent network whose initial state is projected from the summary vector of the memory, or zero without one."""

    network: ClassVar[type[nn.LSTM] | type[nn.GRU]]
    uses_vector: ClassVar[bool] = True

    def __init__(self, dim: int, memory: int | None, *, layers: Layers = 1, dropout: Dropout = 0.0):
        super().__init__(dim, memory)
        self.shape = (2 if self.network is nn.LSTM else 1, layers, dim)
        self.recurrent = self.network(dim, dim, layers, batch_first=True, dropout=dropout if layers > 1 else 0.0)
        self.drop = DropoutLayer(dropout)
        self.bridge = None if memory is None else Linear(memory, self.shape[0] * layers * dim)

    def forward(self, x: Seq, memory: Memory | None = None, mask: Mask = Causal()) -> Decoded:
        if not isinstance(mask, Causal):
            raise ValueError(f"{type(self).__name__} does not support the mask {type(mask).__name__}; supported: Causal")
        state, order = self.start(memory, x.rows), SequenceOrder.of(x)
        h_BTD, _ = self._run(order.reorder(x.data), state.vectors)
        return Decoded(self.output(x.with_data(order.restore(h_BTD)), state.context))

    def start(self, memory: Memory | None, rows: int) -> RecurrentState:
        if self.bridge is None or memory is None or memory.vector is None:
            zero_LBD = next(self.parameters()).new_zeros(self.shape[1], rows, self.shape[2])
            return RecurrentState((zero_LBD,) * self.shape[0])
        initial = torch.tanh(self.bridge(memory.vector)).unflatten(-1, self.shape)
        return RecurrentState(tuple(v_BLD.transpose(0, 1).contiguous() for v_BLD in initial.unbind(1)))

    def step(self, x: Seq, state: RecurrentState) -> Decoded:
        vectors = state.vectors
        if x.mask is None:
            h_BTD, vectors = self._run(x.data, vectors)
        else:
            # One token at a time, so that the state of every layer is kept unchanged at padding.
            steps = []
            for t in range(x.width):
                h_B1D, new = self._run(x.data[:, t : t + 1], vectors)
                real_1B1 = x.mask[None, :, t, None]
                vectors = tuple(torch.where(real_1B1, n, old) for n, old in zip(new, vectors, strict=True))
                steps.append(h_B1D)
            h_BTD = torch.cat(steps, 1)
        return Decoded(self.output(x.with_data(h_BTD), state.context), replace(state, vectors=vectors))

    def output(self, hidden: Seq, context: KV | None) -> Seq:
        """Output of the decoder, from the hidden states of the last layer and the projected memory."""
        return hidden

    def _run(self, x_BTD: Tensor, vectors: tuple[Tensor, ...]) -> tuple[Tensor, tuple[Tensor, ...]]:
        h_BTD, last = run_recurrent(self.recurrent, x_BTD, vectors if self.shape[0] > 1 else vectors[0])
        return self.drop(h_BTD), tuple(last) if self.shape[0] > 1 else (last,)


class AttentionDecoder(RecurrentDecoder):
    """Recurrent decoder with Luong attention: attends to the memory from its hidden states."""

    def __init__(
        self,
        dim: int,
        memory: int | None,
        *,
        score: Build[Score] = AdditiveScore,
        layers: Layers = 1,
        dropout: Dropout = 0.0,
    ):
        if memory is None:
            plain = "lstm" if self.network is nn.LSTM else "gru"
            raise ValueError(f"{type(self).__name__} needs a memory to attend to, but this structure has none; use {plain}")
        super().__init__(dim, memory, layers=layers, dropout=dropout)
        self.attention = AlignmentAttention(dim, memory, score=score)
        self.join = Linear(2 * dim, dim)

    def start(self, memory: Memory | None, rows: int) -> RecurrentState:
        if memory is None or not memory.sources:
            raise ValueError(f"{type(self).__name__} needs a memory to attend to, but got one without sources")
        context = reduce(KV.join, [self.attention.project(source) for source in memory.sources])
        return replace(super().start(memory, rows), context=context)

    def output(self, hidden: Seq, context: KV | None) -> Seq:
        assert context is not None  # set by start()
        attended = self.attention(hidden, context, Full())
        return hidden.with_data(torch.tanh(self.join(torch.cat([hidden.data, attended.data], -1))))


@block("lstm")
class LSTMDecoder(RecurrentDecoder):
    """LSTM decoder: a language model on its own, or conditioned on the summary vector of a memory through its initial state.

    h_t, c_t = LSTM(x_t, h_t-1, c_t-1),  (h_0, c_0) = tanh(W v + b), with v the summary vector; without one, zero

    Sutskever et al. 2014, https://arxiv.org/abs/1409.3215

    Args:
        layers: Number of layers.
        dropout: Dropout probability of the output of each layer.

    Example:
        >>> import torch
        >>> LSTMDecoder(4, None)(Seq(torch.ones(2, 3, 4))).hidden.data.shape
        torch.Size([2, 3, 4])
    """

    network = nn.LSTM


@block("gru")
class GRUDecoder(RecurrentDecoder):
    """GRU decoder: a language model on its own, or conditioned on the summary vector of a memory through its initial state.

    h_t = GRU(x_t, h_t-1),  h_0 = tanh(W v + b), with v the summary vector; without one, zero

    Cho et al. 2014, https://arxiv.org/abs/1406.1078

    Args:
        layers: Number of layers.
        dropout: Dropout probability of the output of each layer.

    Example:
        >>> import torch
        >>> GRUDecoder(4, None)(Seq(torch.ones(2, 3, 4))).hidden.data.shape
        torch.Size([2, 3, 4])
    """

    network = nn.GRU


@block("attention-lstm")
class AttentionLSTM(AttentionDecoder):
    """LSTM decoder with Luong attention over the memory, without input feeding.

    y_t = tanh(W [h_t; c_t] + b),  c_t = sum_s softmax_s(score(h_t, m_s)) m_s, with h the hidden states of the LSTM

    The recurrence does not depend on attention, so training runs the LSTM over the full sequence in one call.

    Luong et al. 2015, https://arxiv.org/abs/1508.04025

    Args:
        score: Alignment score between a hidden state and a memory vector.
        layers: Number of layers.
        dropout: Dropout probability of the output of each layer.

    Example:
        >>> import torch
        >>> memory = Memory((Seq(torch.ones(2, 5, 4)),))
        >>> AttentionLSTM(4, 4)(Seq(torch.ones(2, 3, 4)), memory).hidden.data.shape
        torch.Size([2, 3, 4])
    """

    network = nn.LSTM


@block("attention-gru")
class AttentionGRU(AttentionDecoder):
    """GRU decoder with Luong attention over the memory, without input feeding.

    y_t = tanh(W [h_t; c_t] + b),  c_t = sum_s softmax_s(score(h_t, m_s)) m_s, with h the hidden states of the GRU

    The recurrence does not depend on attention, so training runs the GRU over the full sequence in one call.

    Luong et al. 2015, https://arxiv.org/abs/1508.04025

    Args:
        score: Alignment score between a hidden state and a memory vector.
        layers: Number of layers.
        dropout: Dropout probability of the output of each layer.

    Example:
        >>> import torch
        >>> memory = Memory((Seq(torch.ones(2, 5, 4)),))
        >>> AttentionGRU(4, 4)(Seq(torch.ones(2, 3, 4)), memory).hidden.data.shape
        torch.Size([2, 3, 4])
    """

    network = nn.GRU
