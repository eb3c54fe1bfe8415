"""Say a number for a text. B rows."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from torch import Tensor

from weft.core.batch import Batch, Clock, Instance
from weft.core.contracts import Classifies, Objective, Search
from weft.core.example import Example
from weft.core.fields import Info
from weft.core.loss import Loss
from weft.core.registry import block
from weft.objectives.inputs import Ordered, Orders


@block("regression")
class Regression(Objective):
    """Predict a number that belongs to a text, such as a score of similarity.

    loss = sum_i (f(text_i) - y_i)^2; the count is the number of texts, so the mean is the mean squared error.

    Numbers are taken as they are: far from 0 or of the order of hundreds, they are learnt slowly; bring them to about -1 to 1.

    Args:
        orders: How a pair of texts is read: one (as it stands), or both, whose vectors are added: then which is first is all the
            same (similarity, paraphrase; Radford et al. 2018, section 3.3).
        begin: Whether the begin mark stands before what is read, as it does where a language model learns to write it.

    Example:
        >>> import numpy as np
        >>> from weft.core.fields import Field
        >>> info = Info({"text": Field("text", vocab=10), "label": Field("label", vocab=1, kind="number")})
        >>> Regression(info, 8).prepare({"text": np.array([7, 8]), "label": 0.25}, None, None)["label"]
        0.25
    """

    needs = (Classifies,)

    def __init__(self, info: Info, dim: int, *, orders: Orders = "one", begin: bool = False):
        super().__init__(info, dim)
        self.given, self.label = Ordered(info, orders, begin), info["label"]
        if self.label.kind != "number":
            raise ValueError(
                f"needs a number, but in the data ({info.data}) the field 'label' is a {self.label.kind}: "
                "set answer: number there, or take another objective"
            )

    def cost(self, lengths: Mapping[str, np.ndarray]) -> np.ndarray:
        return self.given.cost(super().cost(lengths))

    def prepare(self, example: Example, rng: Any, pool: Any) -> Instance | None:
        return Instance(**self.given(example), label=float(example["label"]))

    def forward(self, model: Any, batch: Batch, clock: Clock) -> Loss:
        return Loss.of((self._numbers(model, batch) - batch["label"]).square().sum(), len(batch))

    def predict(self, model: Any, batch: Batch, search: Search) -> list[Any]:
        return self._numbers(model, batch).tolist()

    def _numbers(self, model: Any, batch: Batch) -> Tensor:
        return model.classifier(self.given.features(model, batch)).squeeze(-1).float()
