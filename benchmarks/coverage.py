"""Coverage of confidence intervals: how often the 95 % interval of a sample contains the true value of the population.

    python -m benchmarks.coverage [--trials 400] [--seed 1]

Accuracy and macro-F1 of a classifier that is right with probability p, on two classes (balanced, or one of them in a fifth of the
examples); Pearson and Spearman correlation of numbers with a bivariate normal distribution. Exit code 1 if an interval covers
less than 92 %, or less than two standard errors below that for few trials.
"""

from __future__ import annotations

import argparse
import math
import sys
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from weft.core.contracts import Metric
from weft.evaluate import Accuracy, Correlation, MacroF1, confidence_intervals

SIZES, PROBABILITIES, CORRELATIONS = (10, 20, 50, 200), (0.5, 0.8, 0.95, 1.0), (0.0, 0.5, 0.9)
MINIMUM = 0.92


@dataclass(frozen=True)
class Population:
    """A metric with its true values, and samples of a population.

    Args:
        title: What is sampled.
        metric: The metric.
        truth: Its value on the population, by name.
        p: Probability that a prediction is right, or the correlation.
        rare: Fraction of the examples of the second class.
    """

    title: str
    metric: Metric
    truth: dict[str, float]
    p: float
    rare: float = 0.5

    def sample(self, rng: np.random.Generator, n: int) -> tuple[list[str], list[dict[str, str]]]:
        """Predictions and references of n examples."""
        if isinstance(self.metric, Correlation):
            x, noise = rng.normal(size=n), rng.normal(size=n)
            y = self.p * x + math.sqrt(1 - self.p**2) * noise
            return [str(value) for value in x], [{"label": str(value)} for value in y]
        gold = (rng.random(n) < self.rare).astype(int)
        predicted = np.where(rng.random(n) < self.p, gold, 1 - gold)
        return [str(value) for value in predicted], [{"label": str(value)} for value in gold]


def populations() -> Iterator[Population]:
    """All populations."""
    for p in PROBABILITIES:
        yield Population(f"accuracy, p = {p}", Accuracy(), {"accuracy": p}, p)
    for rare in (0.5, 0.2):
        for p in PROBABILITIES:
            share = rare * p + (1 - rare) * (1 - p)  # of predictions that are the second class
            f1 = (2 * p * rare / (rare + share) + 2 * p * (1 - rare) / (2 - rare - share)) / 2
            yield Population(f"macro-F1, p = {p}, classes {1 - rare:g} : {rare:g}", MacroF1(), {"macro_f1": f1}, p, rare)
    for r in CORRELATIONS:
        truth = {"pearson": r, "spearman": 6 / math.pi * math.asin(r / 2)}
        yield Population(f"correlation, r = {r}", Correlation(), truth, r)


def coverage(population: Population, n: int, trials: int, seed: int, samples: int = 300) -> dict[str, float]:
    """The fraction of samples of n examples whose interval contains the true value, by name of the value."""
    rng = np.random.default_rng([seed, n])
    inside = dict.fromkeys(population.truth, 0)
    for trial in range(trials):
        found = confidence_intervals(population.metric, *population.sample(rng, n), samples=samples, seed=trial)
        for name, truth in population.truth.items():
            low, high = found.get(name, (math.nan, math.nan))
            inside[name] += low - 1e-9 <= truth <= high + 1e-9
    return {name: count / trials for name, count in inside.items()}


def main() -> int:
    parser = argparse.ArgumentParser(description="Coverage of 95 % confidence intervals")
    parser.add_argument("--trials", type=int, default=400)
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    least = MINIMUM - 2 * math.sqrt(MINIMUM * (1 - MINIMUM) / arguments.trials)
    print(f"{'':42}" + "".join(f"{f'n = {n}':>9}" for n in SIZES))
    low = False
    for population in populations():
        found = [coverage(population, n, arguments.trials, arguments.seed) for n in SIZES]
        for name in population.truth:
            title = population.title.replace("correlation", name)
            print(f"{title:42}" + "".join(f"{by_name[name]:9.1%}" for by_name in found), flush=True)
            low = low or any(by_name[name] < least for by_name in found)
    return int(low)


if __name__ == "__main__":
    sys.exit(main())
