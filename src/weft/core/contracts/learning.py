"""Contracts of learning: optimizers, schedules, constraints, gradient synchronization."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any, Protocol

import torch
from torch import nn

from weft.core.batch import Batch, Clock
from weft.core.loss import Loss
from weft.core.registry import slot


@slot
class Optimizer:
    """Gradient-based optimizer: ``inner`` is a ``torch.optim.Optimizer`` over ``groups`` of parameters."""

    inner: torch.optim.Optimizer

    def __init__(self, groups: list[dict[str, Any]]):
        pass


@slot
class Schedule(ABC):
    """Learning-rate schedule, as a factor of the optimizer's ``lr``."""

    def __init__(self):
        pass

    @abstractmethod
    def factor(self, update: int, updates: int) -> float:
        """For update 0, 1, ... of ``updates``."""


@slot
class Constraint(ABC):
    """Applied to the trained parameters after each optimizer step: WGAN weight clipping, lottery-ticket masks."""

    def __init__(self):
        pass

    @abstractmethod
    def apply(self, parameters: Mapping[str, nn.Parameter]) -> None:
        """Change the parameters in place."""


@slot
class Sync(ABC):
    """Gradient synchronization between processes, one object per phase.

    After ``finish``, ``.grad`` is the sum over processes, and None where no process has a gradient.
    """

    def __init__(self):
        pass

    @abstractmethod
    def attach(self, step: nn.Module, parameters: Sequence[nn.Parameter]) -> Callable[[Batch, Clock], Loss]:
        """Return the callable to use in place of ``step``. Called once, before the optimizer is built, with the parameters that
        the phase trains; may replace parameters of the modules by others of the same names."""

    def no_sync(self) -> AbstractContextManager[object]:
        """A context in which the backward pass does not synchronize, for all micro-batches but the last."""
        return nullcontext()

    def finish(self) -> None:
        """Called after the last backward pass of an update."""

    def unsharded(self) -> AbstractContextManager[object]:
        """A context in which each process holds the full, unsharded parameters; all processes must enter it."""
        return nullcontext()


class BatchSource(Protocol):
    """Batches of one dataset for one objective: a pure function of the draw index."""

    name: str
    """Name of the objective."""

    def counts(self) -> dict[str, int]:
        """What was counted in the batches so far, by name: skipped examples, real tokens, positions with padding."""
        ...

    def __len__(self) -> int:
        """Batches per epoch."""
        ...

    def batch(self, draw: int, without: frozenset[int] = frozenset(), rank: int = 0, world: int = 1) -> Batch | None:
        """The batch of that draw, prepared and collated; None when no example of it is left."""
        ...


@slot
class Learning:
    """Optimization of the parameters: phases, optimizer, schedule, checkpoints."""

    def __init__(self):
        pass
