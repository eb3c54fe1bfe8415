"""Constraints on the trained parameters, applied after each optimizer step."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import nn

from weft.core.contracts import Constraint
from weft.core.options import Positive
from weft.core.registry import block


@block("clip-weights")
class ClipWeights(Constraint):
    """Weight clipping to a box, as in the critic of a Wasserstein GAN.

    w <- min(max(w, -limit), limit)

    Arjovsky et al. 2017 (WGAN), https://arxiv.org/abs/1701.07875

    Args:
        limit: Maximum absolute value of a weight.

    Example:
        >>> weight = nn.Parameter(torch.tensor([-3.0, 0.5, 3.0]))
        >>> ClipWeights(limit=1.0).apply({"weight": weight})
        >>> weight.tolist()
        [-1.0, 0.5, 1.0]
    """

    def __init__(self, *, limit: Positive = 0.01):
        if not limit > 0:
            raise ValueError(f"limit must be above 0, not {limit}")
        self.limit = limit

    @torch.no_grad()
    def apply(self, parameters: Mapping[str, nn.Parameter]) -> None:
        for parameter in parameters.values():
            parameter.clamp_(-self.limit, self.limit)
