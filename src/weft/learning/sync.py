"""What the gradient synchronization methods share: a training step in the form that torch's wrappers need."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn

from weft.core.batch import Batch, Clock
from weft.core.contracts import Sync
from weft.core.loss import Loss


class NoSync(Sync):
    """A single process: there are no gradients to synchronize."""

    def attach(self, step: nn.Module, parameters: Sequence[nn.Parameter]) -> Callable[[Batch, Clock], Loss]:
        return step


class StepTotals(nn.Module):
    """A training step that returns a plain dict of tensors, for torch's data-parallel wrappers.

    The wrappers search the output for tensors to find which parameters backward will reach. Every process must run backward,
    including one whose examples use none of the trained parameters: there, one parameter gets a gradient of zero.

    Args:
        step: Model and objective as one module.
    """

    def __init__(self, step: nn.Module):
        super().__init__()
        self.step = step
        self.terms = Loss()

    def forward(self, batch: Batch, clock: Clock) -> dict[str, Tensor]:
        self.terms = self.step(batch, clock)
        totals = {name: term.total for name, term in self.terms.items()}
        if not any(total.requires_grad for total in totals.values()):
            trained = next(p for p in self.step.parameters() if p.requires_grad)
            totals = {name: total + 0 * trained.sum() for name, total in totals.items()}
        return totals

    def wrap(self, wrapped: nn.Module, grad_scale: int = 1) -> Callable[[Batch, Clock], Loss]:
        """Return the step as a callable that goes through a wrapper of this module.

        Args:
            wrapped: The wrapper, such as ``DistributedDataParallel(self)``; or this module itself.
            grad_scale: Factor of the gradients.
        """

        def call(batch: Batch, clock: Clock) -> Loss:
            totals = wrapped(batch, clock)
            terms, self.terms = self.terms, Loss()  # a reference would keep the graph alive until the next call
            return Loss(
                {name: replace(term, total=_ScaleGradient.apply(totals[name], grad_scale)) for name, term in terms.items()}
            )

        return call


class _ScaleGradient(torch.autograd.Function):
    """Identity in the forward pass; multiplies the gradient, so that the logged value is not scaled."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, factor: int) -> Tensor:
        ctx.factor = factor
        return x.view_as(x)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None]:
        return gradients[0] * ctx.factor, None
