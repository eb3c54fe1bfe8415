"""The one dense map of weft."""

from __future__ import annotations

from torch import Tensor, nn

from weft.blocks.matmul import linear


class Linear(nn.Linear):
    """y = x W^T + b, the only dense map that blocks use.

    Whatever replaces dense maps (low-rank adapters, quantised or pruned weights) is a subclass that keeps the names
    ``weight`` and ``bias``.

    Example:
        >>> import torch
        >>> Linear(3, 5)(torch.ones(2, 3)).shape
        torch.Size([2, 5])
    """

    def forward(self, input: Tensor) -> Tensor:
        return linear(input, self.weight, self.bias)
