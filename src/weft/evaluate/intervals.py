"""Confidence intervals of one value from its bootstrap values, also for samples so small or so good that quantiles fail."""

from __future__ import annotations

import math
from statistics import NormalDist

import numpy as np

_NORMAL = NormalDist()
_MAX_FISHER_Z = 6.0
"""Bootstrap samples with fewer than three distinct examples have a correlation of 1 or -1, whose Fisher z is infinite."""


def proportion_interval(
    value: float, bootstrap_S: np.ndarray, n: int, level: float, *, is_binary: bool = False, several: bool = False
) -> tuple[float, float]:
    """Wilson score interval of a value in [0, 1], with the effective sample size of its bootstrap variance.

    (v + q^2 / 2m +- q sqrt(v (1 - v) / m + q^2 / 4 m^2)) / (1 + q^2 / m),  m = v (1 - v) / var(bootstrap values)

    m is n where every example is right or wrong, and where no bootstrap value differs: n correct examples of n do not prove a
    value of 1. Unless an example is several decisions, m is at most n. q is the normal quantile for binary examples, else that
    of Student's t.

    For binary examples with few errors (or few correct ones), the outer limit is that of the Poisson distribution, without which
    the interval covers as little as 83 % near 1: 1 - x / n, where a Poisson number with mean x is less than the errors with
    probability ``level``.

    Wilson 1927; outer limit: Brown, Cai & DasGupta 2001 (Interval estimation for a binomial proportion); effective sample size:
    Korn & Graubard 1998 (Confidence intervals for proportions with small expected number of positive counts estimated from
    survey data).

    Args:
        value: The value of the sample.
        bootstrap_S: Its bootstrap values.
        n: Number of examples.
        level: Confidence level.
        is_binary: Whether the value is the mean of zeros and ones.
        several: Whether an example is several decisions, such as the tags of a sentence.

    >>> low, high = proportion_interval(1.0, np.ones(100), 20, 0.95, is_binary=True)
    >>> round(low, 3), high
    (0.839, 1.0)
    """
    variance = float(np.var(bootstrap_S))
    varies = not is_binary and variance > 1e-12 and 0 < value < 1
    m = value * (1 - value) / variance if varies else float(n)
    m = m if several else min(m, n)
    q = _NORMAL.inv_cdf((1 + level) / 2) if is_binary else _student_quantile((1 + level) / 2, n - 1)
    center, factor = value + q * q / (2 * m), 1 + q * q / m
    reach = q * math.sqrt(max(value * (1 - value), 0) / m + q * q / (4 * m * m))
    low, high = max(0.0, (center - reach) / factor), min(1.0, (center + reach) / factor)
    if is_binary:
        few, right = 2 if n <= 50 else 3, round(value * n)
        low = min(low, _poisson_limit(right, level) / n) if 0 < right <= few else low
        high = max(high, 1 - _poisson_limit(n - right, level) / n) if 0 < n - right <= few else high
    return low, high


def correlation_interval(value: float, bootstrap_S: np.ndarray, n: int, level: float) -> tuple[float, float] | None:
    """Interval of a correlation on the scale of Fisher's z, with the bootstrap standard error: tanh(atanh(r) +- t se).

    The bootstrap error, unlike 1 / sqrt(n - 3), needs no normal distribution. None where z is not defined.

    Fisher 1921; Bishara & Hittner 2017 (Confidence intervals for correlations when data are not normal).

    Args:
        value: The correlation of the sample.
        bootstrap_S: Its bootstrap values.
        n: Number of examples.
        level: Confidence level.
    """
    limit = math.tanh(_MAX_FISHER_Z)
    z_S = np.arctanh(bootstrap_S[np.abs(bootstrap_S) < limit])
    if n < 4 or abs(value) >= limit or len(z_S) < len(bootstrap_S) / 2:
        return None
    reach = _student_quantile((1 + level) / 2, n - 2) * float(np.std(z_S, ddof=1))
    return math.tanh(math.atanh(value) - reach), math.tanh(math.atanh(value) + reach)


def bca_interval(value: float, bootstrap_S: np.ndarray, jackknife_N: np.ndarray | None, level: float) -> tuple[float, float]:
    """Bias-corrected and accelerated bootstrap interval (BCa): quantiles of the bootstrap values, shifted by bias and skewness.

    quantile = Phi(z0 + (z0 + z) / (1 - a (z0 + z))),  z0 = Phi^-1(share of bootstrap values below the value),
    a = sum d^3 / (6 (sum d^2)^1.5),  d = mean of the jackknife values - jackknife value

    Efron 1987 (Better bootstrap confidence intervals).

    Args:
        value: The value of the sample.
        bootstrap_S: Its bootstrap values.
        jackknife_N: The values without each of the examples; None = without acceleration, which vanishes for large samples.
        level: Confidence level.
    """
    below = float(np.mean(bootstrap_S < value) + np.mean(bootstrap_S == value) / 2)
    edge = 1 / (len(bootstrap_S) + 1)
    bias, acceleration = _NORMAL.inv_cdf(min(max(below, edge), 1 - edge)), 0.0
    if jackknife_N is not None:
        d_N = jackknife_N.mean() - jackknife_N
        spread = float((d_N**2).sum()) ** 1.5
        acceleration = float((d_N**3).sum()) / (6 * spread) if spread > 1e-30 else 0.0
    ends = (_NORMAL.inv_cdf((1 - level) / 2), _NORMAL.inv_cdf((1 + level) / 2))
    quantiles = [_NORMAL.cdf(bias + (bias + z) / max(1 - acceleration * (bias + z), 0.1)) for z in ends]
    low, high = np.quantile(bootstrap_S, quantiles).tolist()
    return low, high


def _poisson_limit(count: int, level: float) -> float:
    """The mean of a Poisson distribution whose numbers are below ``count`` with probability ``level``, by bisection.

    >>> round(_poisson_limit(1, 0.95), 4), round(_poisson_limit(2, 0.95), 4)
    (0.0513, 0.3554)
    """
    low, high = 0.0, float(count)
    while high - low > 1e-12:
        mean = (low + high) / 2
        below = math.exp(-mean) * sum(mean**k / math.factorial(k) for k in range(count))
        low, high = (mean, high) if below > level else (low, mean)
    return low


def _student_quantile(probability: float, degrees: int) -> float:
    """Quantile of Student's t, by its expansion around the normal one (Abramowitz & Stegun 26.7.5).

    >>> round(_student_quantile(0.975, 9), 2)
    2.26
    """
    z, n = _NORMAL.inv_cdf(probability), max(degrees, 1)
    terms = ((z**3 + z) / 4, (5 * z**5 + 16 * z**3 + 3 * z) / 96, (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / 384)
    return z + sum(term / n**power for power, term in enumerate(terms, 1))
