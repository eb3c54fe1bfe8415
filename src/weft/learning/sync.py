"""How gradients are exchanged between processes. After ``finish``, ``.grad`` is the sum over processes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn

from weft.core.batch import Batch, Clock
from weft.core.contracts import Sync
from weft.core.loss import Loss


class Alone(Sync):
    """One process: there is nobody to exchange with."""

    def attach(self, step: nn.Module, parameters: Sequence[nn.Parameter]) -> Callable[[Batch, Clock], Loss]:
        return step


class Totals(nn.Module):
    """A step as torch's wrappers want it: its result is a plain dict of tensors, and depends on something that is trained.

    They look for tensors in the result, to know what backward will reach, and every process must go through backward: also one
    whose rows happen to use none of the trained parameters. It then gives one of them a gradient of zero.
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

    def through(self, wrapped: nn.Module, times: int = 1) -> Callable[[Batch, Clock], Loss]:
        """The step again, by way of what was wrapped around this module; its gradients are so many times as large."""

        def call(batch: Batch, clock: Clock) -> Loss:
            totals = wrapped(batch, clock)
            terms, self.terms = self.terms, Loss()  # or the graph would live until the next call
            return Loss({name: replace(term, total=_Times.apply(totals[name], times)) for name, term in terms.items()})

        return call


class _Times(torch.autograd.Function):
    """The same number with a larger gradient: were the number itself larger, it would have to be divided again to be logged."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, times: int) -> Tensor:
        ctx.times = times
        return x.view_as(x)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None]:
        return gradients[0] * ctx.times, None
