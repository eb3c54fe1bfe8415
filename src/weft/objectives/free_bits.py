"""Free bits: a threshold on the KL term of a VAE. B examples, P latent dimensions."""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor

from weft.core.contracts import FreeBits
from weft.core.options import NonNegative
from weft.core.registry import block

Per = Literal["example", "batch"]
"""What is compared with the threshold: the KL divergence of each example, or its mean over the batch."""


@block("clamp")
class ClampFreeBits(FreeBits):
    """Free bits by clamping: each latent dimension contributes at least ``nats`` to the KL term.

    sum_i max(nats, KL_i)

    Kingma et al. 2016, https://arxiv.org/abs/1606.04934; in this form: Li et al. 2020 (OPTIMUS), https://arxiv.org/abs/2004.04092

    Args:
        nats: Lower bound of the KL term of a dimension; 0 = the plain KL divergence.
        per: What is compared with ``nats``: the KL of each example, or its mean over the batch (Li et al. 2019,
            https://arxiv.org/abs/1909.00868).

    Example:
        >>> ClampFreeBits(nats=0.5).kl_term(torch.tensor([[0.25, 2.0]])).tolist()
        [2.5]
    """

    def __init__(self, *, nats: NonNegative = 0.0, per: Per = "example"):
        self.nats, self.per = nats, per

    def kl_term(self, kl_BP: Tensor) -> Tensor:
        if self.per == "example":
            return kl_BP.clamp(min=self.nats).sum(-1)
        free_P = kl_BP.mean(0) < self.nats
        return torch.where(free_P, self.nats, kl_BP).sum(-1)


@block("threshold")
class ThresholdFreeBits(FreeBits):
    """Free bits by thresholding: a latent dimension contributes its KL only where that exceeds ``nats``, else 0.

    sum_i 1[KL_i > nats] KL_i, which has the same gradient as ``clamp``

    The form in the code of Li et al. 2020 (OPTIMUS), https://arxiv.org/abs/2004.04092

    Args:
        nats: KL divergence up to which a dimension is free.
        per: What is compared with ``nats``: the KL of each example, or its mean over the batch.

    Example:
        >>> ThresholdFreeBits(nats=0.5).kl_term(torch.tensor([[0.25, 2.0]])).tolist()
        [2.0]
    """

    def __init__(self, *, nats: NonNegative = 0.0, per: Per = "example"):
        self.nats, self.per = nats, per

    def kl_term(self, kl_BP: Tensor) -> Tensor:
        above = kl_BP > self.nats if self.per == "example" else (kl_BP.mean(0) > self.nats).expand_as(kl_BP)
        return (kl_BP * above).sum(-1)
