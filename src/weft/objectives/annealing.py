"""Annealing: loss weights and noise scales that change during training."""

from __future__ import annotations

from weft.core.contracts import Annealing
from weft.core.options import Count, Fraction, NonNegative
from weft.core.registry import block

MIN_CYCLE_UPDATES = 4
"""Fewest updates in which a cycle can start at zero, rise and stay at its full weight."""


@block("constant")
class ConstantAnnealing(Annealing):
    """Constant weight: no annealing.

    w(p) = weight

    Args:
        weight: The weight.

    Example:
        >>> ConstantAnnealing(weight=0.5).weight(0.1)
        0.5
    """

    def __init__(self, *, weight: NonNegative = 1.0):
        self.max_weight = weight

    def weight(self, progress: float) -> float:
        return self.max_weight


@block("cyclical")
class CyclicalAnnealing(Annealing):
    """Linear warmup of a weight from 0, in one cycle (monotonic) or several (cyclical).

    With s in [0, 1] the progress within a cycle, z = ``zero_fraction`` and r = ``rise_fraction``:
    w(s) = 0 for s < z;  weight (s - z) / r for z <= s < z + r;  weight for s >= z + r

    Bowman et al. 2016 (KL annealing), https://arxiv.org/abs/1511.06349; several cycles: Fu et al. 2019,
    https://arxiv.org/abs/1903.10145; default values: Li et al. 2020 (OPTIMUS), https://arxiv.org/abs/2004.04092

    Args:
        zero_fraction: Fraction of a cycle with weight 0.
        rise_fraction: Fraction of a cycle in which the weight rises linearly.
        weight: The weight in the rest of the cycle.
        cycles: Number of cycles.

    Example:
        >>> [CyclicalAnnealing().weight(progress) for progress in (0.0, 0.5, 0.625, 0.75, 1.0)]
        [0.0, 0.0, 0.5, 1.0, 1.0]
    """

    def __init__(
        self,
        *,
        zero_fraction: Fraction = 0.5,
        rise_fraction: Fraction = 0.25,
        weight: NonNegative = 1.0,
        cycles: Count = 1,
    ):
        if zero_fraction + rise_fraction > 1:
            raise ValueError(
                f"zero_fraction {zero_fraction:g} + rise_fraction {rise_fraction:g} is {zero_fraction + rise_fraction:g}; "
                "the sum must be at most 1 (one cycle)"
            )
        if zero_fraction == 1:
            raise ValueError("zero_fraction is 1, so the weight is 0 throughout; it must be below 1")
        self.zero_fraction, self.rise_fraction, self.max_weight, self.cycles = zero_fraction, rise_fraction, weight, cycles

    def check(self, updates: int) -> None:
        if self.cycles > 1 and updates < MIN_CYCLE_UPDATES * self.cycles:
            fewer = (
                f"set cycles to at most {updates // MIN_CYCLE_UPDATES}" if updates >= 2 * MIN_CYCLE_UPDATES else "set cycles: 1"
            )
            raise ValueError(
                f"{self.cycles} cycles of cyclical annealing in {updates} updates; each cycle needs at least "
                f"{MIN_CYCLE_UPDATES} updates: {fewer}, or train for more updates"
            )

    def weight(self, progress: float) -> float:
        done = progress * self.cycles % 1 if progress < 1 else 1.0
        if done < self.zero_fraction:
            return 0.0
        risen = min((done - self.zero_fraction) / self.rise_fraction, 1.0) if self.rise_fraction else 1.0
        return self.max_weight * risen


@block("exponential")
class ExponentialAnnealing(Annealing):
    """Exponential decay from ``start`` to ``final_fraction`` of it.

    w(p) = start final_fraction^p, with p in [0, 1] the progress of training

    Args:
        start: The weight at the start of training.
        final_fraction: Fraction of ``start`` at the end of training.

    Example:
        >>> [round(ExponentialAnnealing(start=2.0, final_fraction=0.25).weight(p), 2) for p in (0.0, 0.5, 1.0)]
        [2.0, 1.0, 0.5]
    """

    def __init__(self, *, start: NonNegative = 1.0, final_fraction: Fraction = 0.5):
        if not final_fraction:
            raise ValueError("final_fraction is 0, which exponential decay never reaches; set a small value such as 0.01")
        self.start, self.final_fraction = start, final_fraction

    def weight(self, progress: float) -> float:
        return self.start * self.final_fraction**progress
