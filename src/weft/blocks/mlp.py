"""Several dense maps, one after another. Suffixes: see seq.py."""

from __future__ import annotations

from torch import Tensor, nn

from weft.blocks.activation import ReLU
from weft.blocks.dropout import DropoutLayer
from weft.blocks.linear import Linear
from weft.core.contracts import Activation, BatchNormalization, Transform
from weft.core.options import Dim, Dropout
from weft.core.registry import Build, block


@block("mlp")
class MLP(Transform):
    """Several dense maps, with an activation after each but the last.

    h_i = f(s(W_i h_i-1 + b_i)),  y = W h + b

    Rumelhart et al. 1986

    Args:
        hidden: Widths between the maps; none = one map alone.
        activation: The function f.
        batch_norm: Makes the numbers before f comparable over the rows of a batch, s; None = none.
        dropout: Share of the hidden numbers that training zeroes.

    Example:
        >>> import torch
        >>> MLP(4, 6, hidden=[8, 8])(torch.ones(2, 4)).shape
        torch.Size([2, 6])
    """

    def __init__(
        self,
        dim: int,
        out: int,
        *,
        hidden: list[Dim] = [128],
        activation: Build[Activation] = ReLU,
        batch_norm: Build[BatchNormalization] | None = None,
        dropout: Dropout = 0.0,
    ):
        super().__init__(dim, out)
        widths = [dim, *hidden]
        self.maps = nn.ModuleList([Linear(a, b) for a, b in zip(widths, hidden, strict=False)])
        self.standardizers = nn.ModuleList([batch_norm(width) for width in hidden] if batch_norm is not None else [])
        self.activation, self.drop = activation(), DropoutLayer(dropout)
        self.out = Linear(widths[-1], out)

    def forward(self, x: Tensor) -> Tensor:
        for i, map_ in enumerate(self.maps):
            x = map_(x)
            x = self.standardizers[i](x) if len(self.standardizers) else x
            x = self.drop(self.activation(x))
        return self.out(x)
