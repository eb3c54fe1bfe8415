"""Learning-rate schedules, as a factor of the optimizer's ``lr``.

Pure functions of the update (0, 1, ...) and the number of updates, so there is no state to store. With ``warmup = w`` the factor
rises as (t + 1) / w and reaches 1 at update t = w - 1; a warmup longer than the run never reaches it (``weft check`` and
``weft train`` warn). Schedules that decay would reach their minimum one update after the last, so that no update has a
learning rate of 0.
"""

from __future__ import annotations

import math
from typing import Annotated

from annotated_types import Ge, Gt, Le, Lt

from weft.core.contracts import Schedule
from weft.core.options import Count, Fraction, Natural
from weft.core.registry import block

Ratio = Annotated[float, Ge(1), Le(1e12)]
Warmup = Natural | Annotated[float, Gt(0), Lt(1)]
"""Warmup: a number of updates, or a fraction of all updates below 1."""


@block("constant")
class ConstantSchedule(Schedule):
    """Constant learning rate after a linear warmup.

    factor(t) = min(1, (t + 1) / warmup)

    Args:
        warmup: Number of warmup updates, in which the factor rises to 1, or their fraction of all updates (0.1); 0 = none.

    Example:
        >>> [ConstantSchedule(warmup=4).factor(t, 6) for t in range(6)]
        [0.25, 0.5, 0.75, 1.0, 1.0, 1.0]
    """

    def __init__(self, *, warmup: Warmup = 0):
        self.warmup = _warmup(warmup)

    def factor(self, update: int, updates: int) -> float:
        return _rise(update, _count(self.warmup, updates))


@block("linear")
class LinearSchedule(Schedule):
    """Linear decay to ``min_factor`` after a linear warmup.

    factor(t) = 1 - (1 - min_factor) (t - p) / (updates - p), where p = max(warmup - 1, 0) is the update with factor 1

    Args:
        warmup: Number of warmup updates, in which the factor rises to 1, or their fraction of all updates (0.1); 0 = none.
        min_factor: Factor at the end of training.

    Example:
        >>> [LinearSchedule(warmup=2).factor(t, 5) for t in range(5)]
        [0.5, 1.0, 0.75, 0.5, 0.25]
    """

    def __init__(self, *, warmup: Warmup = 0, min_factor: Fraction = 0.0):
        self.warmup, self.min_factor = _warmup(warmup), _fraction(min_factor, "min_factor")

    def factor(self, update: int, updates: int) -> float:
        warmup = _count(self.warmup, updates)
        if update < warmup:
            return _rise(update, warmup)
        return 1 - (1 - self.min_factor) * _progress(update, updates, warmup)


@block("cosine")
class CosineSchedule(Schedule):
    """Cosine decay to ``min_factor`` after a linear warmup.

    factor(t) = min_factor + (1 - min_factor) (1 + cos(pi (t - p) / (updates - p))) / 2,
    where p = max(warmup - 1, 0) is the update with factor 1

    Loshchilov and Hutter 2017 (SGDR, without restarts), https://arxiv.org/abs/1608.03983

    Args:
        warmup: Number of warmup updates, in which the factor rises to 1, or their fraction of all updates (0.1); 0 = none.
        min_factor: Factor at the end of training.

    Example:
        >>> [round(CosineSchedule().factor(t, 4), 3) for t in range(4)]
        [1.0, 0.854, 0.5, 0.146]
    """

    def __init__(self, *, warmup: Warmup = 0, min_factor: Fraction = 0.0):
        self.warmup, self.min_factor = _warmup(warmup), _fraction(min_factor, "min_factor")

    def factor(self, update: int, updates: int) -> float:
        warmup = _count(self.warmup, updates)
        if update < warmup:
            return _rise(update, warmup)
        return self.min_factor + (1 - self.min_factor) * (1 + math.cos(math.pi * _progress(update, updates, warmup))) / 2


@block("noam")
class NoamSchedule(Schedule):
    """Schedule of the Transformer: linear warmup, then decay with the inverse square root of the update.

    factor(t) = min(s / warmup, sqrt(warmup / s)) with s = t + 1

    The paper gives the learning rate itself: dim^-0.5 min(s^-0.5, s warmup^-1.5). With lr = (dim warmup)^-0.5 it is equal:
    (dim warmup)^-0.5 s / warmup = dim^-0.5 s warmup^-1.5, and (dim warmup)^-0.5 (warmup / s)^0.5 = dim^-0.5 s^-0.5.
    So the paper's base model (dim 512, warmup 4000) has lr = 7.0e-4.

    Vaswani et al. 2017, https://arxiv.org/abs/1706.03762

    Args:
        warmup: Number of warmup updates, at least 1. The default is that of the paper.

    Example:
        >>> [NoamSchedule(warmup=4).factor(t, 16) for t in (0, 3, 15)]
        [0.25, 1.0, 0.5]
    """

    def __init__(self, *, warmup: Count = 4000):
        if warmup < 1:
            raise ValueError(f"warmup must be at least 1 for noam, not {warmup}; without warmup use constant, linear or cosine")
        self.warmup = warmup

    def factor(self, update: int, updates: int) -> float:
        step = update + 1
        return min(step / self.warmup, math.sqrt(self.warmup / step))


@block("slanted-triangular")
class SlantedTriangularSchedule(Schedule):
    """Slanted triangular learning rates for fine-tuning: a short linear warmup and a long linear decay.

    factor(t) = (1 + p (ratio - 1)) / ratio,  p = t / c for t < c, else 1 - (t - c) / (updates - c),
    c = floor(updates cut_fraction)

    The paper has c (1 / cut_fraction - 1) instead of updates - c. Both are equal where updates cut_fraction is an integer;
    elsewhere the factor of the paper becomes negative at the end of short runs.

    Howard and Ruder 2018 (ULMFiT), https://arxiv.org/abs/1801.06146

    Args:
        warmup: c in updates; 0 = derived from ``cut_fraction``.
        cut_fraction: Fraction of the updates in which the factor rises.
        ratio: Highest learning rate divided by the lowest.

    Example:
        >>> [round(SlantedTriangularSchedule(cut_fraction=0.2, ratio=4).factor(t, 10), 3) for t in (0, 1, 2, 6, 9)]
        [0.25, 0.625, 1.0, 0.625, 0.344]
    """

    def __init__(self, *, warmup: Natural = 0, cut_fraction: Fraction = 0.1, ratio: Ratio = 32.0):
        if not ratio >= 1:
            raise ValueError(f"ratio must be at least 1, not {ratio}")
        self.warmup, self.cut_fraction, self.ratio = _natural(warmup), _fraction(cut_fraction, "cut_fraction"), ratio

    def factor(self, update: int, updates: int) -> float:
        top = self.warmup or math.floor(updates * self.cut_fraction)
        if update < top:
            p = update / top
        else:
            p = 1 - min((update - top) / max(updates - top, 1), 1.0)
        return (1 + p * (self.ratio - 1)) / self.ratio


def _rise(update: int, warmup: int) -> float:
    return min((update + 1) / warmup, 1.0) if warmup else 1.0


def _progress(update: int, updates: int, warmup: int) -> float:
    """Return the fraction of the decay: 0 at the peak, 1 one update after the last."""
    peak = max(warmup - 1, 0)
    return min((update - peak) / max(updates - peak, 1), 1.0)


def _count(warmup: float, updates: int) -> int:
    """The number of warmup updates, where ``warmup`` may be a fraction of all updates."""
    return warmup if isinstance(warmup, int) else math.ceil(warmup * updates)


def _warmup(warmup: float) -> float:
    if warmup < 0 or (not isinstance(warmup, int) and warmup >= 1):
        raise ValueError(f"warmup must be a number of updates, at least 0, or a fraction of them below 1, not {warmup}")
    return warmup


def _natural(warmup: int) -> int:
    if warmup < 0:
        raise ValueError(f"warmup must be at least 0, not {warmup}")
    return warmup


def _fraction(value: float, name: str) -> float:
    if not 0 <= value <= 1:
        raise ValueError(f"{name} must be between 0 and 1, not {value}")
    return value
