"""Schedules: the learning rate over time, as a factor of the optimiser's ``lr``.

Pure functions of the number of the update (0, 1, ...) and how many updates there will be: there is no state to store.
With ``warmup = w`` the factor rises as (t + 1) / w and is 1 for the first time at update t = w - 1; a warm-up longer than the
run simply keeps rising (``weft check`` and ``weft train`` warn of it). What falls afterwards would reach its minimum one
update after the last, so that no update is wasted on a rate of 0.
"""

from __future__ import annotations

import math
from typing import Annotated

from annotated_types import Ge, Le

from weft.core.contracts import Schedule
from weft.core.options import Count, Fraction, Natural
from weft.core.registry import block

Ratio = Annotated[float, Ge(1), Le(1e12)]


@block("constant")
class ConstantSchedule(Schedule):
    """The same learning rate throughout, after a warm-up.

    factor(t) = min(1, (t + 1) / warmup)

    Args:
        warmup: Over how many updates the factor rises to 1; 0 = none.

    Example:
        >>> [ConstantSchedule(warmup=4).factor(t, 6) for t in range(6)]
        [0.25, 0.5, 0.75, 1.0, 1.0, 1.0]
    """

    def __init__(self, *, warmup: Natural = 0):
        self.warmup = _natural(warmup)

    def factor(self, update: int, updates: int) -> float:
        return _rise(update, self.warmup)


@block("linear")
class LinearSchedule(Schedule):
    """A straight line down to ``min_factor``, after a warm-up.

    factor(t) = 1 - (1 - min_factor) (t - p) / (updates - p), where p = max(warmup - 1, 0) is the update with factor 1

    Args:
        warmup: Over how many updates the factor rises to 1; 0 = none.
        min_factor: Factor at the last update.

    Example:
        >>> [LinearSchedule(warmup=2).factor(t, 5) for t in range(5)]
        [0.5, 1.0, 0.75, 0.5, 0.25]
    """

    def __init__(self, *, warmup: Natural = 0, min_factor: Fraction = 0.0):
        self.warmup, self.min_factor = _natural(warmup), _fraction(min_factor, "min_factor")

    def factor(self, update: int, updates: int) -> float:
        if update < self.warmup:
            return _rise(update, self.warmup)
        return 1 - (1 - self.min_factor) * _progress(update, updates, self.warmup)


@block("cosine")
class CosineSchedule(Schedule):
    """Half a cosine wave down to ``min_factor``, after a warm-up.

    factor(t) = min_factor + (1 - min_factor) (1 + cos(pi (t - p) / (updates - p))) / 2,
    where p = max(warmup - 1, 0) is the update with factor 1

    Loshchilov and Hutter 2017 (SGDR, without restarts), https://arxiv.org/abs/1608.03983

    Args:
        warmup: Over how many updates the factor rises to 1; 0 = none.
        min_factor: Factor at the last update.

    Example:
        >>> [round(CosineSchedule().factor(t, 4), 3) for t in range(4)]
        [1.0, 0.854, 0.5, 0.146]
    """

    def __init__(self, *, warmup: Natural = 0, min_factor: Fraction = 0.0):
        self.warmup, self.min_factor = _natural(warmup), _fraction(min_factor, "min_factor")

    def factor(self, update: int, updates: int) -> float:
        if update < self.warmup:
            return _rise(update, self.warmup)
        return self.min_factor + (1 - self.min_factor) * (1 + math.cos(math.pi * _progress(update, updates, self.warmup))) / 2


@block("noam")
class NoamSchedule(Schedule):
    """The Transformer's schedule: a linear rise, then the inverse square root of the number of updates.

    factor(t) = min(s / warmup, sqrt(warmup / s)) with s = t + 1

    The paper writes the rate itself: dim^-0.5 min(s^-0.5, s warmup^-1.5). With lr = (dim warmup)^-0.5 it is the same:
    (dim warmup)^-0.5 s / warmup = dim^-0.5 s warmup^-1.5, and (dim warmup)^-0.5 (warmup / s)^0.5 = dim^-0.5 s^-0.5.
    So the paper's base model (dim 512, warmup 4000) has lr = 7.0e-4.

    Vaswani et al. 2017, https://arxiv.org/abs/1706.03762

    Args:
        warmup: Over how many updates the factor rises to 1; at least 1. The default is the paper's.

    Example:
        >>> [NoamSchedule(warmup=4).factor(t, 16) for t in (0, 3, 15)]
        [0.25, 1.0, 0.5]
    """

    def __init__(self, *, warmup: Count = 4000):
        if warmup < 1:
            raise ValueError(
                f"noam needs a warmup of at least 1 update, not {warmup}; without a warm-up use constant, linear or cosine"
            )
        self.warmup = warmup

    def factor(self, update: int, updates: int) -> float:
        step = update + 1
        return min(step / self.warmup, math.sqrt(self.warmup / step))


@block("slanted-triangular")
class SlantedTriangularSchedule(Schedule):
    """A short steep rise and a long slow fall, both straight, for fine-tuning.

    factor(t) = (1 + p (ratio - 1)) / ratio,  p = t / c for t < c, else 1 - (t - c) / (updates - c),
    c = floor(updates cut_fraction)

    The paper has c (1 / cut_fraction - 1) in place of updates - c: equal where updates cut_fraction is an integer, negative
    at the end of short runs where it is not.

    Howard and Ruder 2018 (ULMFiT), https://arxiv.org/abs/1801.06146

    Args:
        warmup: c itself, in updates; 0 = derived from ``cut_fraction``.
        cut_fraction: Fraction of the updates in which the factor rises.
        ratio: How many times smaller the lowest rate is than the highest.

    Example:
        >>> [round(SlantedTriangularSchedule(cut_fraction=0.2, ratio=4).factor(t, 10), 3) for t in (0, 1, 2, 6, 9)]
        [0.25, 0.625, 1.0, 0.625, 0.344]
    """

    def __init__(self, *, warmup: Natural = 0, cut_fraction: Fraction = 0.1, ratio: Ratio = 32.0):
        if not ratio >= 1:
            raise ValueError(f"ratio is the highest rate over the lowest: it is at least 1, not {ratio}")
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
    """0 at the peak, 1 one update after the last."""
    peak = max(warmup - 1, 0)
    return min((update - peak) / max(updates - peak, 1), 1.0)


def _natural(warmup: int) -> int:
    if warmup < 0:
        raise ValueError(f"warmup must be 0 updates or more, not {warmup}")
    return warmup


def _fraction(value: float, name: str) -> float:
    if not 0 <= value <= 1:
        raise ValueError(f"{name} must be from 0 to 1, not {value}")
    return value
