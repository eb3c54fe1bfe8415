"""Alignment scores between queries and keys. Shape suffixes: A hidden size of additive scores; others: see seq.py."""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from weft.blocks.embedding.lookup import lookup
from weft.blocks.linear import Linear
from weft.core.contracts import Score
from weft.core.options import Count, Dim, Positive
from weft.core.registry import block


class ProductScore(Score):
    """A score that is the dot product of a query and a prepared key, times a constant."""

    def __init__(self, dim: int, memory: int, scale: float):
        super().__init__(dim, memory)
        self.scale = self.factor = scale

    def forward(self, query_BHTK: Tensor, key_BHSK: Tensor) -> Tensor:
        return (query_BHTK * self.factor) @ key_BHSK.transpose(-1, -2)  # scales T x K values instead of T x S


@block("dot")
class DotScore(ProductScore):
    """Dot-product score.

    score = q . k / temperature

    Luong et al. 2015, https://arxiv.org/abs/1508.04025

    Args:
        temperature: Temperature of the softmax, which divides the scores.

    Example:
        >>> import torch
        >>> DotScore(2, 2)(torch.ones(1, 1, 1, 2), torch.ones(1, 1, 3, 2)).tolist()
        [[[[2.0, 2.0, 2.0]]]]
    """

    def __init__(self, dim: int, memory: int, *, temperature: Positive = 1.0):
        super().__init__(dim, memory, 1 / temperature)
        _check_sizes(self, dim, memory)


@block("scaled-dot")
class ScaledDotScore(ProductScore):
    """Scaled dot-product score: the dot product divided by the square root of the size of the vectors.

    score = (q . k) / (temperature sqrt(K))

    Vaswani et al. 2017, https://arxiv.org/abs/1706.03762

    Args:
        temperature: Temperature of the softmax, which divides the scores.

    Example:
        >>> import torch
        >>> ScaledDotScore(4, 4)(torch.ones(1, 1, 1, 4), torch.ones(1, 1, 1, 4)).item()
        2.0
    """

    def __init__(self, dim: int, memory: int, *, temperature: Positive = 1.0):
        super().__init__(dim, memory, dim**-0.5 / temperature)
        _check_sizes(self, dim, memory)


@block("general")
class GeneralScore(ProductScore):
    """Bilinear score; queries and keys may differ in size.

    score = q . (W k) / temperature

    Luong et al. 2015, https://arxiv.org/abs/1508.04025

    Args:
        temperature: Temperature of the softmax, which divides the scores.

    Example:
        >>> import torch
        >>> score = GeneralScore(4, 6)
        >>> score(torch.ones(1, 1, 2, 4), score.prepare(torch.ones(1, 1, 3, 6))).shape
        torch.Size([1, 1, 2, 3])
    """

    def __init__(self, dim: int, memory: int, *, temperature: Positive = 1.0):
        super().__init__(dim, memory, 1 / temperature)
        self.map = Linear(memory, dim, bias=False)

    def prepare(self, key_BHSK: Tensor, position_BS: Tensor | None = None) -> Tensor:
        return self.map(key_BHSK)


@block("location")
class LocationScore(ProductScore):
    """Location-based score: depends on the query and on the position of the key, not on its content.

    score_s = w_p(s) . q / temperature,  with w a learned vector for each position p

    Every position of a memory needs such a vector, so memories cannot be longer than ``length``.

    Luong et al. 2015, section 3.1, https://arxiv.org/abs/1508.04025

    Args:
        length: Number of positions.
        temperature: Temperature of the softmax, which divides the scores.

    Example:
        >>> import torch
        >>> score, positions = LocationScore(4, 6, length=10), torch.tensor([[0, 1, 2]])
        >>> score(torch.ones(1, 1, 2, 4), score.prepare(torch.ones(1, 1, 3, 6), positions)).shape
        torch.Size([1, 1, 2, 3])
    """

    def __init__(self, dim: int, memory: int, *, length: Count, temperature: Positive = 1.0):
        super().__init__(dim, memory, 1 / temperature)
        self.weight = nn.Parameter(torch.empty(length, dim))
        nn.init.normal_(self.weight, std=dim**-0.5)

    def prepare(self, key_BHSK: Tensor, position_BS: Tensor | None = None) -> Tensor:
        if position_BS is None:
            raise ValueError("the score location needs the positions of the keys, which it was not given; pass position_BS")
        key_BSK = lookup(self.weight, position_BS, self._out_of_range)
        return key_BSK[:, None].expand(-1, key_BHSK.shape[1], -1, -1)

    def _out_of_range(self, value: int, row: int, position: int) -> str:
        return f"key {position} of row {row} has position {value}, but the score location has length {len(self.weight)}; raise it"


@block("cosine")
class CosineScore(Score):
    """Cosine similarity of query and key with a learned temperature.

    score = (q . k) / (|q| |k| temperature)

    Graves et al. 2014, section 3.3.1, https://arxiv.org/abs/1410.5401

    Args:
        temperature: Initial temperature of the softmax.

    Example:
        >>> import torch
        >>> score = CosineScore(2, 2)
        >>> score(torch.ones(1, 1, 1, 2), score.prepare(torch.ones(1, 1, 3, 2))).shape
        torch.Size([1, 1, 1, 3])
    """

    def __init__(self, dim: int, memory: int, *, temperature: Positive = 0.1):
        super().__init__(dim, memory)
        _check_sizes(self, dim, memory)
        self.log_temperature = nn.Parameter(torch.full((1,), math.log(temperature)))

    def prepare(self, key_BHSK: Tensor, position_BS: Tensor | None = None) -> Tensor:
        return F.normalize(key_BHSK, dim=-1)

    def forward(self, query_BHTK: Tensor, key_BHSK: Tensor) -> Tensor:
        return F.normalize(query_BHTK, dim=-1) * torch.exp(-self.log_temperature) @ key_BHSK.transpose(-1, -2)


@block("additive")
class AdditiveScore(Score):
    """Additive (Bahdanau) score: a feed-forward network with one hidden layer over query and key.

    score = v . tanh(W q + U k) / temperature

    Bahdanau et al. 2015, https://arxiv.org/abs/1409.0473

    Args:
        hidden: Size of the hidden layer; None = that of the query.
        temperature: Temperature of the softmax, which divides the scores.

    Example:
        >>> import torch
        >>> score = AdditiveScore(4, 6)
        >>> score(torch.ones(1, 1, 2, 4), score.prepare(torch.ones(1, 1, 3, 6))).shape
        torch.Size([1, 1, 2, 3])
    """

    def __init__(self, dim: int, memory: int, *, hidden: Dim | None = None, temperature: Positive = 1.0):
        super().__init__(dim, memory)
        hidden = dim if hidden is None else hidden
        self.query = Linear(dim, hidden, bias=False)
        self.key = Linear(memory, hidden, bias=False)
        self.vector = Linear(hidden, 1, bias=False)
        self.temperature = temperature

    def prepare(self, key_BHSK: Tensor, position_BS: Tensor | None = None) -> Tensor:
        return self.key(key_BHSK)

    def forward(self, query_BHTK: Tensor, key_BHSK: Tensor) -> Tensor:
        hidden_BHTSA = torch.tanh(self.query(query_BHTK).unsqueeze(-2) + key_BHSK.unsqueeze(-3))
        return self.vector(hidden_BHTSA).squeeze(-1) / self.temperature


def _check_sizes(score: Score, dim: int, memory: int) -> None:
    if dim != memory:
        name = type(score).__name__
        raise ValueError(
            f"{name} needs queries and keys of equal size, but they have {dim} and {memory}; use general or additive"
        )
