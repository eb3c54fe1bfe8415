"""Error analysis: the examples with the largest loss."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import torch

from weft.core.batch import Clock, Instance
from weft.core.contracts import Dataset
from weft.evaluate.evaluation import prediction_text

if TYPE_CHECKING:
    from weft.inference.trained_run import TrainedRun


@dataclass(frozen=True)
class HighLossExample:
    """An example with a large loss.

    Args:
        row: Index in the dataset.
        loss: Loss, averaged over the tokens where there are several.
        prediction: What the model predicts; "" where the objective predicts nothing that can be shown.
        reference: The example as written in the data files.
    """

    row: int
    loss: float
    prediction: str
    reference: dict[str, str]


def high_loss_examples(trained: TrainedRun, dataset: Dataset, max_examples: int) -> list[HighLossExample]:
    """Return the ``max_examples`` examples with the largest loss, largest first."""
    losses: list[tuple[float, int, Instance]] = []
    found: list[HighLossExample] = []
    objective, search = trained.objective, trained.evaluation().search
    with torch.inference_mode():
        for row in range(len(dataset)):
            instance = objective.prepare(dataset[row], np.random.default_rng(0), dataset)
            if instance is not None:
                loss = objective(trained.model, trained.collate([instance]), Clock()).mean().item()
                losses.append((loss, row, instance))
        for loss, row, instance in sorted(losses, key=lambda one: -one[0])[:max_examples]:
            try:
                output = objective.predict(trained.model, trained.collate([instance]), search)[0]
                prediction = prediction_text(output, trained.codec, dataset.raw(row))
            except ValueError:  # a language model has no reference to compare with
                prediction = ""
            found.append(HighLossExample(row, loss, prediction, dataset.raw(row)))
    return found
