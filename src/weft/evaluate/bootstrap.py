"""How sure a figure is: intervals, and whether one system is better than another, by resampling the rows.

Shape suffixes: S samples, N rows, K statistics.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Literal, Protocol, runtime_checkable

import numpy as np

from weft.core.contracts import Metric

Rows = Sequence[dict[str, str]]
_SLOW_SAMPLES = 200
_NUMBERS = 4_000_000


@runtime_checkable
class Additive(Protocol):
    """A metric of sums over the rows, so that another choice of rows is a matrix product and nothing is computed twice."""

    def statistics(self, predictions: Sequence[Any], references: Rows) -> np.ndarray:
        """N x K: what each row adds. Columns may depend on the labels found in all that is given."""
        ...

    def from_statistics(self, sums: np.ndarray) -> dict[str, float]:
        """The figures from the K sums."""
        ...


def bootstrap(
    metric: Metric, predictions: Sequence[Any], references: Rows, samples: int = 1000, level: float = 0.95, seed: int = 0
) -> dict[str, tuple[float, float]]:
    """An interval for each figure: what it could as well have been with other rows of the same kind.

    The rows are drawn again with replacement, ``samples`` times; the interval leaves out (1 - level) / 2 of the figures at
    each end. A metric with ``statistics`` gives intervals for what its ``from_statistics`` gives (no groups). One without is
    computed again for every sample, at most 200 times. A figure that is not defined (nan) has none, nor has one that is about
    the set of texts (Self-BLEU): a text that is drawn twice is none that was written twice.

    Efron 1979; for BLEU, Koehn 2004 (Statistical significance tests for machine translation evaluation).

    Args:
        metric: What gives the figures.
        predictions: One for each row.
        references: The raw rows.
        samples: How often the rows are drawn.
        level: The share of such intervals that contain the true figure.
        seed: Of the draws; the same seed gives the same interval.

    >>> from weft.evaluate import Accuracy
    >>> bootstrap(Accuracy(), ["a"] * 4, [{"label": "a"}] * 4)
    {'accuracy': (1.0, 1.0)}
    """
    if not 0 < level < 1:
        raise ValueError(f"level is {level}, but must lie between 0 and 1: 0.95 is usual")
    rng = np.random.default_rng(seed)
    samples = _checked(samples, metric)
    if not metric.per_example:
        return {}
    if isinstance(metric, Additive):
        stats_NK = _floats(metric.statistics(predictions, references))
        found = [metric.from_statistics(sums) for sums in _summed(_drawn(rng, samples, len(stats_NK)), stats_NK)]
        names = list(found[0])
    else:
        names = list(metric.compute(predictions, references))
        draws = (rng.integers(0, len(references), len(references)).tolist() for _ in range(samples))
        found = [metric.compute([predictions[i] for i in rows], [references[i] for i in rows]) for rows in draws]
    ends = [50 * (1 - level), 50 * (1 + level)]
    # A group may be missing from some samples, and a figure not be defined for them.
    values = {name: np.array([metric_values.get(name, np.nan) for metric_values in found]) for name in names}
    bounds = {name: np.nanpercentile(of, ends) for name, of in values.items() if not np.isnan(of).all()}
    return {name: (float(low), float(high)) for name, (low, high) in bounds.items()}


def paired(
    metric: Metric,
    a: Sequence[Any],
    b: Sequence[Any],
    references: Rows,
    samples: int = 1000,
    method: Literal["randomisation", "bootstrap"] = "randomisation",
    seed: int = 0,
) -> dict[str, float]:
    """For each figure, how likely a difference as large as that of two systems on the same rows is if they are equally good.

    ``randomisation``: in each sample the two predictions of every row are swapped or not, by a coin (Noreen 1989; Riezler &
    Maxwell 2005, who find it to claim too much less often). ``bootstrap``: rows are drawn again with replacement, for both
    systems the same, and the differences shifted so that their mean is 0 (Koehn 2004; Riezler & Maxwell 2005). Two-sided:

        p = (1 + samples with |difference| >= |difference on the rows themselves|) / (1 + samples)

    A system against itself gives 1; where a figure of a system is not defined (nan), neither is p. A metric without
    ``statistics`` is computed again for every sample, at most 200 times.

    Args:
        metric: What gives the figures.
        a: The predictions of one system, one for each row.
        b: Those of the other.
        references: The raw rows.
        samples: How often rows are swapped or drawn.
        method: How samples are made.
        seed: Of the samples.

    >>> from weft.evaluate import Accuracy
    >>> paired(Accuracy(), ["a"] * 20, ["b"] * 20, [{"label": "a"}] * 20)["accuracy"] < 0.01
    True
    """
    if method not in ("randomisation", "bootstrap"):
        raise ValueError(f"method is {method!r}, but must be 'randomisation' or 'bootstrap'")
    if not len(a) == len(b) == len(references):
        raise ValueError(f"{len(a)} and {len(b)} predictions for {len(references)} rows: both systems must predict every row")
    if method == "bootstrap" and not metric.per_example:
        raise ValueError(f"{type(metric).__name__} is about a set of texts, whose rows cannot be drawn again: use randomisation")
    rng = np.random.default_rng(seed)
    samples = _checked(samples, metric)
    both = _from_statistics(metric, a, b, references) if isinstance(metric, Additive) else _again(metric, a, b, references)
    observed = next(both(iter([np.zeros((1, len(references)), bool)])))
    if method == "randomisation":
        found = list(both(_swaps(rng, samples, len(references))))
    else:
        found = list(both(_drawn(rng, samples, len(references))))
    p_values: dict[str, float] = {}
    for name, difference in observed.items():
        differences = np.array([metric_values.get(name, np.nan) for metric_values in found])
        if np.isnan(difference):
            p_values[name] = math.nan
            continue
        if method == "bootstrap":
            differences -= np.nanmean(differences)
        # Sums of the same numbers in another order may differ in the last digits. What is not defined may be anything.
        extreme = np.isnan(differences) | (np.abs(differences) >= abs(difference) - 1e-9 * max(1.0, abs(difference)))
        p_values[name] = float((1 + extreme.sum()) / (1 + samples))
    return p_values


Samples = Iterator[np.ndarray]
"""Blocks of S x N: bool, whether a row's predictions are swapped; or float, how often a row is drawn."""


def _from_statistics(metric: Additive, a: Sequence[Any], b: Sequence[Any], references: Rows) -> Callable[[Samples], Any]:
    # Together, so that the same column means the same in both: rows can be swapped.
    stats_2NK = _floats(metric.statistics([*a, *b], [*references, *references]))
    a_NK, b_NK = stats_2NK[: len(a)], stats_2NK[len(a) :]

    def differences(blocks: Samples) -> Iterator[dict[str, float]]:
        for block_SN in blocks:
            if block_SN.dtype == bool:
                moved_SK = block_SN.astype(np.float64) @ (b_NK - a_NK)
                sums = (a_NK.sum(axis=0) + moved_SK, b_NK.sum(axis=0) - moved_SK)
            else:
                sums = (block_SN @ a_NK, block_SN @ b_NK)
            for of_a, of_b in zip(*sums, strict=True):
                yield _minus(metric.from_statistics(of_a), metric.from_statistics(of_b))

    return differences


def _again(metric: Metric, a: Sequence[Any], b: Sequence[Any], references: Rows) -> Callable[[Samples], Any]:
    def differences(blocks: Samples) -> Iterator[dict[str, float]]:
        for block_SN in blocks:
            for sample in block_SN:
                if sample.dtype == bool:
                    mixed = [(y, x) if swap else (x, y) for x, y, swap in zip(a, b, sample, strict=True)]
                    rows = references
                else:
                    drawn = np.repeat(np.arange(len(a)), sample.astype(np.int64)).tolist()
                    mixed, rows = [(a[i], b[i]) for i in drawn], [references[i] for i in drawn]
                one, other = zip(*mixed, strict=True)
                yield _minus(metric.compute(one, rows), metric.compute(other, rows))

    return differences


def _minus(a: dict[str, float], b: dict[str, float]) -> dict[str, float]:
    return {name: a[name] - b[name] for name in a if name in b}


def _floats(stats_NK: np.ndarray) -> np.ndarray:
    """In double precision sums of counts are exact."""
    return np.asarray(stats_NK, np.float64)


def _checked(samples: int, metric: Metric) -> int:
    if samples < 10:
        raise ValueError(f"samples is {samples}, but fewer than 10 say nothing: 1000 is usual")
    return samples if isinstance(metric, Additive) else min(samples, _SLOW_SAMPLES)


def _blocks(samples: int, rows: int) -> Iterator[int]:
    """Samples in blocks that do not fill the memory."""
    size = max(1, _NUMBERS // max(rows, 1))
    for start in range(0, samples, size):
        yield min(size, samples - start)


def _drawn(rng: np.random.Generator, samples: int, rows: int) -> Samples:
    for size in _blocks(samples, rows):
        at_SN = rng.integers(0, rows, (size, rows)) + rows * np.arange(size)[:, None]
        yield np.bincount(at_SN.ravel(), minlength=size * rows).reshape(size, rows).astype(np.float64)


def _swaps(rng: np.random.Generator, samples: int, rows: int) -> Samples:
    for size in _blocks(samples, rows):
        yield rng.random((size, rows)) < 0.5


def _summed(blocks: Samples, stats_NK: np.ndarray) -> Iterator[np.ndarray]:
    for block_SN in blocks:
        yield from block_SN @ stats_NK
