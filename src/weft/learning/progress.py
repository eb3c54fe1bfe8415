"""Progress of training, and the callbacks of the training loop."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Protocol

from torch import Tensor

from weft.learning.divergence import LossTrend


@dataclass
class TimeSpent:
    """Seconds of training so far, by part of the training step. Communication between processes counts as ``backward``."""

    data: float = 0.0
    forward: float = 0.0
    backward: float = 0.0
    optimizer: float = 0.0

    @contextmanager
    def measure(self, part: str) -> Iterator[None]:
        """Add the time spent within the context to a part."""
        start = time.perf_counter()
        try:
            yield
        finally:
            setattr(self, part, getattr(self, part) + time.perf_counter() - start)


@dataclass
class Progress:
    """Progress of training: the part of a checkpoint that is not tensors. A step is one pass over the phases.

    Attributes:
        stage: Index of the stage.
        step: Number of finished steps.
        updates: Number of optimizer steps by phase.
        batches: Number of batches taken from the feed by phase.
        left_out: Examples excluded after rollbacks, by split.
        skips: Number of skipped updates and rollbacks.
        skipped: Examples of skipped updates, by split.
        counts: What the feeds have counted over all processes and sessions, by objective: skipped examples, real tokens,
            positions with padding.
        tokens: Number of training tokens.
        best: Best score in evaluation; None = not evaluated yet.
        best_step: Step of the best score.
        stale: Number of evaluations since the best score.
        stopped: Whether early stopping has ended training.
        trend: The training loss, to detect divergence; with several phases, whose losses may grow, it is empty.
        elapsed: Seconds of all steps, without evaluation and saving.
        spent: The same by part of the training step.
    """

    stage: int = 0
    step: int = 0
    updates: dict[str, int] = field(default_factory=dict)
    batches: dict[str, int] = field(default_factory=dict)
    left_out: dict[str, list[int]] = field(default_factory=dict)
    skips: int = 0
    skipped: dict[str, list[int]] = field(default_factory=dict)
    counts: dict[str, dict[str, int]] = field(default_factory=dict)
    tokens: int = 0
    best: float | None = None
    best_step: int | None = None
    stale: int = 0
    stopped: bool = False
    trend: LossTrend = field(default_factory=LossTrend)
    elapsed: float = 0.0
    spent: TimeSpent = field(default_factory=TimeSpent)

    def __post_init__(self) -> None:
        if isinstance(self.spent, dict):  # loaded from a checkpoint
            self.spent = TimeSpent(**self.spent)
        if isinstance(self.trend, dict):
            self.trend = LossTrend(**self.trend)


class LoopCallbacks(Protocol):
    """Callbacks of the training loop. With several processes, only the first one logs, evaluates, saves and restores."""

    def on_log(self, row: dict[str, Any]) -> None:
        """Called with the values of a log entry."""
        ...

    def should_evaluate(self, progress: Progress, last: bool) -> bool:
        """Return whether to evaluate after this step."""
        ...

    def evaluate(self, progress: Progress, last: bool) -> float | None:
        """Evaluate. Return the score that selects the best checkpoint (higher is better), or None."""
        ...

    def save(self, tensors: dict[str, dict[str, Tensor]], documents: dict[str, Any], progress: Progress) -> None:
        """Save a checkpoint."""
        ...

    def restore(self) -> tuple[dict[str, dict[str, Tensor]], dict[str, Any]]:
        """Return tensors and documents of the latest intact checkpoint."""
        ...

    def should_stop(self) -> bool:
        """Return whether to save a checkpoint and stop after this step."""
        ...


class Interrupted(Exception):
    """Training was interrupted on request, after it had saved a checkpoint."""
