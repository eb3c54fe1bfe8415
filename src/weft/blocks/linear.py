"""The linear layer that all blocks use."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

from torch import Tensor, nn
from torch.nn.modules.module import _has_any_global_hook

from weft.blocks.matmul import linear
from weft.blocks.prepared import prepared_weights


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


def joint_products(x: Tensor, layers: Sequence[nn.Module], owner: nn.Module) -> list[Tensor] | None:
    """The outputs of several linear layers of a module for one input, where their weights are prepared for a single product.

    None where the layers have to be called one by one: in training, and for layers of other classes or with hooks. A module with
    hooks has to be called too.
    """
    prepared = prepared_weights(x)
    if prepared is None or not _is_bare(owner) or not all(type(layer) is Linear and _is_bare(layer) for layer in layers):
        return None
    return prepared.products(x, cast(Sequence[nn.Linear], layers))


def _is_bare(module: nn.Module) -> bool:
    """Whether calling the module does nothing but its ``forward``: it has no hooks, and its ``forward`` is that of its class."""
    hooked = module._forward_hooks or module._forward_pre_hooks or _has_any_global_hook() or "forward" in vars(module)
    return not hooked
