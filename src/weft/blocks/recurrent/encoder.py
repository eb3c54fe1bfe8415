"""Recurrent encoders. Shape suffixes: see seq.py."""

from __future__ import annotations

from typing import ClassVar

import torch
from torch import Tensor, nn

from weft.blocks.dropout import DropoutLayer
from weft.blocks.recurrent.ordering import SequenceOrder, run_recurrent
from weft.core.contracts import Encoder
from weft.core.masks import Full, Mask
from weft.core.options import Dropout, Layers
from weft.core.registry import block
from weft.core.seq import Seq


class RecurrentEncoder(Encoder):
    """Stacked recurrent layers, unidirectional or bidirectional. Padding is skipped."""

    network: ClassVar[type[nn.LSTM] | type[nn.GRU]]

    def __init__(self, dim: int, *, layers: Layers = 1, bidirectional: bool = False, dropout: Dropout = 0.0):
        super().__init__(dim)
        if bidirectional and dim % 2:
            raise ValueError(
                f"dim {dim} is odd, but each direction has dim / 2 features; use an even dim, or bidirectional: false"
            )
        hidden = dim // 2 if bidirectional else dim
        self.forward_layers = nn.ModuleList([self.network(dim, hidden, batch_first=True) for _ in range(layers)])
        reverse = layers if bidirectional else 0
        self.backward_layers = nn.ModuleList([self.network(dim, hidden, batch_first=True) for _ in range(reverse)])
        self.drop = DropoutLayer(dropout)

    def states(self, x: Seq, mask: Mask = Full()) -> list[Seq]:
        self.check_mask(mask)
        order = SequenceOrder.of(x)
        reversed_order = SequenceOrder.of(x, reverse=True) if self.backward_layers else None
        states = [x]
        for i, network in enumerate(self.forward_layers):
            h_BTD = _run(network, states[-1].data, order)
            if reversed_order is not None:
                h_BTD = torch.cat([h_BTD, _run(self.backward_layers[i], states[-1].data, reversed_order)], -1)
            states.append(x.with_data(self.drop(h_BTD)))
        return states


def _run(network: nn.Module, x_BTD: Tensor, order: SequenceOrder) -> Tensor:
    return order.restore(run_recurrent(network, order.reorder(x_BTD))[0])


@block("lstm")
class LSTM(RecurrentEncoder):
    """Long short-term memory (LSTM) encoder, unidirectional or bidirectional.

    c_t = f_t * c_t-1 + i_t * g_t,  h_t = o_t * tanh(c_t),
    i, f, o = sigmoid(W x_t + U h_t-1 + b),  g = tanh(W x_t + U h_t-1 + b),
    with separate W, U and b for i, f, o and g

    The initial state is zero.

    Hochreiter and Schmidhuber 1997; bidirectional: Graves and Schmidhuber 2005

    Args:
        layers: Number of layers.
        bidirectional: Whether to add a backward direction; each direction then has dim / 2 features.
        dropout: Dropout probability of the output of each layer.

    Example:
        >>> import torch
        >>> LSTM(4, bidirectional=True)(Seq(torch.ones(2, 3, 4))).data.shape
        torch.Size([2, 3, 4])
    """

    network = nn.LSTM


@block("gru")
class GRU(RecurrentEncoder):
    """Gated recurrent unit (GRU) encoder, unidirectional or bidirectional.

    h_t = (1 - z_t) * n_t + z_t * h_t-1,  n_t = tanh(W x_t + b + r_t * (U h_t-1 + c)),  z, r = sigmoid(W x_t + U h_t-1 + b),
    with separate W, U and b for n, z and r

    The initial state is zero.

    Cho et al. 2014, https://arxiv.org/abs/1406.1078

    Args:
        layers: Number of layers.
        bidirectional: Whether to add a backward direction; each direction then has dim / 2 features.
        dropout: Dropout probability of the output of each layer.

    Example:
        >>> import torch
        >>> GRU(4, layers=2)(Seq(torch.ones(2, 3, 4))).data.shape
        torch.Size([2, 3, 4])
    """

    network = nn.GRU
