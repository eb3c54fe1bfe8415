"""Error analysis: the examples with the largest loss."""

from __future__ import annotations

from dataclasses import dataclass
from heapq import nsmallest
from typing import TYPE_CHECKING, Any

import numpy as np

from weft.core.batch import Clock, Instance
from weft.core.contracts import Dataset
from weft.evaluate.evaluation import prediction_text
from weft.evaluate.shared_encoding import shared_encoding
from weft.inference.engine import answers, instance_length

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
    objective, search = trained.objective, trained.evaluation().search

    def prepare(rows: list[int], first: int) -> list[Instance | None]:
        return [objective.prepare(dataset[row], np.random.default_rng(0), dataset) for row in rows]

    def loss(batch: list[Instance | None], rows: list[int]) -> list[float | None]:
        (instance,) = batch  # a batch has the sum of the losses of its rows
        return [None if instance is None else objective(trained.model, trained.collate([instance]), Clock()).mean().item()]

    def predict(batch: list[Any], numbers: list[int]) -> list[Any]:
        with shared_encoding(trained.model):
            return objective.predict(trained.model, trained.collate(batch), search)

    losses = answers(range(len(dataset)), prepare, loss, length=lambda one: 0, model=trained.model, max_rows=1)
    worst = nsmallest(max_examples, ((-loss, row) for row, loss in enumerate(losses) if loss is not None))
    try:
        outputs = list(answers([row for _, row in worst], prepare, predict, length=instance_length, model=trained.model))
        predictions = [
            prediction_text(out, trained.codec, dataset.raw(row)) for out, (_, row) in zip(outputs, worst, strict=True)
        ]
    except ValueError:  # a language model has no reference to compare with
        predictions = [""] * len(worst)
    return [
        HighLossExample(row, -loss, prediction, dataset.raw(row))
        for prediction, (loss, row) in zip(predictions, worst, strict=True)
    ]
