"""Evaluation: the loss and the metrics of a model on a split of the data."""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch

from weft.core.batch import Clock
from weft.core.contracts import Codec, Dataset, EvaluationContext, Metric, Objective, Search
from weft.core.fields import Field
from weft.core.options import Count, Natural
from weft.core.outputs import Hypothesis, MaskPrediction, SpanPrediction
from weft.core.registry import Build, block, name_of, slot
from weft.data import evaluation_batches
from weft.evaluate.bootstrap import bootstrap
from weft.evaluate.shared_encoding import shared_encoding
from weft.evaluate.subsample import evenly
from weft.generate import Greedy

_ASK = ("text", "label")
"""What metrics want that are computed from predictions."""


@dataclass
class EvaluationResult:
    """The figures of an evaluation by name, and what was predicted for each row (where a metric asked for it)."""

    metric_values: dict[str, float]
    predictions: dict[int, str] = field(default_factory=dict)
    references: dict[int, dict[str, str]] = field(default_factory=dict)
    """The rows that were predicted, as they were written."""
    signatures: dict[str, str] = field(default_factory=dict)
    """How a metric was computed, where it says so."""
    remarks: list[str] = field(default_factory=list)
    """What should be known to who reads the figures."""
    higher_is_better: dict[str, bool] = field(default_factory=dict)
    """The direction of each value that has one."""
    split: str = ""

    def about(self, metrics: Iterable[Metric]) -> dict[str, Any]:
        """What stands beside the figures in a file: their intervals, how they were computed, remarks."""
        return {
            "intervals": self.intervals(metrics),
            "signatures": self.signatures,
            "remarks": self.remarks,
            "higher_is_better": self.higher_is_better,
        }

    def intervals(self, metrics: Iterable[Metric]) -> dict[str, tuple[float, float]]:
        """Bootstrap confidence intervals (95 %) of the metrics' figures, by name."""
        order = sorted(self.predictions)
        predictions, references = [self.predictions[row] for row in order], [self.references[row] for row in order]
        found: dict[str, tuple[float, float]] = {}
        for metric in metrics if len(order) > 1 else ():
            if metric.wants in _ASK:
                found |= bootstrap(metric, predictions, references)
        return found


@block("evaluation")
@slot
class Evaluation:
    """How a model is judged, during training and after it.

    Args:
        every: Rounds between evaluations; 0 = only when all training is over.
        metrics: Figures besides the loss.
        search: How texts are generated for the metrics that compare texts.
        split: The part of the data used during training.
        rows: Only so many rows during training, from all of them; 0 = all.
        best: The figure that decides which weights are best.
        batch: Tokens per batch.

    Example:
        >>> Evaluation(every=100).best
        'loss'
    """

    def __init__(
        self,
        *,
        every: Natural = 0,
        metrics: list[Build[Metric]] | None = None,
        search: Build[Search] = Greedy,
        split: str = "valid",
        rows: Natural = 0,
        best: str = "loss",
        batch: Count = 8000,
    ):
        self.every, self.split, self.rows, self.best, self.batch = every, split, rows, best, batch
        self.metrics = [build() for build in metrics or []]
        self.search = search()

    def judge(
        self,
        model: torch.nn.Module,
        objective: Objective,
        dataset: Dataset,
        codec: Codec,
        device: torch.device,
        rows: int = 0,
        last: bool = True,
    ) -> EvaluationResult:
        """Evaluate on a dataset, or on so many ``rows`` of it. Leaves the model's mode as it was. ``last``: training is over."""
        if rows and rows < len(dataset):
            dataset = Some(dataset, rows)
        was_training = model.training
        model.eval()
        objective.eval()
        totals: dict[str, float] = {}
        counts: dict[str, int] = {}
        weights: dict[str, float] = {}
        directions: dict[str, bool | None] = {"loss": False}
        answers: dict[int, str] = {}
        predicting = any(m.wants in _ASK for m in self.metrics)
        with torch.inference_mode():
            batches = evaluation_batches(dataset, objective, self.batch, (0,))
            for batch in batches:
                moved = batch.to(device)
                with shared_encoding(model):
                    with batch.naming("the rows"):
                        loss = objective(model, moved, Clock())
                    predictions = objective.predict(model, moved, self.search) if predicting else []
                for name, term in loss.items():
                    totals[name] = totals.get(name, 0.0) + float(term.total)
                    counts[name] = counts.get(name, 0) + term.count
                    weights[name], directions[name] = term.weight, term.higher_is_better
                if predicting:
                    answers |= {row: readable(p, codec, dataset.raw(row)) for row, p in zip(batch.rows, predictions, strict=True)}
            subject = EvaluationContext(model, objective, dataset, codec, device, self.batch, last)
            looked = {id(m): m.measure(subject) for m in self.metrics if m.wants == "model"}
        model.train(was_training)
        objective.train(was_training)
        means = {name: totals[name] / max(counts[name], 1) for name in totals}
        derived = objective.metric_values(means)
        metric_values = {"loss": sum(weights[name] * mean for name, mean in means.items()), **means, **derived}
        directions |= {name: objective.higher_is_better.get(name) for name in derived}
        if batches.skipped:
            metric_values["rows_left_out"] = batches.skipped
        references = {row: dataset.raw(row) for row in sorted(answers)}
        remarks: list[str] = []
        for metric in self.metrics:
            if metric.wants == "model":
                found = looked[id(metric)]
            elif metric.wants == "loss":
                everything = [references.get(row) or dataset.raw(row) for row in range(len(dataset))]
                found = metric.compute([totals], everything)
            else:
                found = metric.compute([answers[row] for row in references], list(references.values()))
            metric_values |= found
            directions |= {name: metric.direction(name) for name in found}
            remarks += metric.remarks(found)
        signatures = {name_of(type(m)): m.signature() for m in self.metrics if m.signature()}
        higher_is_better = {name: higher for name, higher in directions.items() if higher is not None}
        return EvaluationResult(metric_values, answers, references, signatures, remarks, higher_is_better)

    def check_best(self, terms: Iterable[str], objective: Objective) -> None:
        """Raise ValueError if ``best`` is neither the loss, one of its ``terms``, nor a value that has a direction."""
        names = list(terms)
        directions: dict[str, bool | None] = dict.fromkeys(["loss", *names], False)
        directions |= {name: objective.higher_is_better.get(name) for name in objective.metric_values(dict.fromkeys(names, 1.0))}
        for metric in self.metrics:
            directions |= metric.higher_is_better
        if self.best not in directions and self.best.partition("/")[0] in directions:  # groups are known from the data only
            return
        self._check_direction(directions, {name for name, higher in directions.items() if higher is not None})

    def better(self, judged: EvaluationResult) -> float:
        """The value of ``best``, negated where lower is better: the larger, the better."""
        self._check_direction(judged.metric_values, judged.higher_is_better)
        value = judged.metric_values[self.best]
        return value if judged.higher_is_better[self.best] else -value

    def _check_direction(self, values: Iterable[str], directed: Container[str]) -> None:
        usable = ", ".join(name for name in values if name in directed and "/" not in name)
        if self.best not in values:
            raise ValueError(f"evaluate.best is {self.best!r}, but the evaluation gives: {usable}")
        if self.best not in directed:
            raise ValueError(
                f"evaluate.best is {self.best!r}, which does not declare higher_is_better, so no value of it is the best; "
                f"choose one of: {usable}"
            )


def readable(prediction: Any, codec: Codec, row: Mapping[str, str]) -> str:
    """A prediction about a row as the data writes it: the best text found, a class, several with a tab between them, tags, a
    number, a passage of one of the row's texts, the tokens at its masks with a tab between them."""
    info = codec.info
    if isinstance(prediction, SpanPrediction):
        return codec.excerpt(prediction, row[prediction.of])
    if isinstance(prediction, MaskPrediction):
        return "\t".join(codec.tokenizers[info[prediction.of].space].tokens([i])[0].strip("▁Ġ") for i in prediction.ids)
    if isinstance(prediction, float):
        return f"{prediction:.6g}"
    if isinstance(prediction, int):
        return _label(info["label"], prediction)
    if prediction and isinstance(prediction[0], Hypothesis):
        return codec.decode(info.target, prediction[0].ids)
    if "tags" in info:
        return " ".join(_label(info["tags"], number) for number in prediction)
    return "\t".join(_label(info["label"], number) for number in prediction)


def _label(field: Field, number: int) -> str:
    return field.labels[number] if number < len(field.labels) else str(number)


class Some:
    """So many rows of a dataset, from all of it: files come class by class, and the first rows would all be of one."""

    def __init__(self, dataset: Dataset, rows: int):
        self.dataset, self.rows = dataset, evenly(range(len(dataset)), rows)
        self.lengths: Mapping[str, np.ndarray] = {name: lengths[self.rows] for name, lengths in dataset.lengths.items()}

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, row: int) -> Any:
        return self.dataset[self.rows[row]]

    def raw(self, row: int) -> dict[str, str]:
        return self.dataset.raw(self.rows[row])
