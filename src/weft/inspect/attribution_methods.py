"""Methods of attribution: integrated gradients, occlusion and exact Shapley values.

Shape suffixes: N points, F features, K outputs.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch

from weft.inspect.presence import ScoredModel

MAX_SHAPLEY, MAX_OCCLUDED = 10, 4096
"""Maximum number of features of exact Shapley values (2^F subsets) and of occlusion."""
_FIRST_STEPS, _LAST_STEPS = 32, 512
_TOLERANCE = 0.01


@dataclass(frozen=True)
class Values:
    """Attributions of K outputs to F features.

    Args:
        value_KF: The attributions.
        full_K: Scores of the input.
        baseline_K: Scores of the baseline.
        steps: Number of steps of integrated gradients; 0 for other methods.
    """

    value_KF: np.ndarray
    full_K: np.ndarray
    baseline_K: np.ndarray
    steps: int = 0

    def error(self) -> np.ndarray:
        """K: sum of the attributions minus the difference of the scores of input and baseline; 0 where they are complete."""
        return self.value_KF.sum(1) - (self.full_K - self.baseline_K)


def integrated_gradients(scored: ScoredModel, steps: int | None = None) -> Values:
    """Integrated gradients from the baseline to the input.

    v_i = (x_i - b_i) . integral_0^1 df(b + a (x - b)) / dx_i da,  by Gauss-Legendre quadrature; they sum to f(x) - f(b)

    Sundararajan et al. 2017, https://arxiv.org/abs/1703.01365

    Args:
        scored: The model.
        steps: Points of the quadrature; None = doubled from 32 until the error of the sum is below 1 %, at most 512.
    """
    if steps is not None and not 1 <= steps <= 4096:
        raise ValueError(f"steps is {steps}; must be 1 to 4096")
    full_K, baseline_K = _ends(scored)
    number = steps or _FIRST_STEPS
    while True:
        found = Values(_path_integral(scored, number), full_K, baseline_K, number)
        allowed = _TOLERANCE * np.maximum(np.abs(full_K - baseline_K), 0.1)
        if steps is not None or number >= _LAST_STEPS or (np.abs(found.error()) <= allowed).all():
            return found
        number *= 2


def _path_integral(scored: ScoredModel, steps: int) -> np.ndarray:
    """K x F: the mean gradient with respect to the presence along the path."""
    nodes, weights = np.polynomial.legendre.leggauss(steps)
    points_NF = torch.from_numpy((nodes + 1) / 2).float()[:, None].repeat(1, len(scored.features))
    total_KF = np.zeros((len(scored.outputs), len(scored.features)))
    done = 0
    for part_NF in scored.batches(points_NF):
        presence_NF = part_NF.clone().requires_grad_()
        with torch.enable_grad():
            score_NK = scored(presence_NF)
            for k in range(len(scored.outputs)):
                (gradient_NF,) = torch.autograd.grad(score_NK[:, k].sum(), presence_NF, retain_graph=k + 1 < len(scored.outputs))
                total_KF[k] += weights[done : done + len(part_NF)] / 2 @ gradient_NF.double().cpu().numpy()
        done += len(part_NF)
    return total_KF


def occlusion(scored: ScoredModel, steps: int | None = None) -> Values:
    """Occlusion: the score of the input minus that of the input without the feature.

    v_i = f(x) - f(x with b_i in place of x_i); they do not sum to f(x) - f(b) where features interact

    Zeiler and Fergus 2014, https://arxiv.org/abs/1311.2901

    Args:
        scored: The model.
        steps: Has no effect.
    """
    features = len(scored.features)
    if features > MAX_OCCLUDED:
        raise ValueError(f"the input has {features:,} features; occlusion allows at most {MAX_OCCLUDED:,}, use larger patches")
    full_K, baseline_K = _ends(scored)
    without_FK = scored.values(1 - np.eye(features))
    return Values((full_K - without_FK).T, full_K, baseline_K)


def shapley(scored: ScoredModel, steps: int | None = None) -> Values:
    """Exact Shapley values, by enumeration of all subsets of at most 10 features.

    v_i = sum_S |S|! (F - |S| - 1)! / F! (f(S and i) - f(S)),  with S over the sets without i; f(S) is the score where all other
    features are those of the baseline. They sum to f(x) - f(b).

    Shapley 1953; Lundberg and Lee 2017, https://arxiv.org/abs/1705.07874

    Args:
        scored: The model.
        steps: Has no effect.
    """
    features = len(scored.features)
    if features > MAX_SHAPLEY:
        raise ValueError(
            f"exact Shapley values need all 2^F subsets of the F features: the input has {features}, at most {MAX_SHAPLEY} are "
            "allowed; pass a shorter input or larger patches, or use integrated-gradients"
        )
    subset_NF = np.array(list(itertools.product((0.0, 1.0), repeat=features)))
    score_NK, sizes_N = scored.values(subset_NF), subset_NF.sum(1).astype(int)
    total = math.factorial(features)
    weights = [math.factorial(n) * math.factorial(features - n - 1) / total for n in range(features)]
    weight_N = np.array([*weights, 0.0])[sizes_N]
    values: list[np.ndarray] = []
    for i in range(features):
        without = np.flatnonzero(subset_NF[:, i] == 0)
        with_i = without + 2 ** (features - 1 - i)  # products are in the order of binary numbers
        values.append(weight_N[without] @ (score_NK[with_i] - score_NK[without]))
    return Values(np.stack(values, 1), score_NK[-1], score_NK[0])


METHODS: dict[str, Callable[[ScoredModel, int | None], Values]] = {
    "integrated-gradients": integrated_gradients,
    "occlusion": occlusion,
    "shapley": shapley,
}
"""The methods by name."""


def _ends(scored: ScoredModel) -> tuple[np.ndarray, np.ndarray]:
    """Scores of the input and of the baseline."""
    ones_F = np.ones(len(scored.features))
    full_K, baseline_K = scored.values(np.stack([ones_F, 0 * ones_F]))
    return full_K, baseline_K
