"""Say the place of a text on a scale. B rows, C classes, K = C - 1 thresholds between them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor

from weft.core.batch import Batch, Clock, Instance
from weft.core.contracts import Classifies, Objective, Search
from weft.core.example import Example
from weft.core.fields import Info
from weft.core.loss import Loss
from weft.core.registry import block
from weft.objectives.inputs import Ordered, Orders, refuse_choices


@block("ordinal")
class Ordinal(Objective):
    """Predict a class that has an order, such as a rating: for each threshold, whether the text lies above it.

    loss = - sum_i sum_k ([y_i > k] log p(y_i > k) + [y_i <= k] log p(y_i <= k)),  p(y > k) = sum_(c > k) p(c); the count is the
    number of texts.

    To be off by two classes costs more than by one. Since p(y > k) is a sum of the structure's probabilities of classes, it falls
    with k under any head; with the head ``ordered`` this is CORAL. Classes are in the order of their numbers: name them from the
    lowest to the highest in the data's ``labels``. Predicted is the number of thresholds passed, the median of p.

    Cao et al. 2020 (CORAL), https://arxiv.org/abs/1901.07884

    Args:
        orders: How a pair of texts is read: one (as it stands), or both, whose vectors are added: then which is first is all the
            same (similarity, paraphrase; Radford et al. 2018, section 3.3).
        begin: Whether the begin mark stands before what is read, as it does where a language model learns to write it.

    Example:
        >>> import numpy as np
        >>> from weft.core.fields import Field
        >>> info = Info({"text": Field("text", vocab=10), "label": Field("label", vocab=5, kind="label")})
        >>> Ordinal(info, 8).prepare({"text": np.array([7, 8]), "label": 4}, None, None)["label"]
        4
    """

    needs = (Classifies,)

    def __init__(self, info: Info, dim: int, *, orders: Orders = "one", begin: bool = False):
        super().__init__(info, dim)
        refuse_choices(info)
        self.given, self.label = Ordered(info, orders, begin), info["label"]
        if self.label.kind != "label":
            raise ValueError(f"needs one class a text, but in the data ({info.data}) the field 'label' is a {self.label.kind}")

    def cost(self, lengths: Mapping[str, np.ndarray]) -> np.ndarray:
        return self.given.cost(super().cost(lengths))

    def prepare(self, example: Example, rng: Any, pool: Any) -> Instance | None:
        return Instance(**self.given(example), label=int(example["label"]))

    def forward(self, model: Any, batch: Batch, clock: Clock) -> Loss:
        logp_BC = self._log_probabilities(model, batch)
        above_BK, below_BK = _above(logp_BC), _above(logp_BC.flip(1)).flip(1)
        over_BK = batch["label"][:, None] > torch.arange(above_BK.shape[1], device=above_BK.device)
        return Loss.of(-torch.where(over_BK, above_BK, below_BK).sum(), len(batch))

    def predict(self, model: Any, batch: Batch, search: Search) -> list[Any]:
        return (_above(self._log_probabilities(model, batch)).exp() > 0.5).sum(1).tolist()

    def probabilities(self, model: Any, batch: Batch) -> Tensor | None:
        return self._log_probabilities(model, batch).exp()

    def _log_probabilities(self, model: Any, batch: Batch) -> Tensor:
        return model.classifier(self.given.features(model, batch)).float().log_softmax(-1)


def _above(logp_BC: Tensor) -> Tensor:
    """B x K: log p(y > k) for k = 0 .. C - 2, by sums from the last class on."""
    return logp_BC.flip(1).logcumsumexp(1).flip(1)[:, 1:]
