"""A phase at work: its parameters, its optimiser, its batches."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import torch
from torch import nn

from weft.core.batch import Batch, Clock
from weft.core.contracts import Annealing, Feed, Objective, Sync
from weft.core.loss import Loss
from weft.learning.gradient import Gradient
from weft.learning.network import Network, Step, picked
from weft.learning.nonfinite import tensors_in
from weft.learning.phase import Phase

_SERIOUS = 4
"""Who makes fewer updates only tries whether it runs."""


@dataclass(frozen=True)
class Micro:
    """A micro-batch of this process. One that is not real stands in where it has no rows: it counts nothing, but every process
    must go through the step as often as the others."""

    batch: Batch
    real: bool = True


class NeverRuns(ValueError):
    """A phase whose ``start`` is after the last round."""


class Active:
    """A phase with what it works on."""

    def __init__(
        self, name: str, phase: Phase, network: Network, objective: Objective, feed: Feed, learning: Gradient, sync: Sync
    ):
        self.name, self.phase, self.objective, self.feed, self.sync = name, phase, objective, feed, sync
        own = network.parameters()
        names = picked(own, phase.train)
        for glob in phase.train:
            if not picked(own, [glob]):
                tops = ", ".join(dict.fromkeys(n.partition(".")[0] + ".*" for n in own))
                raise ValueError(f"phase {name}: train {glob!r} matches no parameter (there are: {tops})")
        self.lr_factors = learning.lr_factors if phase.lr_factors is None else phase.lr_factors
        for glob in self.lr_factors:
            if not picked(own if phase.lr_factors is None else names, [glob]):
                raise ValueError(f"phase {name}: lr_factors has {glob!r}, which matches no parameter that is trained")
        names = [n for n in names if self.rate(n)]
        if not names:
            raise ValueError(f"phase {name}: lr_factors freezes all parameters that it trains")
        self.collects = type(objective).collect is not Objective.collect
        self.frozen = set(network.buffers()) - set(picked(network.buffers(), phase.train))
        step: nn.Module = Step(network.model, objective)

        def attach(step: nn.Module) -> Callable[[Batch, Clock], Loss]:
            return sync.attach(step, [own[n] for n in names])

        self.step: Callable[[Batch, Clock], Loss] = compiled(step, attach) if learning.compile else attach(step)
        now = network.parameters()  # others of the same names, if they are sharded now
        self.parameters = {n: now[n] for n in names}
        self._optimizer = phase.optimizer or learning.optimizer
        self.schedule = (phase.schedule or learning.schedule)()
        self.clip = learning.clip if phase.clip is None else phase.clip
        self.accumulate = phase.accumulate or learning.accumulate
        self.start, self.every = (w["epochs"] * len(feed) if isinstance(w, dict) else w for w in (phase.start, phase.every))
        self.total = max(0, -(-(learning.steps - self.start) // self.every)) * phase.repeat * phase.reuse

        if self.total == 0:
            steps = learning.steps
            raise NeverRuns(
                f"phase {name} never runs: it starts in round {self.start}, and there are {steps}: start must be below {steps}, "
                f"or steps above {self.start}"
            )
        for what, part in vars(objective).items():
            if isinstance(part, Annealing):
                try:
                    part.check(self.total)
                except ValueError as error:
                    raise ValueError(f"phase {name}: {what}: {error}") from None
                if self.total >= _SERIOUS and part.weight(1.0) and not part.weight((self.total - 1) / self.total):
                    raise ValueError(
                        f"phase {name}: {what}: it is still 0 in the last of {self.total} updates: "
                        "take more of them (more steps, or an earlier start), or a weight that rises sooner"
                    )

    def rate(self, name: str) -> float:
        """The factor of a parameter's learning rate: that of the first glob that fits."""
        return next((factor for glob, factor in self.lr_factors.items() if picked([name], [glob])), 1.0)

    @cached_property
    def optimizer(self) -> torch.optim.Optimizer:
        """Built when it is first asked for: who only looks at a phase need not wait for it."""
        groups: dict[float, list[nn.Parameter]] = {}
        for name, parameter in self.parameters.items():
            groups.setdefault(self.rate(name), []).append(parameter)
        optimizer = self._optimizer([{"params": some} for some in groups.values()]).inner
        for group, factor in zip(optimizer.param_groups, groups, strict=True):
            group["peak"] = group["lr"] * factor
        return optimizer

    def due(self, round_: int) -> bool:
        return round_ >= self.start and (round_ - self.start) % self.every == 0


def only(parameters: Mapping[str, nn.Parameter], names: Iterable[str]) -> None:
    """Train these and no others."""
    names = set(names)
    for name, parameter in parameters.items():
        parameter.requires_grad_(name in names)


def compiled(step: nn.Module, attach: Callable[[Any], Any] = lambda step: step) -> Callable[[Batch, Clock], Loss]:
    """The step by torch.compile, once for all sizes: rows and lengths differ from batch to batch."""
    inner = attach(torch.compile(step))

    def call(batch: Batch, clock: Clock) -> Loss:
        for tensor in tensors_in(batch.fields):
            for axis in range(min(2, tensor.ndim)):
                torch._dynamo.maybe_mark_dynamic(tensor, axis)
        return inner(batch, clock)

    return call
