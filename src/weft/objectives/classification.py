"""Say which class a text belongs to."""

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
from weft.core.options import Fraction
from weft.core.registry import block
from weft.objectives.class_weights import ClassWeights, Weights
from weft.objectives.inputs import Ordered, Orders, refuse_choices


@block("classification")
class Classification(Objective):
    """Predict the label of a text.

    loss = - sum_i w(label_i) log p(label_i | text_i); the count is the number of texts.

    Args:
        label_smoothing: Share of the probability that is spread over all classes.
        weights: How much the loss of each class counts in training, by name (others: 1); balanced = n / (C n_c), so that all C
            classes count alike; None = all texts alike.
        orders: How a pair of texts is read: one (as it stands), or both, whose vectors are added: then which is first is all the
            same (similarity, paraphrase; Radford et al. 2018, section 3.3).
        begin: Whether the begin mark stands before what is read, as it does where a language model learns to write it.

    Example:
        >>> import numpy as np
        >>> from weft.core.fields import Field
        >>> info = Info({"text": Field("text", vocab=10), "label": Field("label", vocab=2, kind="label")})
        >>> Classification(info, 8).prepare({"text": np.array([7, 8]), "label": 1}, None, None)["label"]
        1
    """

    needs = (Classifies,)

    def __init__(
        self,
        info: Info,
        dim: int,
        *,
        label_smoothing: Fraction = 0.0,
        weights: Weights | None = None,
        orders: Orders = "one",
        begin: bool = False,
    ):
        super().__init__(info, dim)
        refuse_choices(info)
        self.given, self.label = Ordered(info, orders, begin), info["label"]
        if self.label.kind != "label":
            better = {"labels": "multi-label", "number": "regression"}.get(self.label.kind, "another one")
            raise ValueError(
                f"needs one class a text, but in the data ({info.data}) the field 'label' is a {self.label.kind}: "
                f"take the objective {better}"
            )
        self.smoothing = label_smoothing
        self.weigh = ClassWeights(self.label, weights)

    def setup(self, model: Any, dataset: Any) -> None:
        self.weigh.count(dataset[row]["label"] for row in range(len(dataset)))

    def cost(self, lengths: Mapping[str, np.ndarray]) -> np.ndarray:
        return self.given.cost(super().cost(lengths))

    def prepare(self, example: Example, rng: Any, pool: Any) -> Instance | None:
        return Instance(**self.given(example), label=int(example["label"]))

    def forward(self, model: Any, batch: Batch, clock: Clock) -> Loss:
        smoothing = self.smoothing if self.training else 0.0
        nll_B = model.classifier.nll(self.given.features(model, batch), batch["label"], smoothing)
        return Loss.of(self.weigh(nll_B, batch["label"]).sum(), len(batch))

    def predict(self, model: Any, batch: Batch, search: Search) -> list[Any]:
        return model.classifier(self.given.features(model, batch)).argmax(-1).tolist()

    def probabilities(self, model: Any, batch: Batch) -> Tensor:
        return model.classifier(self.given.features(model, batch)).float().softmax(-1)
