"""Contracts of learning: optimizers, schedules, constraints, gradient synchronization."""

from __future__ import annotations

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
    """How gradients become steps: ``inner`` is a torch optimiser over ``groups`` of parameters."""

    inner: torch.optim.Optimizer

    def __init__(self, groups: list[dict[str, Any]]):
        pass


@slot
class Schedule:
    """The learning rate over time, as a factor of the optimiser's ``lr``."""

    def __init__(self):
        pass

    def factor(self, update: int, updates: int) -> float:
        """For update 0, 1, ... of ``updates``."""
        raise TypeError(f"{type(self).__name__} has no factor")


@slot
class Constraint:
    """Applied to the trained parameters after each step: WGAN clipping, lottery masks."""

    def __init__(self):
        pass

    def apply(self, parameters: Mapping[str, nn.Parameter]) -> None:
        raise TypeError(f"{type(self).__name__} has no apply")


@slot
class Sync:
    """How gradients are exchanged between processes; there is one for each phase. After ``finish``, ``.grad`` is the sum over
    processes, and None where no process has one."""

    def __init__(self):
        pass

    def attach(self, step: nn.Module, parameters: Sequence[nn.Parameter]) -> Callable[[Batch, Clock], Loss]:
        """Called once, before the optimiser is made, with what the phase trains; gives what is called in place of ``step``.
        It may replace the parameters in the modules by others of the same names."""
        raise TypeError(f"{type(self).__name__} has no attach")

    def hold(self) -> AbstractContextManager[Any]:
        """A context in which backward does not exchange yet (all but the last micro-batch)."""
        return nullcontext()

    def finish(self) -> None:
        """Called after the last backward of an update."""

    def whole(self) -> AbstractContextManager[Any]:
        """A context in which a process can use the modules by itself; all of them must enter it."""
        return nullcontext()


class Feed(Protocol):
    """Batches of one dataset for one objective: a pure function of the number of the draw."""

    def __len__(self) -> int:
        """Batches per epoch."""
        ...

    def batch(self, draw: int, without: frozenset[int] = frozenset(), rank: int = 0, world: int = 1) -> Batch | None:
        """The batch of that draw, prepared and collated; None when no row of it is left."""
        ...


@slot
class Learning:
    """How the weights move."""

    def __init__(self):
        pass
