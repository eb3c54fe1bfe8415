"""Fully sharded data parallelism: every process has a shard of the weights and a part of each batch."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Any

from torch import nn

from weft.core.batch import Batch, Clock
from weft.core.contracts import Sync
from weft.core.loss import Loss
from weft.core.registry import block
from weft.learning.sync import StepTotals


@block("fsdp")
class FSDP(Sync):
    """Shard weights, gradients and optimizer state over all processes (torch's FSDP2, ``fully_shard``).

    g_r = shard r of sum_s g_s over processes s;  process r updates its shard with its shard of the optimizer state

    The weights are gathered for the training step and freed after it. The full step is one unit, so any structure can be used.
    Checkpoints contain full tensors: a run can be resumed with another number of processes, or with ddp.

    Zhao et al. 2023, https://arxiv.org/abs/2304.11277

    Example:
        >>> FSDP().module is None
        True
    """

    def __init__(self):
        self.module: Any = None

    def attach(self, step: nn.Module, parameters: Sequence[nn.Parameter]) -> Callable[[Batch, Clock], Loss]:
        import torch.distributed as dist
        from torch.distributed.device_mesh import init_device_mesh
        from torch.distributed.fsdp import fully_shard

        totals = StepTotals(step)
        self.module = fully_shard(totals, mesh=init_device_mesh(parameters[0].device.type, (dist.get_world_size(),)))
        self.module.set_gradient_divide_factor(1.0)  # a sum, not a mean
        self.module.set_force_sum_reduction_for_comms(True)
        if hasattr(self.module, "set_reduce_scatter_unused_params"):  # newer versions of torch: a process may not use a head
            self.module.set_reduce_scatter_unused_params(True)
        return totals.wrap(totals)

    def no_sync(self) -> AbstractContextManager[None]:
        return self._held()

    @contextmanager
    def _held(self) -> Iterator[None]:
        self.module.set_requires_gradient_sync(False)
        yield
        self.module.set_requires_gradient_sync(True)

    @contextmanager
    def unsharded(self) -> Iterator[None]:
        self.module.unshard()
        yield
        self.module.reshard()
