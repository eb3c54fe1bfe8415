"""Maps of each position by itself. Suffixes: see seq.py."""

from __future__ import annotations

from torch import Tensor

from weft.blocks.activation import ReLU, SiLU
from weft.blocks.dropout import DropoutLayer
from weft.blocks.linear import Linear
from weft.core.contracts import Activation, FeedForward
from weft.core.options import Dim, Dropout
from weft.core.registry import Build, block


@block("feed-forward")
class PositionwiseFeedForward(FeedForward):
    """Two dense maps with an activation between them.

    y = W2 f(W1 x + b1) + b2

    Vaswani et al. 2017, https://arxiv.org/abs/1706.03762

    Args:
        hidden: Width between the two maps; None = 4 dim.
        activation: The function f.
        dropout: Share of the hidden numbers that training zeroes.
        bias: Whether the maps have b1 and b2.

    Example:
        >>> import torch
        >>> PositionwiseFeedForward(4, hidden=8)(torch.ones(2, 3, 4)).shape
        torch.Size([2, 3, 4])
    """

    def __init__(
        self,
        dim: int,
        *,
        hidden: Dim | None = None,
        activation: Build[Activation] = ReLU,
        dropout: Dropout = 0.0,
        bias: bool = True,
    ):
        super().__init__(dim)
        hidden = 4 * dim if hidden is None else hidden
        self.up = Linear(dim, hidden, bias)
        self.activation = activation()
        self.drop = DropoutLayer(dropout)
        self.down = Linear(hidden, dim, bias)

    def forward(self, x_BTD: Tensor) -> Tensor:
        return self.down(self.drop(self.activation(self.up(x_BTD))))


@block("gated")
class GatedFeedForward(FeedForward):
    """A dense map whose hidden numbers are multiplied by the activation of another one (GLU; SwiGLU with silu).

    y = W2 (f(Wg x) * (W1 x))

    Shazeer 2020, https://arxiv.org/abs/2002.05202

    Args:
        hidden: Width between the maps; None = 4 dim.
        activation: The function f of the gate.
        dropout: Share of the hidden numbers that training zeroes.
        bias: Whether the maps have a bias.

    Example:
        >>> import torch
        >>> GatedFeedForward(4, hidden=8)(torch.ones(2, 3, 4)).shape
        torch.Size([2, 3, 4])
    """

    def __init__(
        self,
        dim: int,
        *,
        hidden: Dim | None = None,
        activation: Build[Activation] = SiLU,
        dropout: Dropout = 0.0,
        bias: bool = True,
    ):
        super().__init__(dim)
        hidden = 4 * dim if hidden is None else hidden
        self.gate = Linear(dim, hidden, bias)
        self.up = Linear(dim, hidden, bias)
        self.activation = activation()
        self.drop = DropoutLayer(dropout)
        self.down = Linear(hidden, dim, bias)

    def forward(self, x_BTD: Tensor) -> Tensor:
        return self.down(self.drop(self.activation(self.gate(x_BTD)) * self.up(x_BTD)))
