"""Weights that change while training goes on."""

from __future__ import annotations

from weft.core.contracts import Annealing
from weft.core.options import Count, Fraction, NonNegative
from weft.core.registry import block

LEAST = 4
"""Fewest updates in which a cycle can begin at nothing, rise and stay."""


@block("steady")
class Steady(Annealing):
    """The same weight from the first update to the last.

    Args:
        top: The weight.

    Example:
        >>> Steady(top=0.5).weight(0.1)
        0.5
    """

    def __init__(self, *, top: NonNegative = 1.0):
        self.top = top

    def weight(self, share: float) -> float:
        return self.top


@block("ramp")
class Ramp(Annealing):
    """Nothing at first, then more and more, then all: once, or in several cycles.

    With s the share of a cycle that is done:  w = 0 for s < zero;  top (s - zero) / rise for s < zero + rise;  top after that

    Bowman et al. 2016, https://arxiv.org/abs/1511.06349; in cycles: Fu et al. 2019, https://arxiv.org/abs/1903.10145;
    the defaults: Li et al. 2020 (OPTIMUS), https://arxiv.org/abs/2004.04092

    Args:
        zero: Share of a cycle without any weight.
        rise: Share of a cycle in which the weight rises.
        top: The weight after that.
        cycles: How often this is gone through.

    Example:
        >>> [Ramp().weight(share) for share in (0.0, 0.5, 0.625, 0.75, 1.0)]
        [0.0, 0.0, 0.5, 1.0, 1.0]
    """

    def __init__(self, *, zero: Fraction = 0.5, rise: Fraction = 0.25, top: NonNegative = 1.0, cycles: Count = 1):
        if zero + rise > 1:
            raise ValueError(f"zero {zero:g} and rise {rise:g} are more than a whole cycle: together they may be 1 at most")
        if zero == 1:
            raise ValueError("zero is 1, a whole cycle: there would never be any weight")
        self.zero, self.rise, self.top, self.cycles = zero, rise, top, cycles

    def check(self, updates: int) -> None:
        if self.cycles > 1 and updates < LEAST * self.cycles:
            fewer = f"take {updates // LEAST} at most" if updates >= 2 * LEAST else "take one"
            raise ValueError(
                f"a ramp of {self.cycles} cycles in {updates} updates, but each of several needs {LEAST} at least: "
                f"{fewer}, or more updates"
            )

    def weight(self, share: float) -> float:
        done = share * self.cycles % 1 if share < 1 else 1.0
        if done < self.zero:
            return 0.0
        return self.top * (min((done - self.zero) / self.rise, 1.0) if self.rise else 1.0)


@block("decay")
class Decay(Annealing):
    """Less and less, always by the same factor.

    w = top left^share

    Args:
        top: The weight at first.
        left: What share of it is left at last.

    Example:
        >>> [round(Decay(top=2.0, left=0.25).weight(share), 2) for share in (0.0, 0.5, 1.0)]
        [2.0, 1.0, 0.5]
    """

    def __init__(self, *, top: NonNegative = 1.0, left: Fraction = 0.5):
        if not left:
            raise ValueError("left is 0, but a factor never brings a weight to nothing: take a small share, such as 0.01")
        self.top, self.left = top, left

    def weight(self, share: float) -> float:
        return self.top * self.left**share
