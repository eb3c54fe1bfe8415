"""Class weights. C classes, N targets."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

import numpy as np
import torch
from torch import Tensor, nn

from weft.core.fields import ClassField
from weft.core.options import NonNegative

Weights = Literal["balanced"] | dict[str, NonNegative]
"""Weights by class name, or balanced: inversely proportional to the class frequency."""


class ClassWeights(nn.Module):
    """Class weights of a loss: 1, by name, or n / (C n_c) for a class with n_c of n examples ("balanced").

    Balanced weights are counted from the training data whenever training starts or resumes; they are not part of the state dict.

    Args:
        field: The field of the labels.
        weights: By class name (1 for others), "balanced", or None for uniform weights.
    """

    weight_C: Tensor

    def __init__(self, field: ClassField, weights: Weights | None):
        super().__init__()
        self.balanced = weights == "balanced"
        self.uniform = not weights
        named = weights if isinstance(weights, dict) else {}
        # before the data is read, its classes have no names to compare with
        if field.labels and (unknown := sorted(set(named) - set(field.labels))):
            raise ValueError(
                f"weights for unknown classes: {', '.join(unknown)}; the classes of {field.name!r} are {', '.join(field.labels)}"
            )
        names = (*field.labels, *[""] * (field.classes - len(field.labels)))
        self.register_buffer("weight_C", torch.tensor([float(named.get(name, 1.0)) for name in names]), persistent=False)

    def count(self, classes: Iterable[np.ndarray | int]) -> None:
        """Compute balanced weights from the classes of all training examples; no effect for other weights."""
        if not self.balanced:
            return
        count_C = np.zeros(len(self.weight_C), np.int64)
        for labels in classes:
            count_C += np.bincount(np.atleast_1d(labels), minlength=len(count_C))
        # C counts only the classes that occur
        weight_C = count_C.sum() / (max(1, (count_C > 0).sum()) * np.maximum(count_C, 1))
        self.weight_C.copy_(torch.from_numpy(weight_C))

    def forward(self, loss_N: Tensor, target_N: Tensor) -> Tensor:
        """N: the losses times the weight of their class; unweighted in evaluation."""
        if self.uniform or not self.training:
            return loss_N
        return loss_N * self.weight_C.to(loss_N.dtype)[target_N]
