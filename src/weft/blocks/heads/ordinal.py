"""Head for ordered classes. Shape suffixes: N rows, V classes, D hidden size, K = V - 1 thresholds."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from weft.blocks.dropout import DropoutLayer
from weft.blocks.heads.nll import FeatureHead
from weft.blocks.linear import Linear
from weft.core.contracts import Embedder
from weft.core.fields import Field, SpanField
from weft.core.options import Dropout
from weft.core.registry import block


@block("ordinal")
class OrdinalHead(FeatureHead):
    """Ordered logit head: one score per vector and increasing thresholds between the classes, for labels such as ratings.

    p(y > k) = sigmoid(s - b_k),  s = w . dropout(h),  logits_k = log(p(y > k - 1) - p(y > k)),
    with thresholds b_0 < b_1 < ... < b_V-2

    Consecutive thresholds differ by the softplus of a learned parameter, so that p(y > k) always decreases with k.

    McCullagh 1980 (ordered logits); Cao et al. 2020 (CORAL: one weight vector, many thresholds), https://arxiv.org/abs/1901.07884

    Args:
        dropout: Dropout probability of the hidden state.

    Example:
        >>> from weft.core.fields import LabelField
        >>> head = OrdinalHead(4, LabelField("label", 5), None)
        >>> round(head(torch.ones(2, 4)).exp().sum(1)[0].item(), 4)
        1.0
    """

    def __init__(self, dim: int, field: Field, embedder: Embedder | None, *, dropout: Dropout = 0.0):
        super().__init__(dim, field, embedder)
        if field.outputs < 2:
            raise ValueError(f"the head ordinal needs at least 2 classes, but the field {field.name!r} has {field.outputs}")
        if isinstance(field, SpanField):
            raise ValueError(f"the head ordinal needs ordered classes, but the field {field.name!r} is a span; use classifier")
        self.drop = DropoutLayer(dropout)
        self.score = Linear(dim, 1, bias=False)
        self.first = nn.Parameter(torch.full((1,), 1 - field.outputs / 2))
        self.gaps = nn.Parameter(torch.full((field.outputs - 2,), 0.5413))  # softplus(0.5413) = 1: thresholds around 0, 1 apart

    def thresholds(self) -> Tensor:
        """The V - 1 thresholds, increasing."""
        return torch.cat([self.first, self.first + F.softplus(self.gaps).cumsum(0)])

    def features(self, x_ND: Tensor) -> Tensor:
        return self.drop(x_ND)

    def logits(self, feature_NF: Tensor) -> Tensor:
        above_NK = self.score(feature_NF) - self.thresholds()  # logits of y > k
        # sigmoid(a) - sigmoid(c) = sigmoid(a) sigmoid(-c) (1 - exp(c - a)) avoids the difference of almost equal numbers
        between_NK = F.logsigmoid(above_NK[..., :-1]) + F.logsigmoid(-above_NK[..., 1:])
        between_NK = between_NK + torch.log(-torch.expm1(-F.softplus(self.gaps)))
        return torch.cat([F.logsigmoid(-above_NK[..., :1]), between_NK, F.logsigmoid(above_NK[..., -1:])], -1)
