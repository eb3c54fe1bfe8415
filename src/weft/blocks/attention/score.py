"""Alignment scores between queries and keys. Shape suffixes: A hidden size of additive scores; others: see seq.py."""

from __future__ import annotations

import torch
from torch import Tensor

from weft.blocks.linear import Linear
from weft.core.contracts import Score
from weft.core.options import Dim
from weft.core.registry import block


@block("dot")
class DotScore(Score):
    """Dot-product score.

    score = q . k

    Luong et al. 2015, https://arxiv.org/abs/1508.04025

    Example:
        >>> import torch
        >>> DotScore(2, 2)(torch.ones(1, 1, 1, 2), torch.ones(1, 1, 3, 2)).tolist()
        [[[[2.0, 2.0, 2.0]]]]
    """

    def __init__(self, dim: int, memory: int):
        super().__init__(dim, memory)
        _check_sizes(self, dim, memory)
        self.scale = 1.0

    def forward(self, query_BHTK: Tensor, key_BHSK: Tensor) -> Tensor:
        return query_BHTK @ key_BHSK.transpose(-1, -2)


@block("scaled-dot")
class ScaledDotScore(Score):
    """Scaled dot-product score: the dot product divided by the square root of the size of the vectors.

    score = (q . k) / sqrt(K)

    Vaswani et al. 2017, https://arxiv.org/abs/1706.03762

    Example:
        >>> import torch
        >>> ScaledDotScore(4, 4)(torch.ones(1, 1, 1, 4), torch.ones(1, 1, 1, 4)).item()
        2.0
    """

    def __init__(self, dim: int, memory: int):
        super().__init__(dim, memory)
        _check_sizes(self, dim, memory)
        self.scale = self.factor = dim**-0.5

    def forward(self, query_BHTK: Tensor, key_BHSK: Tensor) -> Tensor:
        return (query_BHTK * self.factor) @ key_BHSK.transpose(-1, -2)  # scales T x K values instead of T x S


@block("general")
class GeneralScore(Score):
    """Bilinear score; queries and keys may differ in size.

    score = q . (W k)

    Luong et al. 2015, https://arxiv.org/abs/1508.04025

    Example:
        >>> import torch
        >>> score = GeneralScore(4, 6)
        >>> score(torch.ones(1, 1, 2, 4), score.prepare(torch.ones(1, 1, 3, 6))).shape
        torch.Size([1, 1, 2, 3])
    """

    def __init__(self, dim: int, memory: int):
        super().__init__(dim, memory)
        self.map = Linear(memory, dim, bias=False)
        # With prepared keys W k the score is a dot product, so fused kernels apply.
        self.scale = 1.0

    def prepare(self, key_BHSK: Tensor) -> Tensor:
        return self.map(key_BHSK)

    def forward(self, query_BHTK: Tensor, key_BHSK: Tensor) -> Tensor:
        return query_BHTK @ key_BHSK.transpose(-1, -2)


@block("additive")
class AdditiveScore(Score):
    """Additive (Bahdanau) score: a feed-forward network with one hidden layer over query and key.

    score = v . tanh(W q + U k)

    Bahdanau et al. 2015, https://arxiv.org/abs/1409.0473

    Args:
        hidden: Size of the hidden layer; None = that of the query.

    Example:
        >>> import torch
        >>> score = AdditiveScore(4, 6)
        >>> score(torch.ones(1, 1, 2, 4), score.prepare(torch.ones(1, 1, 3, 6))).shape
        torch.Size([1, 1, 2, 3])
    """

    def __init__(self, dim: int, memory: int, *, hidden: Dim | None = None):
        super().__init__(dim, memory)
        hidden = dim if hidden is None else hidden
        self.query = Linear(dim, hidden, bias=False)
        self.key = Linear(memory, hidden, bias=False)
        self.vector = Linear(hidden, 1, bias=False)

    def prepare(self, key_BHSK: Tensor) -> Tensor:
        return self.key(key_BHSK)

    def forward(self, query_BHTK: Tensor, key_BHSK: Tensor) -> Tensor:
        hidden_BHTSA = torch.tanh(self.query(query_BHTK).unsqueeze(-2) + key_BHSK.unsqueeze(-3))
        return self.vector(hidden_BHTSA).squeeze(-1)


def _check_sizes(score: Score, dim: int, memory: int) -> None:
    if dim != memory:
        name = type(score).__name__
        raise ValueError(
            f"{name} needs queries and keys of equal size, but they have {dim} and {memory}; use general or additive"
        )
