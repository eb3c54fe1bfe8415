"""The shared implementation of objectives that predict one label. B examples."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np
from torch import Tensor

from weft.core.batch import Batch, Instance
from weft.core.contracts import Classifies, Objective
from weft.core.example import Example
from weft.core.fields import Info
from weft.objectives.inputs import PairInput, PairOrder


class LabelObjective(Objective[Classifies]):
    """Base class of objectives that predict the label of a text, a pair of texts or an image with ``classifier(features(x))``.

    Args:
        info: The fields of the data.
        dim: Hidden size of the structure.
        pair_order: How a pair of texts is encoded (see ``PairInput``).
        bos: Whether the input starts with the BOS token.
    """

    needs = (Classifies,)
    label_type: ClassVar[type[int] | type[float]] = int

    def __init__(self, info: Info, dim: int, pair_order: PairOrder, bos: bool):
        super().__init__(info, dim)
        self.input = PairInput(info, pair_order, bos)

    def cost(self, lengths: Mapping[str, np.ndarray]) -> np.ndarray:
        return self.input.cost(super().cost(lengths))

    def prepare(self, example: Example, rng: Any, pool: Any) -> Instance | None:
        return Instance(**self.input(example), label=self.label_type(example["label"]))

    def logits(self, model: Classifies, batch: Batch) -> Tensor:
        """B x C."""
        return model.classifier(self.input.features(model, batch))
