"""Where training stands, and what the loop tells of and asks."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Protocol

from torch import Tensor


@dataclass
class Spent:
    """Seconds that training took so far, by what they went into. Exchange between processes is in ``backward``."""

    data: float = 0.0
    forward: float = 0.0
    backward: float = 0.0
    optimizer: float = 0.0

    @contextmanager
    def on(self, what: str) -> Iterator[None]:
        """The time within it counts."""
        began = time.perf_counter()
        try:
            yield
        finally:
            setattr(self, what, getattr(self, what) + time.perf_counter() - began)


@dataclass
class Progress:
    """Where training stands: all that a checkpoint needs besides tensors.

    ``elapsed`` are the seconds of all rounds, without evaluation and saving; ``spent`` is what they went into.
    """

    stage: int = 0
    round: int = 0
    updates: dict[str, int] = field(default_factory=dict)
    drawn: dict[str, int] = field(default_factory=dict)
    left_out: dict[str, list[int]] = field(default_factory=dict)
    skips: int = 0
    skipped: dict[str, list[int]] = field(default_factory=dict)
    tokens: int = 0
    best: float | None = None
    best_round: int | None = None
    stale: int = 0
    stopped: bool = False
    elapsed: float = 0.0
    spent: Spent = field(default_factory=Spent)

    def __post_init__(self) -> None:
        if isinstance(self.spent, dict):  # as a checkpoint has it
            self.spent = Spent(**self.spent)


class Watcher(Protocol):
    """What the loop tells of, and asks. Of several processes, only the first one's logs, evaluates, saves and restores."""

    def logged(self, row: dict[str, Any]) -> None: ...

    def due(self, progress: Progress, last: bool) -> bool:
        """Whether it is time to evaluate."""
        ...

    def evaluate(self, progress: Progress, last: bool) -> float | None:
        """Evaluate, being asked when it is time; the figure that decides which weights are best (larger is better), or None."""
        ...

    def save(self, tensors: dict[str, dict[str, Tensor]], documents: dict[str, Any], progress: Progress) -> None: ...

    def restore(self) -> tuple[dict[str, dict[str, Tensor]], dict[str, Any]]:
        """The newest valid checkpoint's tensors and documents."""
        ...

    def should_stop(self) -> bool: ...


class Interrupted(Exception):
    """Training was asked to stop and has saved where it stands."""
