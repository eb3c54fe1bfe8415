"""Data parallelism with one all-reduce after the backward pass; processes may use different parameters."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import torch
from torch import Tensor, nn

from weft.core.batch import Batch, Clock
from weft.core.contracts import Sync
from weft.core.loss import Loss
from weft.core.options import Count
from weft.core.registry import block
from weft.learning.sync import StepTotals


@block("all-reduce")
class AllReduce(Sync):
    """Sum the gradients over all processes after backward, bucket by bucket.

    g = sum_r g_r over processes r; None where no process has a gradient

    Slower than ddp, which overlaps communication with the backward pass. In exchange, several phases may train the same
    parameters: torch's wrapper tracks the parameters that backward reached and cannot tell phases apart.

    Patarasuk and Yuan 2009 (all-reduce in a ring), https://doi.org/10.1016/j.jpdc.2008.09.002

    Args:
        bucket: Bucket size in megabytes: gradients that are sent together.

    Example:
        >>> AllReduce(bucket=4).bucket
        4
    """

    def __init__(self, *, bucket: Count = 25):
        self.bucket = bucket
        self.parameters: list[nn.Parameter] = []

    def attach(self, step: nn.Module, parameters: Sequence[nn.Parameter]) -> Callable[[Batch, Clock], Loss]:
        self.parameters = list(parameters)
        totals = StepTotals(step)
        return totals.wrap(totals)

    @torch.no_grad()
    def finish(self) -> None:
        import torch.distributed as dist

        used = torch.tensor([p.grad is not None for p in self.parameters], dtype=torch.int32)
        dist.all_reduce(used)
        reached = [p for p, processes in zip(self.parameters, used.tolist(), strict=True) if processes]
        for bucket in self._buckets(reached):
            flat = torch.cat([_gradient(p).flatten() for p in bucket])
            dist.all_reduce(flat)
            for parameter, summed in zip(bucket, flat.split([p.numel() for p in bucket]), strict=True):
                parameter.grad = summed.view_as(parameter)

    def _buckets(self, parameters: Sequence[nn.Parameter]) -> Iterator[list[nn.Parameter]]:
        """Yield parameters of one data type, up to the bucket size."""
        for dtype in dict.fromkeys(p.dtype for p in parameters):
            bucket: list[nn.Parameter] = []
            for parameter in (p for p in parameters if p.dtype is dtype):
                bucket.append(parameter)
                if sum(p.numel() * p.element_size() for p in bucket) >= self.bucket * 2**20:
                    yield bucket
                    bucket = []
            if bucket:
                yield bucket


def _gradient(parameter: nn.Parameter) -> Tensor:
    return torch.zeros_like(parameter) if parameter.grad is None else parameter.grad
