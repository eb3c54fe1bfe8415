"""Recurrent encoders. Suffixes: see seq.py."""

from __future__ import annotations

from typing import ClassVar

import torch
from torch import nn

from weft.blocks.dropout import DropoutLayer
from weft.blocks.recurrent.ordering import Reading, run_recurrent
from weft.core.contracts import Encoder
from weft.core.masks import Full, Mask
from weft.core.options import Dropout, Layers
from weft.core.registry import block
from weft.core.seq import Seq


class RecurrentEncoder(Encoder):
    """Layers of a recurrent network, each over the whole sequence before the next. Reads real tokens only."""

    network: ClassVar[type[nn.LSTM] | type[nn.GRU]]

    def __init__(self, dim: int, *, layers: Layers = 1, bidirectional: bool = False, dropout: Dropout = 0.0):
        super().__init__(dim)
        if bidirectional and dim % 2:
            raise ValueError(f"dim {dim} is odd, and two directions share it in halves; take an even dim or bidirectional: false")
        width = dim // 2 if bidirectional else dim
        self.ahead = nn.ModuleList([self.network(dim, width, batch_first=True) for _ in range(layers)])
        self.back = nn.ModuleList([self.network(dim, width, batch_first=True) for _ in range(layers if bidirectional else 0)])
        self.drop = DropoutLayer(dropout)

    def states(self, x: Seq, mask: Mask = Full()) -> list[Seq]:
        self.check_mask(mask)
        ahead = Reading.of(x)
        back = Reading.of(x, reverse=True) if self.back else None
        states = [x]
        for i, network in enumerate(self.ahead):
            h_BTD = ahead.restore(run_recurrent(network, ahead.arrange(states[-1].data))[0])
            if back is not None:
                h_BTD = torch.cat([h_BTD, back.restore(run_recurrent(self.back[i], back.arrange(states[-1].data))[0])], -1)
            states.append(x.with_data(self.drop(h_BTD)))
        return states


@block("lstm")
class LSTM(RecurrentEncoder):
    """Reads the sequence token by token with a gated memory cell.

    c_t = f_t c_t-1 + i_t g_t,  h_t = o_t tanh(c_t),  with gates i, f, o = sigmoid(W x_t + U h_t-1 + b) and g likewise by tanh

    Hochreiter and Schmidhuber 1997; two directions: Graves and Schmidhuber 2005. The state before the first token is zero.

    Args:
        layers: How many networks stand on each other.
        bidirectional: Also read from the end; each direction then has half of the width.
        dropout: Share of each layer's output that training zeroes.

    Example:
        >>> import torch
        >>> LSTM(4, bidirectional=True)(Seq(torch.ones(2, 3, 4))).data.shape
        torch.Size([2, 3, 4])
    """

    network = nn.LSTM


@block("gru")
class GRU(RecurrentEncoder):
    """Reads the sequence token by token with a gated state.

    h_t = (1 - z_t) n_t + z_t h_t-1,  n_t = tanh(W x_t + r_t (U h_t-1 + c) + b),  z, r = sigmoid(W x_t + U h_t-1 + b)

    Cho et al. 2014, https://arxiv.org/abs/1406.1078. The state before the first token is zero.

    Args:
        layers: How many networks stand on each other.
        bidirectional: Also read from the end; each direction then has half of the width.
        dropout: Share of each layer's output that training zeroes.

    Example:
        >>> import torch
        >>> GRU(4, layers=2)(Seq(torch.ones(2, 3, 4))).data.shape
        torch.Size([2, 3, 4])
    """

    network = nn.GRU
