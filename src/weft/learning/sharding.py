"""Tensors of which each process holds a part (torch's DTensor), and whole ones: to save, to load, to look at."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from torch import Tensor


def is_sharded(tensor: Tensor) -> bool:
    return hasattr(tensor, "full_tensor")


def gathered(tensor: Tensor) -> Tensor:
    """The whole tensor, for every process; all of them must ask. One that is whole is given back as it is."""
    whole: Any = tensor
    return whole.full_tensor() if is_sharded(tensor) else tensor


def gathered_all(named: Mapping[str, Tensor]) -> dict[str, Tensor]:
    return {name: gathered(tensor) for name, tensor in named.items()}


def spread(whole: Tensor, like: Tensor) -> Tensor:
    """A whole tensor, which every process has, laid out as ``like``."""
    if not is_sharded(like) or is_sharded(whole):
        return whole
    from torch.distributed.tensor import distribute_tensor

    layout: Any = like
    there = whole.to(layout.device)
    return distribute_tensor(there, layout.device_mesh, layout.placements, src_data_rank=None)
