"""Multi-label classification. B examples, C classes."""

from __future__ import annotations

from typing import Any

import torch.nn.functional as F
from torch import Tensor

from weft.core.batch import Batch, Clock, Instance
from weft.core.contracts import Classifies, Objective, Search
from weft.core.example import Example
from weft.core.fields import Info, LabelsField
from weft.core.loss import Loss
from weft.core.options import Fraction
from weft.core.registry import block
from weft.objectives.inputs import EncoderInput


@block("multi-label")
class MultiLabel(Objective[Classifies]):
    """Multi-label classification: an independent binary decision per class.

    loss = - sum_i sum_c (y_ic log p_ic + (1 - y_ic) log(1 - p_ic)),  p_ic = sigmoid(logit_ic); the count is the number of
    examples.

    Args:
        threshold: Probability above which a class is predicted.

    Example:
        >>> import numpy as np
        >>> from weft.core.fields import LabelsField, TextField
        >>> info = Info({"text": TextField("text", vocab=10), "label": LabelsField("label", 3)})
        >>> example = {"text": np.array([7, 8]), "label": np.array([1, 0, 1], np.float32)}
        >>> MultiLabel(info, 8).prepare(example, None, None)["label"].tolist()
        [1.0, 0.0, 1.0]
    """

    needs = (Classifies,)
    metrics = ("multi-label-f1",)

    def __init__(self, info: Info, dim: int, *, threshold: Fraction = 0.5):
        super().__init__(info, dim)
        info.expect("label", LabelsField, "set label_type: multiple of the data, or use another objective")
        self.input = EncoderInput(info)
        self.threshold = threshold

    def prepare(self, example: Example, rng: Any, pool: Any) -> Instance | None:
        return Instance(text=self.input(example), label=example["label"])

    def forward(self, model: Classifies, batch: Batch, clock: Clock) -> Loss:
        logit_BC = self._logits(model, batch)
        losses_BC = F.binary_cross_entropy_with_logits(logit_BC, batch["label"].to(logit_BC.dtype), reduction="none")
        return Loss.of(losses_BC.sum(), len(batch))

    def predict(self, model: Classifies, batch: Batch, search: Search) -> list[Any]:
        """Class indices of each example."""
        chosen_BC = self._logits(model, batch).sigmoid() > self.threshold
        return [row.nonzero().flatten().tolist() for row in chosen_BC.cpu()]

    def probabilities(self, model: Classifies, batch: Batch) -> Tensor:
        """B x C: independent probabilities, which do not sum to 1."""
        return self._logits(model, batch).sigmoid()

    def _logits(self, model: Classifies, batch: Batch) -> Tensor:
        return model.classifier(model.features(batch["text"])).float()
