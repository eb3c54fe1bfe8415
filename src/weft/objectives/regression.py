"""Regression. B examples."""

from __future__ import annotations

from typing import Any

from torch import Tensor

from weft.core.batch import Batch, Clock
from weft.core.contracts import Classifies, Search
from weft.core.fields import Info, NumberField
from weft.core.loss import Loss
from weft.core.registry import block
from weft.objectives.inputs import PairOrder
from weft.objectives.label_objective import LabelObjective


@block("regression")
class Regression(LabelObjective):
    """Regression of a number, such as a similarity score, with the squared error.

    loss = sum_i (f(x_i) - y_i)^2; the count is the number of examples, so the mean is the mean squared error.

    Targets are not rescaled: training is slow for targets far from 0 or with a large range, so scale them to about -1 to 1.

    Args:
        pair_order: How a pair of texts is encoded: given, or both: the sum of the features of both orders, which is symmetric
            (for similarity and paraphrase; Radford et al. 2018, section 3.3).
        bos: Whether the input starts with the BOS token, as in language-model pretraining.

    Example:
        >>> import numpy as np
        >>> from weft.core.fields import NumberField, TextField
        >>> info = Info({"text": TextField("text", vocab=10), "label": NumberField("label")})
        >>> Regression(info, 8).prepare({"text": np.array([7, 8]), "label": 0.25}, None, None)["label"]
        0.25
    """

    label_type = float

    metrics = ("correlation",)

    def __init__(self, info: Info, dim: int, *, pair_order: PairOrder = "given", bos: bool = False):
        info.expect("label", NumberField, "set label_type: number of the data, or use another objective")
        super().__init__(info, dim, pair_order, bos)

    def forward(self, model: Classifies, batch: Batch, clock: Clock) -> Loss:
        return Loss.of((self._values(model, batch) - batch["label"]).square().sum(), len(batch))

    def predict(self, model: Classifies, batch: Batch, search: Search) -> list[Any]:
        return self._values(model, batch).tolist()

    def _values(self, model: Classifies, batch: Batch) -> Tensor:
        return self.logits(model, batch).squeeze(-1).float()
