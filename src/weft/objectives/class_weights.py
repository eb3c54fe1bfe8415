"""How much each class counts in training. C classes, N rows."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

import numpy as np
import torch
from torch import Tensor, nn

from weft.core.fields import Field
from weft.core.options import NonNegative

Weights = Literal["balanced"] | dict[str, NonNegative]
"""Of classes: by name, or so that all count alike in sum."""


class ClassWeights(nn.Module):
    """A factor for the loss of each class: 1, given by name, or n / (C n_c) for a class with n_c of n examples ("balanced").

    Balanced weights are counted anew from the training data whenever training starts or goes on: there is nothing to store.

    Args:
        field: The field with the classes.
        weights: By name (1 where none is given), "balanced", or None.
    """

    factor_C: Tensor

    def __init__(self, field: Field, weights: Weights | None):
        super().__init__()
        self.balanced = weights == "balanced"
        self.plain = not weights
        named = weights if isinstance(weights, dict) else {}
        # before the data is read its classes have no names: then there is nothing to compare with
        if field.labels and (unknown := sorted(set(named) - set(field.labels))):
            raise ValueError(f"weights for {', '.join(unknown)}, but the classes of {field.name!r} are {', '.join(field.labels)}")
        names = (*field.labels, *[""] * (field.vocab - len(field.labels)))
        self.register_buffer("factor_C", torch.tensor([float(named.get(name, 1.0)) for name in names]), persistent=False)

    def count(self, classes: Iterable[np.ndarray | int]) -> None:
        """Look at the classes of all training examples, if weights are to be balanced."""
        if not self.balanced:
            return
        number_C = np.zeros(len(self.factor_C), np.int64)
        for some in classes:
            number_C += np.bincount(np.atleast_1d(some), minlength=len(number_C))
        # a class that is not there has no loss to weigh
        factor_C = number_C.sum() / (max(1, (number_C > 0).sum()) * np.maximum(number_C, 1))
        self.factor_C.copy_(torch.from_numpy(factor_C))

    def forward(self, loss_N: Tensor, target_N: Tensor) -> Tensor:
        """The losses, each times the factor of its class. In evaluation they stay as they are."""
        if self.plain or not self.training:
            return loss_N
        return loss_N * self.factor_C.to(loss_N.dtype)[target_N]
