"""The sequences that a search has found for a row."""

from __future__ import annotations

import bisect
import math

from weft.core.outputs import Hypothesis


class Pool:
    """The ``size`` best sequences, best first."""

    def __init__(self, size: int):
        self.size = size
        self.found: list[Hypothesis] = []

    @property
    def worst(self) -> float:
        """The score that a new one must beat."""
        return self.found[-1].score if len(self.found) == self.size else -math.inf

    def add(self, hypothesis: Hypothesis) -> None:
        bisect.insort(self.found, hypothesis, key=lambda h: -h.score)
        del self.found[self.size :]
