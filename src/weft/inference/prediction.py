"""Prediction with a trained run: classes, tags, numbers, spans, choices, masked tokens."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import torch

from weft.core.batch import Instance
from weft.core.contracts import Codec, Decodes, Latent, Objective, Search
from weft.core.example import Example, Sequences
from weft.core.fields import Info
from weft.core.outputs import Hypothesis, MaskPrediction
from weft.data import encode_example, with_mask_tokens
from weft.data.requests import BadRequest, Request
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
        problem: Why there is no prediction; "" = there is one.
    """

    text: str
    probabilities: dict[str, float]
    kind: str = "label"
    problem: str = ""

    def value(self) -> str | float | list[str] | None:
        """Return the prediction as a JSON value: a number, a list of tags or classes, or a string; None where there is none."""
        if self.problem:
            return None
        if self.kind == "number":
            return float(self.text)
        if self.kind in ("tags", "labels"):
            return self.text.split(" " if self.kind == "tags" else "\t") if self.text else []
        return self.text


def predictions(
    trained: TrainedRun,
    requests: Iterable[Request | BadRequest],
    batch_size: int = 64,
    on_bad_request: Literal["error", "skip"] = "error",
) -> Iterator[Prediction]:
    """Yield the prediction for each request, in order.

    Args:
        trained: A run whose objective predicts.
        requests: A text each; a tuple, or a dict by field, where examples have several texts.
        batch_size: Number of requests per batch.
        on_bad_request: What happens to a request that cannot be read: ``error``, or ``skip`` for an empty prediction with its
            ``problem``.
    """
    _check_model(trained, requests)
    rows, search, first = (_readable(trained, request) for request in requests), trained.evaluation().search, 1
    while group := list(islice(rows, batch_size)):
        yield from _predict_batch(trained, group, first, search, on_bad_request == "skip")
        first += len(group)


def _readable(trained: TrainedRun, request: Request | BadRequest) -> dict[str, str] | BadRequest:
    if isinstance(request, BadRequest):
        return request
    try:
        return trained.cells(request)
    except ValueError as error:
        return BadRequest(str(error))


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


def _predict_batch(
    trained: TrainedRun, group: Sequence[Mapping[str, str] | BadRequest], first: int, search: Search, skip: bool
) -> Iterator[Prediction]:
    """Predict a batch of requests, the first of which is number ``first``."""
    codec = trained.codec
    masked = with_mask_tokens(codec) if trained.objective.fills else None
    encoded = [_encoded(trained, masked, row, number, skip) for number, row in enumerate(group, first)]
    outputs = _forward(trained, [one.instance for one in encoded], first, search)
    for one in encoded:
        if one.problem:
            yield Prediction("", {}, _target_kind(codec), one.problem)
            continue
        output, probabilities = next(outputs) if one.instance is not None else (None, [])
        yield _prediction(codec, one.row, one.example, output, probabilities)


class _Encoded(NamedTuple):
    """A request with its example; without an instance there is nothing to predict, because of a problem if there is one."""

    row: Mapping[str, str]
    example: Example
    instance: Instance | None
    problem: str = ""


def _encoded(trained: TrainedRun, masked: Codec | None, row: Mapping[str, str] | BadRequest, number: int, skip: bool) -> _Encoded:
    """Encode a request. Raises ValueError for one that cannot be read, unless it is skipped."""
    try:
        if isinstance(row, BadRequest):
            raise ValueError(row.problem)
        spec = trained.request_format(row)
        example = encode_example(masked or spec.codec, row, trained.count_truncated)
        has_words = _has_words(trained.codec.info, row)
        return _Encoded(row, example, spec.objective.prepare_request(example) if has_words else None)
    except ValueError as error:
        if not skip:
            raise ValueError(f"request {number}: {error}") from None
        return _Encoded({}, {}, None, str(error))


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
    choices = next((len(value) for value in example.values() if isinstance(value, Sequences)), len(labels))
    by_class = dict(zip(labels[:choices], probabilities[:choices], strict=True)) if probabilities else {}
    return Prediction(text, by_class, _kind_of(output) or _target_kind(codec))


def _target_kind(codec: Codec) -> str:
    """Return the kind of the field that the data has to predict."""
    return next((f.kind for f in codec.info.fields.values() if f.name in ("label", "tags")), "text")


def _kind_of(output: Any) -> str:
    """Return the kind of generated text and of masked tokens, which no field of the data decides; "" for others."""
    if isinstance(output, list) and output and isinstance(output[0], Hypothesis):
        return "text"
    return "labels" if isinstance(output, MaskPrediction) else ""


def _has_words(info: Info, row: Mapping[str, str]) -> bool:
    """Return whether there is anything to tag: a text that is given as words may be empty."""
    return all(row[f.name] for f in info.texts() if f.words)
