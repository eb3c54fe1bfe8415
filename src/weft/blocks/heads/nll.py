"""Cross-entropy over a large vocabulary without storing all logits. Shape suffixes: see seq.py."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from weft.core.contracts import Embedder, Head
from weft.core.fields import Field

MAX_LOGITS = 2**26
"""Up to this many logits are stored for the backward pass; more are computed in chunks of this size, and again in backward."""


def nll(logits: Callable[[Tensor], Tensor], x_ND: Tensor, target_N: Tensor, smoothing: float, vocab: int) -> Tensor:
    """Negative log-likelihood -log p(target) of each row, with label smoothing.

    Args:
        logits: Computes n x V logits from n x D rows. Must be deterministic: chunks are computed twice.
        x_ND: Hidden states.
        target_N: Target ids.
        smoothing: Label smoothing, from 0 to 1: the probability that is spread evenly over the vocabulary.
        vocab: Vocabulary size V.
    """

    def loss(x_nD: Tensor, target_n: Tensor) -> Tensor:
        logit_nV = logits(x_nD)
        if logit_nV.dtype in (torch.bfloat16, torch.float16):
            logit_nV = logit_nV.float()
        return F.cross_entropy(logit_nV, target_n, reduction="none", label_smoothing=smoothing)

    rows = max(1, MAX_LOGITS // vocab)
    if len(x_ND) <= rows:
        return loss(x_ND, target_N)
    chunks = zip(x_ND.split(rows), target_N.split(rows), strict=True)
    if not torch.is_grad_enabled():
        return torch.cat([loss(x_nD, target_n) for x_nD, target_n in chunks])
    return torch.cat([checkpoint(loss, *chunk, use_reentrant=False, preserve_rng_state=False) for chunk in chunks])


class FeatureHead(Head):
    """Head that computes logits from features of the hidden state; randomness such as dropout belongs in the features."""

    def __init__(self, dim: int, field: Field, embedder: Embedder | None):
        super().__init__(dim, field, embedder)
        self.vocab = field.outputs

    @abstractmethod
    def features(self, x_ND: Tensor) -> Tensor:
        """N x F features of the hidden states."""

    @abstractmethod
    def logits(self, feature_NF: Tensor) -> Tensor:
        """N x V logits."""

    def forward(self, x_ND: Tensor) -> Tensor:
        return self.logits(self.features(x_ND))

    def nll(self, x_ND: Tensor, target_N: Tensor, smoothing: float = 0.0) -> Tensor:
        return nll(self.logits, self.features(x_ND), target_N, smoothing, self.vocab)
