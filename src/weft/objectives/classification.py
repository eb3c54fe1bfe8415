"""Classification of texts, pairs of texts and images. B examples, C classes."""

from __future__ import annotations

from typing import Any

from torch import Tensor

from weft.core.batch import Batch, Clock, Instance
from weft.core.contracts import Classifies, Dataset, Search
from weft.core.example import MIXED, Example
from weft.core.fields import Info, LabelField, LabelsField, NumberField
from weft.core.loss import Loss
from weft.core.options import Fraction
from weft.core.registry import block
from weft.objectives.class_weights import ClassWeights, Weights
from weft.objectives.inputs import PairOrder, refuse_choices
from weft.objectives.label_objective import LabelObjective


@block("classification")
class Classification(LabelObjective):
    """Classification of a text, a pair of texts or an image with the cross-entropy loss.

    loss = - sum_i w(y_i) log p(y_i | x_i), with label y_i and class weight w; the count is the number of examples. With label
    smoothing e the target puts 1 - e on y_i and e / C on every class. An example that was mixed with another one (by the
    augmentations mixup and cutmix) has the losses of both labels, lam loss(y_a) + (1 - lam) loss(y_b).

    Args:
        label_smoothing: Probability mass e that is spread over all classes (Szegedy et al. 2016,
            https://arxiv.org/abs/1512.00567).
        weights: Class weights in training, by class name (1 for others); balanced = n / (C n_c) for a class with n_c of n
            examples; None = all 1.
        pair_order: How a pair of texts is encoded: given, or both: the sum of the features of both orders, which is symmetric
            (for similarity and paraphrase; Radford et al. 2018, section 3.3).
        bos: Whether the input starts with the BOS token, as in language-model pretraining.

    Example:
        >>> import numpy as np
        >>> from weft.core.fields import LabelField, TextField
        >>> info = Info({"text": TextField("text", vocab=10), "label": LabelField("label", 2)})
        >>> Classification(info, 8).prepare({"text": np.array([7, 8]), "label": 1}, None, None)["label"]
        1
    """

    metrics = ("accuracy", "macro-f1")

    def __init__(
        self,
        info: Info,
        dim: int,
        *,
        label_smoothing: Fraction = 0.0,
        weights: Weights | None = None,
        pair_order: PairOrder = "given",
        bos: bool = False,
    ):
        refuse_choices(info)
        better = {LabelsField: "multi-label", NumberField: "regression"}.get(type(info["label"]), "for this kind")
        label = info.expect("label", LabelField, f"use the objective {better}")
        super().__init__(info, dim, pair_order, bos)
        self.smoothing = label_smoothing
        self.class_weights = ClassWeights(label, weights)

    def setup(self, model: Classifies, dataset: Dataset) -> None:
        self.class_weights.count(dataset[index]["label"] for index in range(len(dataset)))

    def prepare(self, example: Example, rng: Any, pool: Any) -> Instance | None:
        instance = super().prepare(example, rng, pool)
        if instance is not None and (mixed := example.get(MIXED)) is not None:
            instance |= {"other_label": int(mixed.label), "label_weight": float(mixed.weight)}
        return instance

    def forward(self, model: Classifies, batch: Batch, clock: Clock) -> Loss:
        smoothing = self.smoothing if self.training else 0.0
        features_BD = self.input.features(model, batch)
        nll_B = self.class_weights(model.classifier.nll(features_BD, batch["label"], smoothing), batch["label"])
        if "other_label" in batch:  # mixup and CutMix: the loss of both labels
            other_B, weight_B = batch["other_label"], batch["label_weight"].to(nll_B.dtype)
            other_nll_B = self.class_weights(model.classifier.nll(features_BD, other_B, smoothing), other_B)
            nll_B = weight_B * nll_B + (1 - weight_B) * other_nll_B
        return Loss.of(nll_B.sum(), len(batch))

    def predict(self, model: Classifies, batch: Batch, search: Search) -> list[Any]:
        return self.logits(model, batch).argmax(-1).tolist()

    def probabilities(self, model: Classifies, batch: Batch) -> Tensor:
        return self.logits(model, batch).float().softmax(-1)
