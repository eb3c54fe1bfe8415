"""What of the divergence from the prior is paid for. P width of the latent space; B rows."""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor

from weft.core.contracts import FreeBits
from weft.core.options import NonNegative
from weft.core.registry import block

Over = Literal["row", "batch"]
"""What is compared with the threshold: the divergence of each row, or its mean over the rows of a batch."""


@block("floor")
class Floor(FreeBits):
    """A dimension costs its divergence, and at least ``nats``.

    sum_i max(nats, KL_i)

    Kingma et al. 2016, https://arxiv.org/abs/1606.04934; as Li et al. 2020 (OPTIMUS) print it, https://arxiv.org/abs/2004.04092

    Args:
        nats: The least that a dimension costs; 0 = the plain divergence.
        over: What is compared with it: the divergence of each row, or its mean over a batch (Li et al. 2019,
            https://arxiv.org/abs/1909.00868).

    Example:
        >>> Floor(nats=0.5).kept(torch.tensor([[0.25, 2.0]])).tolist()
        [2.5]
    """

    def __init__(self, *, nats: NonNegative = 0.0, over: Over = "row"):
        self.nats, self.over = nats, over

    def kept(self, kl_BP: Tensor) -> Tensor:
        if self.over == "row":
            return kl_BP.clamp(min=self.nats).sum(-1)
        free_P = kl_BP.mean(0) < self.nats
        return torch.where(free_P, self.nats, kl_BP).sum(-1)


@block("gate")
class Gate(FreeBits):
    """A dimension costs nothing until its divergence is above ``nats``, and then all of it.

    sum_i 1[KL_i > nats] KL_i, which has the same gradient as ``floor``

    As the published code of Li et al. 2020 (OPTIMUS) computes it, https://arxiv.org/abs/2004.04092

    Args:
        nats: The divergence up to which a dimension is free.
        over: What is compared with it: the divergence of each row, or its mean over a batch.

    Example:
        >>> Gate(nats=0.5).kept(torch.tensor([[0.25, 2.0]])).tolist()
        [2.0]
    """

    def __init__(self, *, nats: NonNegative = 0.0, over: Over = "row"):
        self.nats, self.over = nats, over

    def kept(self, kl_BP: Tensor) -> Tensor:
        paid = kl_BP > self.nats if self.over == "row" else (kl_BP.mean(0) > self.nats).expand_as(kl_BP)
        return (kl_BP * paid).sum(-1)
