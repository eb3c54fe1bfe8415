"""Evaluation: the loss and the metrics of a model on a split of the data."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch

from weft.core import html
from weft.core.batch import Clock
from weft.core.contracts import Codec, Dataset, EvaluationContext, Metric, Objective, Search
from weft.core.fields import Field
from weft.core.options import Count, Natural
from weft.core.outputs import Hypothesis, MaskPrediction, SpanPrediction
from weft.core.registry import Build, block, name_of, slot
from weft.data import evaluation_batches
from weft.evaluate.bootstrap import bootstrap
from weft.evaluate.subsample import evenly
from weft.generate import Greedy

_SMALLER_IS_BETTER = (
    "loss",
    "perplexity",
    "word_perplexity",
    "mean_absolute_error",
    "self_bleu",
    "repetition",
    "negative_elbo",
    "reconstruction",
    "iw_nll",
    "iw_perplexity",
    "iw_word_perplexity",
)
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
    split: str = ""
    metrics: Sequence[Metric] = field(default=(), repr=False, compare=False)
    """The metrics that were computed, of which there are confidence intervals."""

    def about(self, metrics: Iterable[Metric]) -> dict[str, Any]:
        """What stands beside the figures in a file: their intervals, how they were computed, remarks."""
        return {"intervals": self.intervals(metrics), "signatures": self.signatures, "remarks": self.remarks}

    def intervals(self, metrics: Iterable[Metric]) -> dict[str, tuple[float, float]]:
        """Bootstrap confidence intervals (95 %) of the metrics' figures, by name."""
        order = sorted(self.predictions)
        predictions, references = [self.predictions[row] for row in order], [self.references[row] for row in order]
        found: dict[str, tuple[float, float]] = {}
        for metric in metrics if len(order) > 1 else ():
            if metric.wants in _ASK:
                found |= bootstrap(metric, predictions, references)
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
        answers: dict[int, str] = {}
        with torch.inference_mode():
            batches = evaluation_batches(dataset, objective, self.batch, (0,))
            for batch in batches:
                moved = batch.to(device)
                with batch.naming("the rows"):
                    loss = objective(model, moved, Clock())
                for name, term in loss.items():
                    totals[name] = totals.get(name, 0.0) + float(term.total)
                    counts[name] = counts.get(name, 0) + term.count
                    weights[name] = term.weight
                if any(m.wants in _ASK for m in self.metrics):
                    predictions = objective.predict(model, moved, self.search)
                    answers |= {row: readable(p, codec, dataset.raw(row)) for row, p in zip(batch.rows, predictions, strict=True)}
            subject = EvaluationContext(model, objective, dataset, codec, device, self.batch, last)
            looked = {id(m): m.measure(subject) for m in self.metrics if m.wants == "model"}
        model.train(was_training)
        objective.train(was_training)
        means = {name: totals[name] / max(counts[name], 1) for name in totals}
        metric_values = {
            "loss": sum(weights[name] * mean for name, mean in means.items()),
            **means,
            **objective.metric_values(means),
        }
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
            remarks += metric.remarks(found)
        signatures = {name_of(type(m)): m.signature() for m in self.metrics if m.signature()}
        return EvaluationResult(metric_values, answers, references, signatures, remarks, metrics=self.metrics)

    def check_best(self, terms: Iterable[str], objective: Objective) -> None:
        """Raises ValueError if neither the loss, whose ``terms`` are known, nor a metric gives the figure that decides."""
        names = list(terms)
        known = [*dict.fromkeys(["loss", *names]), *objective.metric_values(dict.fromkeys(names, 1.0))]
        if self.best in known or "/" in self.best:  # a group is known from the data only
            return
        for metric in self.metrics:
            if (metric_values := _figures_of(metric)) is None or self.best in metric_values:
                return
            known += [name for name in metric_values if "/" not in name]
        raise ValueError(f"evaluate.best is {self.best!r}, but the evaluation gives: {', '.join(known)}")

    def better(self, metric_values: dict[str, float]) -> float:
        """The deciding figure, turned so that larger is better."""
        if self.best not in metric_values:
            raise ValueError(f"evaluate.best is {self.best!r}, but the evaluation gives: {', '.join(metric_values)}")
        return -metric_values[self.best] if self.best in _SMALLER_IS_BETTER else metric_values[self.best]


def _figures_of(metric: Metric) -> list[str] | None:
    """The names of a metric's figures, tried on two made-up rows; None if it can make nothing of them."""
    columns = [value for value in vars(metric).values() if isinstance(value, str)]
    try:
        return list(metric.compute(["1", "2"], [dict.fromkeys(columns, "1"), dict.fromkeys(columns, "2")]))
    except Exception:  # somebody else's code, and rows that it was not made for: the first evaluation will tell
        return None


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
