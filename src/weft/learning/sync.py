"""How gradients are exchanged between processes. After ``finish``, ``.grad`` is the sum over processes."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from typing import Any

from torch import nn


class Alone:
    """One process: there is nobody to exchange with."""

    rank = 0
    world = 1

    def attach(self, step: nn.Module, parameters: Sequence[nn.Parameter]) -> None:
        """Called once per phase, before the first update."""

    def hold(self) -> Any:
        return contextlib.nullcontext()

    def finish(self) -> None:
        """Called after the last backward of an update."""

    def total(self, counts: dict[str, float]) -> dict[str, float]:
        """Counts summed over all processes."""
        return counts
