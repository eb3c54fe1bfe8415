"""Position-wise feed-forward networks. Shape suffixes: see seq.py."""

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
    """Position-wise feed-forward network: two linear layers with an activation in between.

    y = W2 dropout(f(W1 x + b1)) + b2

    Vaswani et al. 2017, https://arxiv.org/abs/1706.03762

    Args:
        hidden: Size of the hidden layer; None = 4 dim.
        activation: Activation f.
        dropout: Dropout probability of the hidden layer.
        bias: Whether the linear layers have biases b1 and b2.

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
    """Gated linear unit (GLU) feed-forward network: SwiGLU with silu, GEGLU with gelu.

    y = W2 dropout(f(Wg x) * (W1 x))

    Shazeer 2020, https://arxiv.org/abs/2002.05202

    Args:
        hidden: Size of the hidden layer; None = 4 dim.
        activation: Activation f of the gate.
        dropout: Dropout probability of the hidden layer.
        bias: Whether the linear layers have a bias.

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
