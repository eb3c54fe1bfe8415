"""A phase during training: its parameters, optimizer, schedule and batches."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import torch
from torch import nn

from weft.core.batch import Batch, Clock
from weft.core.contracts import Annealing, BatchSource, Objective, Sync
from weft.core.loss import Loss
from weft.core.options import OptionError
from weft.learning.gradient import Gradient
from weft.learning.network import Network, TrainingStep, match_globs
from weft.learning.nonfinite import tensors_in
from weft.learning.phase import Phase

_MIN_UPDATES = 4
"""Annealed weights are checked from this many updates on; shorter runs are smoke tests."""


@dataclass(frozen=True)
class MicroBatch:
    """A micro-batch of this process.

    Args:
        batch: The examples.
        real: False for a stand-in where this process has no examples. Its loss is multiplied by 0, but all processes must run
            the same number of forward and backward passes.
    """

    batch: Batch
    real: bool = True


class PhaseNeverRunsError(ValueError):
    """The ``start`` of a phase is after the last step."""


class ActivePhase:
    """A phase bound to a network, an objective and batches.

    Args:
        name: Name in logs and checkpoints.
        phase: Options of the phase.
        network: Model and objectives.
        objective: Objective of the phase.
        feed: Batches of the phase.
        learning: Defaults of the options that the phase leaves out.
        sync: Gradient synchronization.
    """

    def __init__(
        self, name: str, phase: Phase, network: Network, objective: Objective, feed: BatchSource, learning: Gradient, sync: Sync
    ):
        self.name, self.phase, self.objective, self.feed, self.sync = name, phase, objective, feed, sync
        self.lr_factors = learning.lr_factors if phase.lr_factors is None else phase.lr_factors
        own = network.parameters()
        names = self._trained_names(own)
        self.collects = type(objective).collect is not Objective.collect
        self.frozen = set(network.buffers()) - set(match_globs(network.buffers(), phase.train))
        step: nn.Module = TrainingStep(network.model, objective)

        def attach(step: nn.Module) -> Callable[[Batch, Clock], Loss]:
            return sync.attach(step, [own[n] for n in names])

        self.step: Callable[[Batch, Clock], Loss] = compile_step(step, attach) if learning.compile else attach(step)
        now = network.parameters()  # FSDP replaces the parameters by sharded ones of the same names
        self.parameters = {n: now[n] for n in names}
        self._optimizer = phase.optimizer or learning.optimizer
        self.schedule = (phase.schedule or learning.schedule)()
        self.clip = learning.clip if phase.clip is None else phase.clip
        self.accumulate = phase.accumulate or learning.accumulate
        self.start, self.every = (w["epochs"] * len(feed) if isinstance(w, dict) else w for w in (phase.start, phase.every))
        self.total = max(0, -(-(learning.steps - self.start) // self.every)) * phase.repeat * phase.reuse
        if self.total == 0:
            steps = learning.steps
            raise PhaseNeverRunsError(
                f"phase {name} never runs: its start is step {self.start}, but steps is {steps}; "
                f"set start below {steps}, or steps above {self.start}"
            )
        self._check_annealing()

    def _trained_names(self, parameters: Mapping[str, nn.Parameter]) -> list[str]:
        """Return the names of the parameters that the phase trains. Raises ValueError for a glob without a match."""
        train = self.phase.train
        names = match_globs(parameters, train)
        for glob in train:
            if not match_globs(parameters, [glob]):
                text = f"phase {self.name}: train: {glob!r} matches no parameter (available: {_modules(parameters)})"
                raise OptionError("train", text)
        for glob in self.lr_factors:
            if not match_globs(parameters if self.phase.lr_factors is None else names, [glob]):
                text = f"phase {self.name}: lr_factors: {glob!r} matches no trained parameter (available: {_modules(names)})"
                raise OptionError("lr_factors", text)
        names = [n for n in names if self.lr_factor(n)]
        if not names:
            raise OptionError("lr_factors", f"phase {self.name}: lr_factors freezes all parameters of the phase; set one above 0")
        return names

    def _check_annealing(self) -> None:
        """Raise ValueError for an annealed weight of the objective that does not fit the number of updates."""
        for option, part in vars(self.objective).items():
            if not isinstance(part, Annealing):
                continue
            try:
                part.check(self.total)
            except ValueError as error:
                raise ValueError(f"phase {self.name}: {option}: {error}") from None
            if self.total >= _MIN_UPDATES and part.weight(1.0) and not part.weight((self.total - 1) / self.total):
                raise ValueError(
                    f"phase {self.name}: {option}: the weight is still 0 in the last of {self.total} updates; "
                    "use more updates (more steps, or an earlier start), or a weight that rises earlier"
                )

    def lr_factor(self, name: str) -> float:
        """Return the learning-rate factor of a parameter: that of the first glob that matches, else 1."""
        return next((factor for glob, factor in self.lr_factors.items() if match_globs([name], [glob])), 1.0)

    @cached_property
    def optimizer(self) -> torch.optim.Optimizer:
        """The optimizer, with one parameter group per learning-rate factor; built on first use."""
        groups: dict[float, list[nn.Parameter]] = {}
        for name, parameter in self.parameters.items():
            groups.setdefault(self.lr_factor(name), []).append(parameter)
        optimizer = self._optimizer([{"params": parameters} for parameters in groups.values()]).inner
        for group, factor in zip(optimizer.param_groups, groups, strict=True):
            group["peak"] = group["lr"] * factor
        return optimizer

    def runs_in(self, step: int) -> bool:
        """Return whether the phase runs in a step."""
        return step >= self.start and (step - self.start) % self.every == 0


def train_only(parameters: Mapping[str, nn.Parameter], names: Iterable[str]) -> None:
    """Set ``requires_grad`` for these parameters and unset it for all others."""
    names = set(names)
    for name, parameter in parameters.items():
        parameter.requires_grad_(name in names)


def _modules(names: Iterable[str]) -> str:
    """Return globs for the modules of parameters, for a message."""
    return ", ".join(dict.fromkeys(name.partition(".")[0] + ".*" for name in names))


def compile_step(step: nn.Module, attach: Callable[[Any], Any] = lambda step: step) -> Callable[[Batch, Clock], Loss]:
    """Compile a training step with ``torch.compile``, once for all batch sizes and lengths."""
    inner = attach(torch.compile(step))

    def call(batch: Batch, clock: Clock) -> Loss:
        for tensor in tensors_in(batch.fields):
            for axis in range(min(2, tensor.ndim)):
                torch._dynamo.maybe_mark_dynamic(tensor, axis)
        return inner(batch, clock)

    return call
