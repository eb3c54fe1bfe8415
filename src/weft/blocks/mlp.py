"""Multi-layer perceptron."""

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
    """Multi-layer perceptron: linear layers with an activation after each but the last.

    h_i = dropout(f(norm(W_i h_i-1 + b_i))),  y = W h_n + b,  h_0 = x

    Rumelhart et al. 1986

    Args:
        hidden: Sizes of the n hidden layers; an empty list = a single linear layer.
        activation: Activation f.
        batch_norm: Batch normalization before f; None = none.
        dropout: Dropout probability of the hidden layers.

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
        sizes = [dim, *hidden]
        self.maps = nn.ModuleList([Linear(a, b) for a, b in zip(sizes, hidden, strict=False)])
        self.batch_norms = nn.ModuleList([batch_norm(size) for size in hidden] if batch_norm is not None else [])
        self.activation, self.drop = activation(), DropoutLayer(dropout)
        self.out = Linear(sizes[-1], out)

    def forward(self, x: Tensor) -> Tensor:
        for i, layer in enumerate(self.maps):
            x = layer(x)
            x = self.batch_norms[i](x) if len(self.batch_norms) else x
            x = self.drop(self.activation(x))
        return self.out(x)
