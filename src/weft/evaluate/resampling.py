"""Confidence intervals and significance tests of metrics, by resampling the examples.

Shape suffixes: S samples, N examples, K statistics.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Literal, Protocol, runtime_checkable

import numpy as np

from weft.core.contracts import Metric
from weft.evaluate.intervals import bca_interval, correlation_interval, proportion_interval

Examples = Sequence[dict[str, str]]
_MAX_SLOW_SAMPLES = 200
"""Maximum number of samples for metrics that are not additive."""
_MAX_JACKKNIFE = 2000
"""Maximum number of examples for which the acceleration of BCa intervals is computed; it vanishes for large samples."""
_MAX_BLOCK = 4_000_000
"""Maximum number of elements of a block of samples, to limit memory."""


@runtime_checkable
class AdditiveMetric(Protocol):
    """A metric of sums over the examples: the sums of a resampled dataset are a matrix product."""

    def statistics(self, predictions: Sequence[Any], references: Examples) -> np.ndarray:
        """N x K: the statistics of each example. Columns may depend on the labels of all examples."""
        ...

    def from_statistics(self, sums: np.ndarray) -> dict[str, float]:
        """The metric's values from the K sums."""
        ...


def confidence_intervals(
    metric: Metric, predictions: Sequence[Any], references: Examples, samples: int = 1000, level: float = 0.95, seed: int = 0
) -> dict[str, tuple[float, float]]:
    """Confidence interval of each value of a metric, from bootstrap samples of the examples.

    ``Metric.interval`` selects the method: the Wilson score interval for values in [0, 1], also where all examples are
    correct; the scale of Fisher's z for correlations; BCa for others. For a metric with ``statistics`` there are intervals for
    the values of its ``from_statistics`` (no groups). Any other metric is recomputed for each sample, at most 200 times.
    Undefined values (nan) have no interval, nor have metrics of the set of texts such as Self-BLEU, for which a resampled
    duplicate differs from a duplicate that the model generated.

    Efron 1987; for BLEU, Koehn 2004 (Statistical significance tests for machine translation evaluation).

    Args:
        metric: The metric.
        predictions: The prediction of each example.
        references: The raw examples.
        samples: Number of bootstrap samples.
        level: Confidence level.
        seed: Seed of the samples.

    >>> from weft.evaluate import Accuracy
    >>> low, high = confidence_intervals(Accuracy(), ["a"] * 20, [{"label": "a"}] * 20)["accuracy"]
    >>> round(low, 3), high
    (0.839, 1.0)
    """
    if not 0 < level < 1:
        raise ValueError(f"level is {level}; must be between 0 and 1, for example 0.95")
    rng, n = np.random.default_rng(seed), len(references)
    samples = _checked_samples(samples, metric)
    if not metric.per_example:
        return {}
    binary, jackknife = False, list[dict[str, float]]()
    if isinstance(metric, AdditiveMetric):
        stats_NK = _as_float64(metric.statistics(predictions, references))
        sums_K = stats_NK.sum(axis=0)
        binary = stats_NK.shape[1] == 2 and bool(np.isin(stats_NK[:, 0], (0, 1)).all() and (stats_NK[:, 1] == 1).all())
        found = [metric.from_statistics(sums) for sums in _summed(_bootstrap_counts(rng, samples, n), stats_NK)]
        observed = metric.from_statistics(sums_K)
        if metric.interval == "bca" and 2 < n <= _MAX_JACKKNIFE:
            jackknife = [metric.from_statistics(sums_K - stats_K) for stats_K in stats_NK]
    else:
        observed = metric.compute(predictions, references)
        draws = (rng.integers(0, n, n).tolist() for _ in range(samples))
        found = [metric.compute([predictions[i] for i in rows], [references[i] for i in rows]) for rows in draws]
    bounds: dict[str, tuple[float, float]] = {}
    for name, value in observed.items():
        # a group may be missing from a sample, and a value may be undefined for it
        bootstrap_S = _defined(found, name)
        if not len(bootstrap_S) or math.isnan(value):
            continue
        interval = None
        if metric.interval in ("proportion", "ratio"):
            several = metric.interval == "ratio"
            interval = proportion_interval(value, bootstrap_S, n, level, is_binary=binary, several=several)
        elif metric.interval == "correlation":
            interval = correlation_interval(value, bootstrap_S, n, level)
        without_N = _defined(jackknife, name)
        bounds[name] = interval or bca_interval(value, bootstrap_S, without_N if len(without_N) else None, level)
    return bounds


def _defined(found: Sequence[dict[str, float]], name: str) -> np.ndarray:
    values = np.array([metric_values.get(name, np.nan) for metric_values in found])
    return values[~np.isnan(values)]


def paired_test(
    metric: Metric,
    a: Sequence[Any],
    b: Sequence[Any],
    references: Examples,
    samples: int = 1000,
    method: Literal["randomization", "bootstrap"] = "randomization",
    seed: int = 0,
) -> dict[str, float]:
    """Two-sided p-value of each value of a metric for two systems on the same examples.

    ``randomization``: approximate randomization, which swaps the predictions of both systems for each example with probability
    1/2 (Noreen 1989; Riezler & Maxwell 2005, who find fewer type I errors with it). ``bootstrap``: paired bootstrap, with the
    differences shifted to mean 0 (Koehn 2004; Riezler & Maxwell 2005).

        p = (1 + samples with |difference| >= |observed difference|) / (1 + samples)

    p is 1 for a system against itself, and nan where a value of a system is undefined. A metric without ``statistics`` is
    recomputed for each sample, at most 200 times.

    Args:
        metric: The metric.
        a: Predictions of the first system, one for each example.
        b: Predictions of the second system.
        references: The raw examples.
        samples: Number of samples.
        method: Resampling method.
        seed: Seed of the samples.

    >>> from weft.evaluate import Accuracy
    >>> paired_test(Accuracy(), ["a"] * 20, ["b"] * 20, [{"label": "a"}] * 20)["accuracy"] < 0.01
    True
    """
    if method not in ("randomization", "bootstrap"):
        raise ValueError(f"method is {method!r}; must be 'randomization' or 'bootstrap'")
    if not len(a) == len(b) == len(references):
        raise ValueError(f"got {len(a)} and {len(b)} predictions for {len(references)} examples; pass one of each per example")
    if method == "bootstrap" and not metric.per_example:
        raise ValueError(
            f"{type(metric).__name__} is a metric of the set of texts, which cannot be resampled with replacement; "
            "use method='randomization'"
        )
    rng = np.random.default_rng(seed)
    samples = _checked_samples(samples, metric)
    additive = isinstance(metric, AdditiveMetric)
    differences_of = _from_statistics(metric, a, b, references) if additive else _recomputed(metric, a, b, references)
    observed = next(differences_of(iter([np.zeros((1, len(references)), bool)])))
    if method == "randomization":
        found = list(differences_of(_swaps(rng, samples, len(references))))
    else:
        found = list(differences_of(_bootstrap_counts(rng, samples, len(references))))
    sampled = {name: np.array([values.get(name, np.nan) for values in found]) for name in observed}
    return {name: _p_value(observed[name], sampled[name], centered=method == "bootstrap") for name in observed}


def _p_value(observed: float, differences_S: np.ndarray, *, centered: bool) -> float:
    """The fraction of differences that are as extreme as the observed one; with ``centered``, after shifting them to mean 0."""
    if np.isnan(observed):
        return math.nan
    if centered:
        differences_S = differences_S - np.nanmean(differences_S)
    # sums of the same numbers in another order may differ in the last digits; undefined values count as extreme
    extreme_S = np.isnan(differences_S) | (np.abs(differences_S) >= abs(observed) - 1e-9 * max(1.0, abs(observed)))
    return float((1 + extreme_S.sum()) / (1 + len(differences_S)))


Samples = Iterator[np.ndarray]
"""Blocks of samples, S x N: bool, whether the predictions of an example are swapped; or float, how often it was sampled."""


def _from_statistics(
    metric: AdditiveMetric, a: Sequence[Any], b: Sequence[Any], references: Examples
) -> Callable[[Samples], Any]:
    # computed together, so that columns have the same meaning for both systems
    stats_2NK = _as_float64(metric.statistics([*a, *b], [*references, *references]))
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


def _recomputed(metric: Metric, a: Sequence[Any], b: Sequence[Any], references: Examples) -> Callable[[Samples], Any]:
    def differences(blocks: Samples) -> Iterator[dict[str, float]]:
        for block_SN in blocks:
            for sample in block_SN:
                if sample.dtype == bool:
                    pairs = [(y, x) if swap else (x, y) for x, y, swap in zip(a, b, sample, strict=True)]
                    examples = references
                else:
                    indices = np.repeat(np.arange(len(a)), sample.astype(np.int64)).tolist()
                    pairs, examples = [(a[i], b[i]) for i in indices], [references[i] for i in indices]
                one, other = zip(*pairs, strict=True)
                yield _minus(metric.compute(one, examples), metric.compute(other, examples))

    return differences


def _minus(a: dict[str, float], b: dict[str, float]) -> dict[str, float]:
    return {name: a[name] - b[name] for name in a if name in b}


def _as_float64(stats_NK: np.ndarray) -> np.ndarray:
    """Sums of counts are exact in double precision."""
    return np.asarray(stats_NK, np.float64)


def _checked_samples(samples: int, metric: Metric) -> int:
    if samples < 10:
        raise ValueError(f"samples is {samples}; must be at least 10, usually 1000")
    return samples if isinstance(metric, AdditiveMetric) else min(samples, _MAX_SLOW_SAMPLES)


def _blocks(samples: int, rows: int) -> Iterator[int]:
    """Sizes of blocks of samples that limit memory."""
    size = max(1, _MAX_BLOCK // max(rows, 1))
    for start in range(0, samples, size):
        yield min(size, samples - start)


def _bootstrap_counts(rng: np.random.Generator, samples: int, rows: int) -> Samples:
    for size in _blocks(samples, rows):
        at_SN = rng.integers(0, rows, (size, rows)) + rows * np.arange(size)[:, None]
        yield np.bincount(at_SN.ravel(), minlength=size * rows).reshape(size, rows).astype(np.float64)


def _swaps(rng: np.random.Generator, samples: int, rows: int) -> Samples:
    for size in _blocks(samples, rows):
        yield rng.random((size, rows)) < 0.5


def _summed(blocks: Samples, stats_NK: np.ndarray) -> Iterator[np.ndarray]:
    for block_SN in blocks:
        yield from block_SN @ stats_NK
