"""A linear layer as a transform of vectors."""

from __future__ import annotations

from torch import Tensor

from weft.blocks.linear import Linear
from weft.core.contracts import Activation, Norm, Transform
from weft.core.registry import Build, block


@block("dense")
class Dense(Transform):
    """Linear layer with an optional activation and normalization.

    y = norm(f(W x + b))

    Args:
        activation: Activation f; None = none.
        norm: Normalization of the output; None = none.
        bias: Whether the linear layer has a bias b.

    Example:
        >>> import torch
        >>> Dense(4, 6)(torch.ones(2, 4)).shape
        torch.Size([2, 6])
    """

    def __init__(
        self,
        dim: int,
        out: int,
        *,
        activation: Build[Activation] | None = None,
        norm: Build[Norm] | None = None,
        bias: bool = True,
    ):
        super().__init__(dim, out)
        self.map = Linear(dim, out, bias)
        self.activation = None if activation is None else activation()
        self.norm = None if norm is None else norm(out)

    def forward(self, x: Tensor) -> Tensor:
        y = self.map(x)
        if self.activation is not None:
            y = self.activation(y)
        return y if self.norm is None else self.norm(y)
