"""Where training stands, and what the loop tells of and asks."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Protocol

from torch import Tensor


@dataclass
class Progress:
    """Where training stands: all that a checkpoint needs besides tensors."""

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


class Watcher(Protocol):
    """What the loop tells of, and asks."""

    def logged(self, row: dict[str, Any]) -> None: ...

    def evaluate(self, progress: Progress, last: bool) -> float | None:
        """Evaluate if it is time; the figure that decides which weights are best (larger is better), or None."""
        ...

    def save(self, tensors: dict[str, dict[str, Tensor]], documents: dict[str, Any], progress: Progress) -> None: ...

    def restore(self) -> tuple[dict[str, dict[str, Tensor]], dict[str, Any]]:
        """The newest valid checkpoint's tensors and documents."""
        ...

    def wants_stop(self) -> bool: ...


class Interrupted(Exception):
    """Training was asked to stop and has saved where it stands."""
