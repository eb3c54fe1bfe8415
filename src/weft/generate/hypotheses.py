"""The finished hypotheses of a row."""

from __future__ import annotations

import bisect
import math

from weft.core.outputs import Hypothesis


class HypothesisPool:
    """The ``size`` best hypotheses, best first."""

    def __init__(self, size: int):
        self.size = size
        self.found: list[Hypothesis] = []

    @property
    def worst(self) -> float:
        """The score that a new hypothesis must exceed."""
        return self.found[-1].score if len(self.found) == self.size else -math.inf

    def add(self, hypothesis: Hypothesis) -> None:
        """Insert a hypothesis; drop the worst where the pool is full."""
        bisect.insort(self.found, hypothesis, key=lambda h: -h.score)
        del self.found[self.size :]
