"""Sharded tensors (torch's DTensor): convert to full tensors and back."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from torch import Tensor


def is_sharded(tensor: Tensor) -> bool:
    """Return whether each process holds only a shard of the tensor."""
    return hasattr(tensor, "full_tensor")


def full_tensor(tensor: Tensor) -> Tensor:
    """Return the full tensor. A collective operation for sharded tensors: all processes must call it."""
    sharded: Any = tensor
    return sharded.full_tensor() if is_sharded(tensor) else tensor


def full_tensors(named: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Return the full tensors by name. A collective operation for sharded tensors."""
    return {name: full_tensor(tensor) for name, tensor in named.items()}


def shard_like(full: Tensor, like: Tensor) -> Tensor:
    """Return a full tensor, which every process holds, sharded as ``like``."""
    if not is_sharded(like) or is_sharded(full):
        return full
    from torch.distributed.tensor import distribute_tensor

    sharded: Any = like
    return distribute_tensor(full.to(sharded.device), sharded.device_mesh, sharded.placements, src_data_rank=None)
