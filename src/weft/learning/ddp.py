"""Distributed data parallelism: every process has all weights and a part of each batch."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import Any

from torch import nn

from weft.core.batch import Batch, Clock
from weft.core.contracts import Sync
from weft.core.loss import Loss
from weft.core.options import Count
from weft.core.registry import block
from weft.learning.sync import StepTotals


@block("ddp")
class DDP(Sync):
    """Sum the gradients over all processes during the backward pass (torch's DistributedDataParallel).

    g = sum_r g_r over processes r, in buckets, each sent as soon as its last gradient is computed

    Unused parameters are found in every step (``find_unused_parameters``), so a phase may train a part of the network and a
    batch may not use a head. Phases that train the same parameters need all-reduce.

    Li et al. 2020, https://arxiv.org/abs/2006.15704

    Args:
        bucket: Bucket size in megabytes: gradients that are sent together.

    Example:
        >>> DDP(bucket=4).bucket
        4
    """

    def __init__(self, *, bucket: Count = 25):
        self.bucket = bucket

    def attach(self, step: nn.Module, parameters: Sequence[nn.Parameter]) -> Callable[[Batch, Clock], Loss]:
        import torch.distributed as dist
        from torch.nn.parallel import DistributedDataParallel

        trained = set(parameters)
        for parameter in step.parameters():  # the wrapper registers the parameters that require a gradient now
            parameter.requires_grad_(parameter in trained)
        totals = StepTotals(step)
        known = inspect.signature(DistributedDataParallel).parameters
        buffers = (
            "forward_sync_buffers" if "forward_sync_buffers" in known else "broadcast_buffers"
        )  # renamed in newer versions of torch
        options: dict[str, Any] = {"find_unused_parameters": True, "bucket_cap_mb": self.bucket, buffers: False}
        self.wrapped = DistributedDataParallel(totals, **options)
        return totals.wrap(self.wrapped, dist.get_world_size())  # the wrapper computes the mean over processes

    def no_sync(self) -> AbstractContextManager[Any]:
        return self.wrapped.no_sync()
