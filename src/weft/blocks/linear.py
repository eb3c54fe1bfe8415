"""The linear layer that all blocks use."""

from __future__ import annotations

from torch import Tensor, nn

from weft.blocks.matmul import linear


class Linear(nn.Linear):
    """Linear layer: y = x W^T + b.

    All blocks use this class instead of ``torch.nn.Linear``, so that a subclass (low-rank adapters, quantized
    or pruned weights) can be substituted everywhere. Subclasses keep the parameter names ``weight`` and ``bias``.

    Example:
        >>> import torch
        >>> Linear(3, 5)(torch.ones(2, 3)).shape
        torch.Size([2, 5])
    """

    def forward(self, input: Tensor) -> Tensor:
        return linear(input, self.weight, self.bias)
