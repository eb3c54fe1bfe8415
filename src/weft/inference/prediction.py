"""Prediction with a trained run: classes, tags, numbers, spans, choices, masked tokens."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import TYPE_CHECKING, Any

import torch

from weft.core.batch import Instance
from weft.core.contracts import Codec, Decodes, Latent, Objective, Search
from weft.core.example import Example, Sequences
from weft.core.fields import Info
from weft.core.outputs import Hypothesis, MaskPrediction
from weft.data import encode_example, with_mask_tokens
from weft.data.requests import Request
from weft.evaluate.evaluation import prediction_text
from weft.evaluate.shared_encoding import shared_encoding
from weft.objectives import NextToken

if TYPE_CHECKING:
    from weft.inference.trained_run import TrainedRun


@dataclass(frozen=True)
class Prediction:
    """Prediction for one request.

    Args:
        text: The prediction in the notation of the data files: a class, tags, a number, an extracted span.
        probabilities: Probability of each class; empty where the target is no class.
        kind: Kind of the predicted field: ``label``, ``labels``, ``number``, ``tags`` or ``text``.
    """

    text: str
    probabilities: dict[str, float]
    kind: str = "label"

    def value(self) -> str | float | list[str]:
        """Return the prediction as a JSON value: a number, a list of tags or classes, or a string."""
        if self.kind == "number":
            return float(self.text)
        if self.kind in ("tags", "labels"):
            return self.text.split(" " if self.kind == "tags" else "\t") if self.text else []
        return self.text


def predictions(trained: TrainedRun, requests: Iterable[Request], batch_size: int = 64) -> Iterator[Prediction]:
    """Yield the prediction for each request, in order.

    Args:
        trained: A run whose objective predicts.
        requests: A text each; a tuple, or a dict by field, where examples have several texts.
        batch_size: Number of requests per batch.
    """
    _check_model(trained, requests)
    rows, search, first = (trained.cells(request) for request in requests), trained.evaluation().search, 1
    while group := list(islice(rows, batch_size)):
        yield from _predict_batch(trained, group, first, search)
        first += len(group)


def _check_model(trained: TrainedRun, requests: Any) -> None:
    if isinstance(requests, str):
        raise ValueError(f"expected a list of texts, got one string; pass predict([{requests[:40]!r}])")
    if not set(trained.objective.needs) <= set(trained.model.provides()):
        raise ValueError(f"the model of {trained.name} has no head that predicts; for embeddings use weft embed")
    if Latent in trained.model.provides():
        raise ValueError(
            f"{trained.name} generates text and does not classify: use weft.systems.latent_text.space.open_latent(RUN)"
        )
    objective = trained.objective
    generates = (isinstance(objective, NextToken) and not objective.sources) or type(objective).predict is Objective.predict
    if generates and Decodes in trained.model.provides():
        raise ValueError(f"{trained.name} generates text and predicts no label: use generate(texts)")


def _predict_batch(trained: TrainedRun, group: Sequence[Mapping[str, str]], first: int, search: Search) -> Iterator[Prediction]:
    """Predict a batch of requests, the first of which is number ``first``."""
    codec = trained.codec
    masked = with_mask_tokens(codec) if trained.objective.fills else None
    formats = [trained.request_format(row) for row in group]
    examples = [
        encode_example(masked or form.codec, row, trained.count_truncated) for form, row in zip(formats, group, strict=True)
    ]
    instances = [
        _instance(form.objective, example, number) if _has_words(codec.info, row) else None
        for number, (form, row, example) in enumerate(zip(formats, group, examples, strict=True), first)
    ]
    outputs = _forward(trained, instances, first, search)
    for row, instance, example in zip(group, instances, examples, strict=True):
        output, probabilities = next(outputs) if instance is not None else (None, [])
        yield _prediction(codec, row, example, output, probabilities)


def _forward(
    trained: TrainedRun, instances: Sequence[Instance | None], first: int, search: Search
) -> Iterator[tuple[Any, list[float]]]:
    """Run the model on the instances that are not None: the output and the class probabilities of each."""
    kept = [instance for instance in instances if instance is not None]
    if not kept:
        return iter(())
    batch = trained.collate(kept)
    batch = replace(batch, rows=tuple(number for number, one in enumerate(instances, first) if one is not None))
    with torch.inference_mode(), shared_encoding(trained.model), batch.naming("the requests", 1):
        outputs = trained.objective.predict(trained.model, batch, search)
        probability_BC = trained.objective.probabilities(trained.model, batch)
    probabilities = probability_BC.tolist() if probability_BC is not None else [[]] * len(kept)
    return zip(outputs, probabilities, strict=True)


def _prediction(
    codec: Codec, row: Mapping[str, str], example: Example, output: Any, probabilities: Sequence[float]
) -> Prediction:
    text = "" if output is None else prediction_text(output, codec, row)
    labels = codec.info["label"].labels if "label" in codec.info else ()
    kind = next((f.kind for f in codec.info.fields.values() if f.name in ("label", "tags")), "text")
    choices = next((len(value) for value in example.values() if isinstance(value, Sequences)), len(labels))
    by_class = dict(zip(labels[:choices], probabilities[:choices], strict=True)) if probabilities else {}
    return Prediction(text, by_class, _kind_of(output) or kind)


def _kind_of(output: Any) -> str:
    """Return the kind of generated text and of masked tokens, which no field of the data decides; "" for others."""
    if isinstance(output, list) and output and isinstance(output[0], Hypothesis):
        return "text"
    return "labels" if isinstance(output, MaskPrediction) else ""


def _instance(objective: Objective, example: Example, number: int) -> Instance | None:
    try:
        return objective.prepare_request(example)
    except ValueError as error:
        raise ValueError(f"request {number}: {error}") from None


def _has_words(info: Info, row: Mapping[str, str]) -> bool:
    """Return whether there is anything to tag: a text that is given as words may be empty."""
    return all(row[f.name] for f in info.texts() if f.words)
