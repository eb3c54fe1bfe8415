"""How the result of a sub-layer is added to its input. Suffixes: see seq.py."""

from __future__ import annotations

from collections.abc import Callable

from torch import Tensor

from weft.blocks.dropout import DropoutLayer
from weft.blocks.norm import LayerNorm
from weft.core.contracts import Norm, Residual
from weft.core.options import Dropout
from weft.core.registry import Build, block


@block("pre-norm")
class PreNorm(Residual):
    """Normalises what goes into the sub-layer; the sum itself is left alone.

    y = x + dropout(f(norm(x)))

    Xiong et al. 2020, https://arxiv.org/abs/2002.04745

    Args:
        norm: The normalisation.
        dropout: Share of the sub-layer's result that training zeroes.

    Example:
        >>> import torch
        >>> PreNorm(4)(torch.ones(1, 2, 4), torch.zeros_like).sum().item()
        8.0
    """

    def __init__(self, dim: int, *, norm: Build[Norm] = LayerNorm, dropout: Dropout = 0.0):
        super().__init__(dim)
        self.norm = norm(dim)
        self.drop = DropoutLayer(dropout)

    def forward(self, x_BTD: Tensor, f: Callable[[Tensor], Tensor]) -> Tensor:
        return x_BTD + self.drop(f(self.norm(x_BTD)))


@block("post-norm")
class PostNorm(Residual):
    """Normalises the sum, as the first Transformer did.

    y = norm(x + dropout(f(x)))

    Vaswani et al. 2017, https://arxiv.org/abs/1706.03762

    Args:
        norm: The normalisation.
        dropout: Share of the sub-layer's result that training zeroes.

    Example:
        >>> import torch
        >>> PostNorm(4)(torch.ones(1, 2, 4), torch.zeros_like).sum().item()
        0.0
    """

    def __init__(self, dim: int, *, norm: Build[Norm] = LayerNorm, dropout: Dropout = 0.0):
        super().__init__(dim)
        self.norm = norm(dim)
        self.drop = DropoutLayer(dropout)

    def forward(self, x_BTD: Tensor, f: Callable[[Tensor], Tensor]) -> Tensor:
        return self.norm(x_BTD + self.drop(f(x_BTD)))
