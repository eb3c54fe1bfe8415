"""Evaluation: the loss and the metrics of a model on a split of the dataset."""

from __future__ import annotations

import math
from collections.abc import Container, Iterable, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import torch
from torch import Tensor

from weft.blocks.prepared import PreparedWeights
from weft.core import html
from weft.core.batch import Clock
from weft.core.contracts import Codec, Dataset, EvaluationContext, Metric, Objective, Search, Structure
from weft.core.loss import Loss, to_floats
from weft.core.options import Count, Every, Natural, OptionError
from weft.core.outputs import FieldPrediction, Hypothesis, MaskPrediction, SpanPrediction
from weft.core.registry import CATALOG, Build, block, name_of, slot
from weft.core.seeding import Key, seeded
from weft.data import evaluation_batches
from weft.evaluate.resampling import confidence_intervals
from weft.evaluate.scored_text import scored_example
from weft.evaluate.shared_encoding import shared_encoding
from weft.evaluate.subsample import subsample
from weft.generate import GreedySearch

_FROM_PREDICTIONS = ("text", "label")
"""Values of ``Metric.inputs`` for which ``compute`` receives the predictions."""


@dataclass(repr=False)
class EvaluationResult:
    """The values of an evaluation by name, and the predictions where a metric needs them.

    Args:
        metric_values: Loss, loss terms, derived values and metrics by name.
        predictions: The prediction for each example, by index, as text.
        references: The raw examples that were predicted, by index.
        signatures: How a metric was computed, by catalog name, where there is more than one way.
        remarks: Warnings about the values, as sentences.
        higher_is_better: The direction of each value that has one.
        split: The name of the split.
        metrics: The metrics that were computed, for confidence intervals.
        parts: The results of several sources by name, where they are evaluated separately; the predictions are there.
    """

    metric_values: dict[str, float]
    predictions: dict[int, str] = field(default_factory=dict)
    references: dict[int, dict[str, str]] = field(default_factory=dict)
    signatures: dict[str, str] = field(default_factory=dict)
    remarks: list[str] = field(default_factory=list)
    higher_is_better: dict[str, bool] = field(default_factory=dict)
    split: str = ""
    metrics: Sequence[Metric] = field(default=(), repr=False, compare=False)
    parts: dict[str, EvaluationResult] = field(default_factory=dict, repr=False)

    def __repr__(self) -> str:
        return f"<EvaluationResult{' ' * bool(self.split)}{self.split}: {', '.join(self.shown()) or 'no values'}>"

    def shown(self) -> list[str]:
        """The values with their names, rounded."""
        return [f"{name} {html.show_number(value)}" for name, value in self.metric_values.items()]

    @classmethod
    def from_document(cls, document: Mapping[str, Any]) -> EvaluationResult:
        """The result that a ``metrics.json`` stores, without predictions. A value that was not finite (null) is NaN.

        Example:
            >>> EvaluationResult.from_document({"format": 1, "split": "test", "loss": 0.5, "remarks": []}).metric_values
            {'loss': 0.5}
        """
        named = {name: value for name, value in document.items() if name not in ("format", "split")}
        values = {name: math.nan if v is None else v for name, v in named.items() if v is None or isinstance(v, int | float)}
        parts = {name: document[name] for name in ("signatures", "remarks", "higher_is_better") if name in document}
        return cls(values, split=document.get("split", ""), **parts)

    def details(self, metrics: Iterable[Metric]) -> dict[str, Any]:
        """What a metrics file stores beside the values: confidence intervals, signatures, remarks, directions."""
        return {
            "intervals": self.intervals(metrics),
            "signatures": self.signatures,
            "remarks": self.remarks,
            "higher_is_better": self.higher_is_better,
        }

    def intervals(self, metrics: Iterable[Metric]) -> dict[str, tuple[float, float]]:
        """95 % confidence intervals of the metrics' values, by name. Parts have their own metrics."""
        if self.parts:
            of_parts = {part: result.intervals(result.metrics) for part, result in self.parts.items()}
            return {f"{part}.{name}": bounds for part, own in of_parts.items() for name, bounds in own.items()}
        order = sorted(self.predictions)
        predictions, references = [self.predictions[i] for i in order], [self.references[i] for i in order]
        found: dict[str, tuple[float, float]] = {}
        for metric in metrics if len(order) > 1 else ():
            if metric.inputs in _FROM_PREDICTIONS:
                found |= confidence_intervals(metric, predictions, references)
        return found

    def _repr_html_(self) -> str:
        bounds = self.intervals(self.metrics)
        rows = [
            [name, html.show_number(value), " – ".join(map(html.show_number, bounds.get(name, ())))]
            for name, value in self.metric_values.items()
        ]
        caption = f"Evaluation on {self.split}" if self.split else "Evaluation"
        below = [*(f"{name}: {how}" for name, how in self.signatures.items()), *self.remarks]
        return html.page(html.table(["metric", "value", "95 % interval"], rows, caption=caption), html.notes(below))


def _checked(metric: Metric) -> Metric:
    """The metric; an error for one that is computed from something unknown."""
    if metric.inputs not in (*_FROM_PREDICTIONS, "loss", "model"):
        raise OptionError("metrics", f"{type(metric).__name__}.inputs is {metric.inputs!r}; use text, label, loss or model")
    return metric


@block("evaluation")
@slot
class Evaluation:
    """How a model is evaluated, during training and after it.

    Args:
        every: Steps between evaluations, or {epochs: n}; 0 = only after training.
        metrics: Metrics besides the loss, or a mapping of the names of sources to metrics; None = those of the objective, such as
            accuracy and macro-f1 of a classifier.
        search: The decoding strategy for metrics that compare texts.
        split: The split that is used during training.
        max_examples: At most N examples of a source during training, spread over the split; 0 = all.
        monitor: The value that early stopping and the best checkpoint depend on: ``loss``, a loss term, or a metric's value,
            such as macro-f1; with several sources, ``name.macro-f1``, and ``loss`` is the mean over the sources.
        batch_tokens: Tokens per batch.

    Example:
        >>> Evaluation(every=100).monitor
        'loss'
    """

    def __init__(
        self,
        *,
        every: Every = 0,
        metrics: list[Build[Metric]] | dict[str, list[Build[Metric]]] | None = None,
        search: Build[Search] = GreedySearch,
        split: str = "valid",
        max_examples: Natural = 0,
        monitor: str = "loss",
        batch_tokens: Count = 8000,
    ):
        if isinstance(every, dict) and set(every) != {"epochs"}:
            raise OptionError("every", f"every must be a number of steps or {{epochs: n}}, not {every}")
        self.every, self.split, self.max_examples = every, split, max_examples
        head, slash, group = monitor.partition("/")
        source, dot, name = head.rpartition(".")
        self.monitor = source + dot + name.replace("-", "_") + slash + group  # macro-f1 is in the catalog, macro_f1 its value
        self.batch_tokens = batch_tokens
        named, common = (metrics, []) if isinstance(metrics, dict) else ({}, metrics or [])
        self.metrics = [_checked(build()) for build in common]
        self.source_metrics = {name: [_checked(build()) for build in builds] for name, builds in named.items()}
        """Metrics by the name of a source, where they are chosen so."""
        self.search = search()

    def steps_between(self, steps_per_epoch: float) -> int:
        """Return the number of steps between evaluations during training; 0 = none.

        Example:
            >>> Evaluation(every={"epochs": 0.5}).steps_between(9.0)
            4
        """
        return self.every if isinstance(self.every, int) else max(1, int(self.every["epochs"] * steps_per_epoch))

    def evaluate(
        self,
        model: Structure,
        objective: Objective,
        dataset: Dataset,
        codec: Codec,
        device: torch.device,
        max_examples: int = 0,
        last: bool = True,
        key: Key = (),
    ) -> EvaluationResult:
        """Evaluate a model on a dataset, in evaluation mode and without gradients; the model's mode is restored.

        The global random number generators are seeded, for models that sample in their forward pass, and restored.

        Args:
            model: The network.
            objective: Computes the loss and the predictions.
            dataset: The examples.
            codec: Turns predictions into text.
            device: The device of the model.
            max_examples: At most N examples, spread over the dataset; 0 = all.
            last: Whether training is over; some metrics are cheaper before.
            key: Seed of the evaluation: seed of the run, stage, step and split.
        """
        if max_examples and max_examples < len(dataset):
            dataset = Subset(dataset, max_examples)
        was_training = model.training
        model.eval()
        objective.eval()
        with torch.inference_mode(), PreparedWeights().active(), seeded(key, "evaluate"):
            totals = self._run_batches(model, objective, dataset, codec, device)
            context = EvaluationContext(model, objective, dataset, codec, device, self.batch_tokens, last)
            measured = {id(metric): metric.measure(context) for metric in self.metrics if metric.inputs == "model"}
        model.train(was_training)
        objective.train(was_training)
        metric_values, directions = totals.metric_values(objective)
        references = {i: dataset.raw(i) for i in sorted(totals.predictions)}
        remarks: list[str] = []
        for metric in self.metrics:
            if metric.inputs == "model":
                found = measured[id(metric)]
            elif metric.inputs == "loss":
                found = metric.compute([totals.sums], [scored_example(dataset, codec, row) for row in sorted(totals.rows)])
            else:
                found = metric.compute([totals.predictions[i] for i in references], list(references.values()))
            metric_values |= found
            directions |= {name: metric.direction(name) for name in found}
            remarks += metric.remarks(found)
        signatures = {name_of(type(m)): m.signature() for m in self.metrics if m.signature()}
        higher_is_better = {name: higher for name, higher in directions.items() if higher is not None}
        return EvaluationResult(
            metric_values, totals.predictions, references, signatures, remarks, higher_is_better, metrics=self.metrics
        )

    def _run_batches(
        self, model: Structure, objective: Objective, dataset: Dataset, codec: Codec, device: torch.device
    ) -> _Totals:
        """The sums of the loss terms and, where a metric needs them, the predictions over all batches."""
        totals = _Totals()
        batches = evaluation_batches(dataset, objective, self.batch_tokens, (0,))
        predicts = any(metric.inputs in _FROM_PREDICTIONS for metric in self.metrics)
        for batch in batches:
            moved = batch.to(device)
            with shared_encoding(model):
                with batch.naming("the rows"):
                    totals.add(objective(model, moved, Clock()), batch.rows)
                predictions = objective.predict(model, moved, self.search) if predicts else []
            for i, prediction in zip(batch.rows, predictions, strict=True) if predicts else ():
                totals.predictions[i] = prediction_text(prediction, codec, dataset.raw(i))
        totals.skipped = batches.skipped
        return totals

    def of_source(self, name: str, defaults: Sequence[str] = ()) -> Evaluation:
        """Return the evaluation of a source, with its metrics.

        Args:
            name: The name of the source; "" = the only one.
            defaults: Catalog names of the metrics where none are chosen.
        """
        own = copy(self)
        own.metrics = self.source_metrics.get(name, self.metrics) or [CATALOG[Metric][metric]() for metric in defaults]
        own.source_metrics = {}
        return own

    def check_monitor(self, monitor: str, terms: Iterable[str], objective: Objective) -> None:
        """Raise ValueError if a value is neither the loss, one of its ``terms``, nor a value that has a direction."""
        names = list(terms)
        directions: dict[str, bool | None] = dict.fromkeys(["loss", *names], False)
        directions |= {name: objective.higher_is_better.get(name) for name in objective.metric_values(dict.fromkeys(names, 1.0))}
        for metric in self.metrics:
            directions |= metric.higher_is_better
        if monitor not in directions and monitor.partition("/")[0] in directions:
            return  # groups are known from the data only
        _check_direction(monitor, directions, {name for name, higher in directions.items() if higher is not None})

    def score(self, result: EvaluationResult) -> float:
        """The monitored value, negated where lower is better, so that a higher score is always better."""
        _check_direction(self.monitor, result.metric_values, result.higher_is_better)
        value = result.metric_values[self.monitor]
        return value if result.higher_is_better[self.monitor] else -value


def _check_direction(monitor: str, values: Iterable[str], directed: Container[str]) -> None:
    usable = ", ".join(name for name in values if name in directed and "/" not in name)
    if monitor not in values:
        raise OptionError("monitor", f"monitor is {monitor!r}, but the evaluation returns: {usable}")
    if monitor not in directed:
        raise OptionError(
            "monitor",
            f"monitor is {monitor!r}, which does not declare higher_is_better, so no value of it is the best; "
            f"choose one of: {usable}",
        )


@dataclass
class _Totals:
    """Sums over the batches of an evaluation."""

    totals: dict[str, list[Tensor]] = field(default_factory=dict)
    """The total of each term in each batch, on the device of the model."""
    counts: dict[str, int] = field(default_factory=dict)
    weights: dict[str, float] = field(default_factory=dict)
    directions: dict[str, bool | None] = field(default_factory=lambda: {"loss": False})
    predictions: dict[int, str] = field(default_factory=dict)
    rows: list[int] = field(default_factory=list)
    """The examples that have a loss."""
    skipped: int = 0

    def add(self, loss: Loss, rows: Iterable[int]) -> None:
        self.rows += rows
        for name, term in loss.items():
            self.totals.setdefault(name, []).append(term.total)
            self.counts[name] = self.counts.get(name, 0) + term.count
            self.weights[name], self.directions[name] = term.weight, term.higher_is_better

    @cached_property
    def sums(self) -> dict[str, float]:
        """The total of each term over all batches, copied from the device in one synchronization."""
        sums = dict.fromkeys(self.totals, 0.0)
        names = [name for name, totals in self.totals.items() for _ in totals]
        for name, value in zip(names, to_floats([total for totals in self.totals.values() for total in totals]), strict=True):
            sums[name] += value
        return sums

    def metric_values(self, objective: Objective) -> tuple[dict[str, float], dict[str, bool | None]]:
        """The loss, the mean of each term and the values that the objective derives from them, with their directions."""
        means = {name: total / max(self.counts[name], 1) for name, total in self.sums.items()}
        derived = objective.metric_values(means)
        values = {"loss": sum(self.weights[name] * mean for name, mean in means.items()), **means, **derived}
        if self.skipped:
            values["skipped_examples"] = self.skipped
        return values, self.directions | {name: objective.higher_is_better.get(name) for name in derived}


def prediction_text(prediction: Any, codec: Codec, example: Mapping[str, str]) -> str:
    """A prediction for an example as text, in the format of the data.

    The best hypothesis decoded; the value of a field; a class; several classes separated by tabs; tags separated by spaces; a
    number; the predicted span of one of the example's texts; the tokens predicted for its masks, separated by tabs.
    """
    info = codec.info
    if isinstance(prediction, SpanPrediction):
        return codec.excerpt(prediction, example[prediction.of])
    if isinstance(prediction, MaskPrediction):
        return "\t".join(
            codec.tokenizers[codec.tokenized(prediction.of).space].tokens([i])[0].strip("▁Ġ") for i in prediction.ids
        )
    if isinstance(prediction, FieldPrediction):
        return info[prediction.of].to_text(prediction.value)
    if isinstance(prediction, int | float):
        return info["label"].to_text(prediction)
    if prediction and isinstance(prediction[0], Hypothesis):
        return codec.decode(info.target, prediction[0].ids)
    return info["tags" if "tags" in info else "label"].to_text(prediction)


class Subset:
    """N examples spread evenly over a dataset: files are often sorted by class, so the first N may all be of one class.

    Args:
        dataset: All examples.
        size: N.
    """

    def __init__(self, dataset: Dataset, size: int):
        self.dataset, self.indices = dataset, subsample(range(len(dataset)), size)
        self.lengths: Mapping[str, np.ndarray] = {name: lengths[self.indices] for name, lengths in dataset.lengths.items()}

    def __len__(self) -> int:
        return len(self.indices)

    def __getitem__(self, row: int) -> Any:
        return self.dataset[self.indices[row]]

    def raw(self, row: int) -> dict[str, str]:
        return self.dataset.raw(self.indices[row])
