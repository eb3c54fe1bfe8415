"""Residual connections around sub-layers. Shape suffixes: see seq.py."""

from __future__ import annotations

from collections.abc import Callable

from torch import Tensor

from weft.blocks.dropout import DropoutLayer
from weft.blocks.norm import LayerNorm
from weft.core.contracts import Norm, Residual
from weft.core.options import Dropout
from weft.core.registry import Build, block


class NormalizedResidual(Residual):
    """Residual connection with a normalization and dropout of the sub-layer output."""

    def __init__(self, dim: int, *, norm: Build[Norm] = LayerNorm, dropout: Dropout = 0.0):
        super().__init__(dim)
        self.norm = norm(dim)
        self.drop = DropoutLayer(dropout)


@block("pre-norm")
class PreNorm(NormalizedResidual):
    """Pre-norm residual connection: normalizes the input of the sub-layer.

    y = x + dropout(f(norm(x)))

    Xiong et al. 2020, https://arxiv.org/abs/2002.04745

    Args:
        norm: Normalization.
        dropout: Dropout probability of the output of the sub-layer.

    Example:
        >>> import torch
        >>> PreNorm(4)(torch.ones(1, 2, 4), torch.zeros_like).sum().item()
        8.0
    """

    def forward(self, x_BTD: Tensor, f: Callable[[Tensor], Tensor]) -> Tensor:
        return x_BTD + self.drop(f(self.norm(x_BTD)))


@block("post-norm")
class PostNorm(NormalizedResidual):
    """Post-norm residual connection: normalizes the sum, as in the original Transformer.

    y = norm(x + dropout(f(x)))

    Vaswani et al. 2017, https://arxiv.org/abs/1706.03762

    Args:
        norm: Normalization.
        dropout: Dropout probability of the output of the sub-layer.

    Example:
        >>> import torch
        >>> PostNorm(4)(torch.ones(1, 2, 4), torch.zeros_like).sum().item()
        0.0
    """

    def forward(self, x_BTD: Tensor, f: Callable[[Tensor], Tensor]) -> Tensor:
        return self.norm(x_BTD + self.drop(f(x_BTD)))
