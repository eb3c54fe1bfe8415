"""Ordinal regression. B examples, C classes, K = C - 1 thresholds between them."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from weft.core.batch import Batch, Clock
from weft.core.contracts import Classifies, Search
from weft.core.fields import Info, LabelField
from weft.core.loss import Loss
from weft.core.registry import block
from weft.objectives.inputs import PairOrder, refuse_choices
from weft.objectives.label_objective import LabelObjective


@block("ordinal")
class Ordinal(LabelObjective):
    """Ordinal regression: predict an ordered class, such as a rating, as a binary decision per threshold.

    loss = - sum_i sum_k ([y_i > k] log p(y_i > k) + [y_i <= k] log p(y_i <= k)),  p(y > k) = sum_(c > k) p(c); the count is the
    number of examples.

    An error of two classes costs more than an error of one. p(y > k) is a sum of class probabilities, so it decreases in k with
    any head; with the head ``ordinal`` this is CORAL. Classes are ordered by index: list them from lowest to highest in
    ``labels`` of the data. The prediction is the number of thresholds exceeded, which is the median of p.

    Cao et al. 2020 (CORAL), https://arxiv.org/abs/1901.07884

    Args:
        pair_order: How a pair of texts is encoded: given, or both: the sum of the features of both orders, which is symmetric
            (for similarity and paraphrase; Radford et al. 2018, section 3.3).
        bos: Whether the input starts with the BOS token, as in language-model pretraining.

    Example:
        >>> import numpy as np
        >>> from weft.core.fields import LabelField, TextField
        >>> info = Info({"text": TextField("text", vocab=10), "label": LabelField("label", 5)})
        >>> Ordinal(info, 8).prepare({"text": np.array([7, 8]), "label": 4}, None, None)["label"]
        4
    """

    metrics = ("accuracy", "macro-f1")

    def __init__(self, info: Info, dim: int, *, pair_order: PairOrder = "given", bos: bool = False):
        refuse_choices(info)
        info.expect("label", LabelField, "use data with one label per example, or another objective")
        super().__init__(info, dim, pair_order, bos)

    def forward(self, model: Classifies, batch: Batch, clock: Clock) -> Loss:
        logp_BC = self._log_probabilities(model, batch)
        above_BK, below_BK = _above(logp_BC), _above(logp_BC.flip(1)).flip(1)
        over_BK = batch["label"][:, None] > torch.arange(above_BK.shape[1], device=above_BK.device)
        return Loss.of(-torch.where(over_BK, above_BK, below_BK).sum(), len(batch))

    def predict(self, model: Classifies, batch: Batch, search: Search) -> list[Any]:
        return (_above(self._log_probabilities(model, batch)).exp() > 0.5).sum(1).tolist()

    def probabilities(self, model: Classifies, batch: Batch) -> Tensor | None:
        return self._log_probabilities(model, batch).exp()

    def _log_probabilities(self, model: Classifies, batch: Batch) -> Tensor:
        return self.logits(model, batch).float().log_softmax(-1)


def _above(logp_BC: Tensor) -> Tensor:
    """B x K: log p(y > k) for k = 0 .. C - 2, by cumulative sums from the last class."""
    return logp_BC.flip(1).logcumsumexp(1).flip(1)[:, 1:]
