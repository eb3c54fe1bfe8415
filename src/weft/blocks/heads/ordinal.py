"""Logits of classes that have an order. N rows, V classes, D width."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from weft.blocks.dropout import DropoutLayer
from weft.blocks.heads.nll import nll
from weft.blocks.linear import Linear
from weft.core.contracts import Embedder, Head
from weft.core.fields import Field
from weft.core.options import Dropout
from weft.core.registry import block


@block("ordinal")
class OrdinalHead(Head):
    """One score for each vector, cut into classes by thresholds: for classes with an order, such as ratings.

    p(y > k) = sigmoid(s - b_k),  s = w . dropout(h),  b_0 < b_1 < ... < b_V-2;  logits_k = log(p(y > k - 1) - p(y > k))

    Each threshold lies above the one before it by softplus of a learned number, so p(y > k) falls with k whatever the weights.

    McCullagh 1980 (ordered logits); Cao et al. 2020 (CORAL: one weight vector, many thresholds), https://arxiv.org/abs/1901.07884

    Args:
        dropout: Share of the numbers that training zeroes before the map.

    Example:
        >>> head = OrdinalHead(4, Field("label", 5, kind="label"), None)
        >>> round(head(torch.ones(2, 4)).exp().sum(1)[0].item(), 4)
        1.0
    """

    def __init__(self, dim: int, field: Field, embedder: Embedder | None, *, dropout: Dropout = 0.0):
        super().__init__(dim, field, embedder)
        if field.vocab < 2:
            raise ValueError(f"the field {field.name!r} has {field.vocab} class: thresholds stand between two classes or more")
        if field.kind == "span":
            raise ValueError(f"the field {field.name!r} is a span: its begin and its end are not classes with an order")
        self.vocab = field.vocab
        self.drop = DropoutLayer(dropout)
        self.score = Linear(dim, 1, bias=False)
        self.first = nn.Parameter(torch.full((1,), 1 - field.vocab / 2))
        self.gaps = nn.Parameter(torch.full((field.vocab - 2,), 0.5413))  # softplus of it is 1: thresholds around 0, 1 apart

    def thresholds(self) -> Tensor:
        """V - 1 of them, rising."""
        return torch.cat([self.first, self.first + F.softplus(self.gaps).cumsum(0)])

    def forward(self, x_ND: Tensor) -> Tensor:
        return self._logits(self.drop(x_ND))

    def nll(self, x_ND: Tensor, target_N: Tensor, smoothing: float = 0.0) -> Tensor:
        return nll(self._logits, self.drop(x_ND), target_N, smoothing, self.vocab)

    def _logits(self, x_ND: Tensor) -> Tensor:
        above_NK = self.score(x_ND) - self.thresholds()  # logits of y > k
        # sigmoid(a) - sigmoid(c) = sigmoid(a) sigmoid(-c) (1 - exp(c - a)): no difference of numbers that are almost equal
        between_NK = F.logsigmoid(above_NK[:, :-1]) + F.logsigmoid(-above_NK[:, 1:])
        between_NK = between_NK + torch.log(-torch.expm1(-F.softplus(self.gaps)))
        return torch.cat([F.logsigmoid(-above_NK[:, :1]), between_NK, F.logsigmoid(above_NK[:, -1:])], 1)
