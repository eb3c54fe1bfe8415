"""Cross-entropy over a large vocabulary without ever keeping all its logits. Suffixes: see seq.py."""

from __future__ import annotations

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.utils.checkpoint import checkpoint

KEPT = 2**26
"""Up to this many logits are kept for the backward pass; more are made in chunks of this many and made again when needed."""


def nll(logits: Callable[[Tensor], Tensor], x_ND: Tensor, target_N: Tensor, smoothing: float, vocab: int) -> Tensor:
    """-log p(target) of each row; with ``smoothing`` that share of the target is spread evenly over the vocabulary.

    Args:
        logits: Makes n x V logits from n x D rows. Must not be random: chunks are computed twice.
        x_ND: Hidden states.
        target_N: What is to be predicted.
        smoothing: From 0 to 1.
        vocab: V.
    """

    def loss(x_nD: Tensor, target_n: Tensor) -> Tensor:
        logit_nV = logits(x_nD)
        if logit_nV.dtype in (torch.bfloat16, torch.float16):
            logit_nV = logit_nV.float()
        return F.cross_entropy(logit_nV, target_n, reduction="none", label_smoothing=smoothing)

    rows = max(1, KEPT // vocab)
    if len(x_ND) <= rows:
        return loss(x_ND, target_N)
    parts = zip(x_ND.split(rows), target_N.split(rows), strict=True)
    if not torch.is_grad_enabled():
        return torch.cat([loss(x_nD, target_n) for x_nD, target_n in parts])
    return torch.cat([checkpoint(loss, *part, use_reentrant=False, preserve_rng_state=False) for part in parts])
