"""A phase at work: its parameters, its optimiser, its batches."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property

import torch

from weft.batch import Batch, Clock, Loss
from weft.learning.gradient import Gradient
from weft.learning.network import Network, Step, picked
from weft.learning.nonfinite import tensors_in
from weft.learning.phase import Phase
from weft.slots import Feed, Objective


class Active:
    """A phase with what it works on."""

    def __init__(self, name: str, phase: Phase, network: Network, objective: Objective, feed: Feed, learning: Gradient):
        self.name, self.phase, self.objective, self.feed = name, phase, objective, feed
        own = network.parameters()
        self.parameters = {n: own[n] for n in picked(own, phase.train)}
        for glob in phase.train:
            if not picked(own, [glob]):
                tops = ", ".join(dict.fromkeys(n.partition(".")[0] + ".*" for n in own))
                raise ValueError(f"phase {name}: train {glob!r} matches no parameter (there are: {tops})")
        self.frozen = set(network.buffers()) - set(picked(network.buffers(), phase.train))
        step = Step(network.model, objective)
        self.step: Callable[[Batch, Clock], Loss] = compiled(step) if learning.compile else step
        self._optimizer = phase.optimizer or learning.optimizer
        self.schedule = (phase.schedule or learning.schedule)()
        self.clip = learning.clip if phase.clip is None else phase.clip
        self.accumulate = phase.accumulate or learning.accumulate
        self.start, self.every = (w["epochs"] * len(feed) if isinstance(w, dict) else w for w in (phase.start, phase.every))
        self.total = max(0, -(-(learning.steps - self.start) // self.every)) * phase.repeat * phase.reuse

        if self.total == 0:
            raise ValueError(f"phase {name} never runs: it starts in round {self.start}, and there are {learning.steps}")

    @cached_property
    def optimizer(self) -> torch.optim.Optimizer:
        """Built when it is first asked for: who only looks at a phase need not wait for it."""
        optimizer = self._optimizer([{"params": list(self.parameters.values())}]).inner
        for group in optimizer.param_groups:
            group["peak"] = group["lr"]
        return optimizer

    def due(self, round_: int) -> bool:
        return round_ >= self.start and (round_ - self.start) % self.every == 0


def compiled(step: Step) -> Callable[[Batch, Clock], Loss]:
    """The step by torch.compile, once for all sizes: rows and lengths differ from batch to batch."""
    inner = torch.compile(step)

    def call(batch: Batch, clock: Clock) -> Loss:
        for tensor in tensors_in(batch.fields):
            for axis in range(min(2, tensor.ndim)):
                torch._dynamo.maybe_mark_dynamic(tensor, axis)
        return inner(batch, clock)

    return call
