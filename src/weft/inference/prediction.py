"""Prediction with a trained run: classes, tags, numbers, spans, choices, masked tokens."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from weft.core.batch import Instance
from weft.core.contracts import Codec, Decodes, Latent, Objective, Search
from weft.core.example import Example, Sequences
from weft.core.fields import FIELD_KINDS, ClassField, Info
from weft.core.outputs import FieldPrediction, Hypothesis, MaskPrediction
from weft.data import encode_examples, with_mask_tokens
from weft.data.requests import BadRequest, Request, RequestSpec
from weft.evaluate.evaluation import prediction_text
from weft.evaluate.shared_encoding import shared_encoding
from weft.inference.engine import BATCH_SIZE, MAX_DECODER_TOKENS, answers, encoder_budget, instance_length
from weft.objectives import NextToken

if TYPE_CHECKING:
    from weft.inference.trained_run import TrainedRun


MAX_BATCH_PROBABILITIES = 1 << 18
"""Probabilities of all predictions of a batch; each takes about 100 bytes, and a window has several batches."""


@dataclass(frozen=True)
class Prediction:
    """Prediction for one request.

    Args:
        text: The prediction in the notation of the data files: a class, tags, a number, an extracted span.
        probabilities: Probability of each class; empty where the target is no class.
        kind: Kind of the predicted field (see ``weft.core.fields``): ``label``, ``labels``, ``number``, ``tags``, ``text``, ...
        problem: Why there is no prediction; "" = there is one.
    """

    text: str
    probabilities: dict[str, float]
    kind: str = "label"
    problem: str = ""

    def value(self) -> Any:
        """Return the prediction as a JSON value: a number, a list of tags or classes, or a string; None where there is none."""
        if self.problem:
            return None
        return FIELD_KINDS[self.kind].json_value(self.text)


def predictions(
    trained: TrainedRun,
    requests: Iterable[Request | BadRequest],
    batch_size: int = BATCH_SIZE,
    on_bad_request: Literal["error", "skip"] = "error",
) -> Iterator[Prediction]:
    """Yield the prediction for each request, in order.

    Args:
        trained: A run whose objective predicts.
        requests: A text each; a tuple, or a dict by field, where examples have several texts.
        batch_size: Maximum number of requests per batch.
        on_bad_request: What happens to a request that cannot be read: ``error``, or ``skip`` for an empty prediction with its
            ``problem``.
    """
    _check_model(trained, requests)
    predictor = _Predictor(trained, trained.evaluation().search, on_bad_request == "skip")
    decodes = Decodes in trained.model.provides()
    return answers(
        requests,
        predictor.encode,
        predictor.compute,
        length=lambda one: instance_length(one.instance),
        model=trained.model,
        max_rows=max(1, min(batch_size, MAX_BATCH_PROBABILITIES // _classes(trained.codec))),
        max_tokens=MAX_DECODER_TOKENS if decodes else encoder_budget(trained.device),
    )


def _classes(codec: Codec) -> int:
    """The number of probabilities of a prediction, at least 1."""
    label = codec.info.fields.get("label")
    return label.classes if isinstance(label, ClassField) else 1


def _check_model(trained: TrainedRun, requests: Any) -> None:
    if isinstance(requests, str):
        raise ValueError(f"expected a list of texts, got one string; pass predict([{requests[:40]!r}])")
    if not set(trained.objective.needs) <= set(trained.model.provides()):
        raise ValueError(
            f"the model of {trained.name} has no head that predicts; for embeddings use weft embed, or embed(texts) in Python"
        )
    if Latent in trained.model.provides():
        raise ValueError(
            f"{trained.name} generates text and does not classify: use weft.systems.latent_text.space.open_latent(RUN)"
        )
    objective = trained.objective
    generates = (isinstance(objective, NextToken) and not objective.sources) or type(objective).predict is Objective.predict
    if generates and Decodes in trained.model.provides():
        raise ValueError(f"{trained.name} generates text and predicts no label: use generate(texts)")
    if type(objective).predict is Objective.predict and len(trained.parts) > 1:
        raise ValueError(
            f"{type(objective).__name__}, the objective of the first source, predicts nothing; name another of "
            f"{', '.join(trained.parts)}: run.of(name) in Python, --source on the command line"
        )


class _Encoded(NamedTuple):
    """A request with its example; without an instance there is nothing to predict, because of a problem if there is one."""

    row: Mapping[str, str]
    example: Example
    instance: Instance | None
    problem: str = ""


class _Predictor:
    """Encodes requests and predicts them.

    Args:
        trained: The run.
        search: The search of objectives that generate text.
        skip: Whether a request that cannot be read gets a prediction with its problem.
    """

    def __init__(self, trained: TrainedRun, search: Search, skip: bool):
        self.trained, self.search, self.skip = trained, search, skip
        self.masked = with_mask_tokens(trained.codec) if trained.objective.fills else None

    def encode(self, requests: list[Request | BadRequest], first: int) -> list[_Encoded | ValueError]:
        """Encode the requests of a window; those of one format are tokenized together."""
        rows = [self._cells(request) for request in requests]
        found, specs = list[Any](rows), list[RequestSpec]()
        of_spec = defaultdict[int, list[int]](list)
        for number, row in enumerate(rows):
            if not isinstance(row, ValueError):
                spec = self.trained.request_format(row)
                specs += [spec] if spec not in specs else []
                of_spec[specs.index(spec)].append(number)
        for index, numbers in of_spec.items():
            for number, one in zip(numbers, self._encode(specs[index], [rows[number] for number in numbers]), strict=True):
                found[number] = one
        return [self._checked(one, number) for number, one in enumerate(found, first + 1)]

    def _cells(self, request: Request | BadRequest) -> Any:
        """The texts of a request by field, or the error of one that cannot be read."""
        if isinstance(request, BadRequest):
            return ValueError(request.problem)
        try:
            return self.trained.cells(request)
        except ValueError as error:
            return error

    def _encode(self, spec: RequestSpec, rows: Sequence[Mapping[str, str]]) -> list[_Encoded | ValueError]:
        """Encode rows together; one by one if that fails, so that the error is that of its row."""
        try:
            examples = encode_examples(self.masked or spec.codec, rows, self.trained.count_truncated)
        except ValueError as error:
            return [error] if len(rows) == 1 else [one for row in rows for one in self._encode(spec, [row])]
        info = self.trained.codec.info
        found: list[_Encoded | ValueError] = []
        for row, example in zip(rows, examples, strict=True):
            try:
                found.append(_Encoded(row, example, spec.objective.prepare_request(example) if _has_words(info, row) else None))
            except ValueError as error:
                found.append(error)
        return found

    def _checked(self, one: _Encoded | ValueError, number: int) -> _Encoded | ValueError:
        if not isinstance(one, ValueError):
            return one
        return _Encoded({}, {}, None, str(one)) if self.skip else ValueError(f"request {number}: {one}")

    def compute(self, encoded: list[_Encoded], numbers: list[int]) -> Iterator[Prediction]:
        """Predict the requests of a batch."""
        codec = self.trained.codec
        outputs = self._outputs([one.instance for one in encoded], numbers)
        for one in encoded:
            if one.problem:
                yield Prediction("", {}, _target_kind(codec), one.problem)
                continue
            output, probabilities = next(outputs) if one.instance is not None else (None, [])
            yield _prediction(codec, one.row, one.example, output, probabilities)

    def _outputs(self, instances: Sequence[Instance | None], numbers: Sequence[int]) -> Iterator[tuple[Any, list[float]]]:
        """Run the model on the instances that are not None: the output and the class probabilities of each."""
        kept = [instance for instance in instances if instance is not None]
        if not kept:
            return iter(())
        model, objective = self.trained.model, self.trained.objective
        rows = tuple(number + 1 for number, one in zip(numbers, instances, strict=True) if one is not None)
        batch = replace(self.trained.collate(kept), rows=rows)
        with shared_encoding(model), batch.naming("the requests", 1):
            outputs = objective.predict(model, batch, self.search)
            probability_BC = objective.probabilities(model, batch)
        probabilities = probability_BC.tolist() if probability_BC is not None else [[]] * len(kept)
        return zip(outputs, probabilities, strict=True)


def _prediction(
    codec: Codec, row: Mapping[str, str], example: Example, output: Any, probabilities: Sequence[float]
) -> Prediction:
    text = "" if output is None else prediction_text(output, codec, row)
    label = codec.info.fields.get("label")
    labels = label.labels if isinstance(label, ClassField) else ()
    choices = next((len(value) for value in example.values() if isinstance(value, Sequences)), len(labels))
    by_class = dict(zip(labels[:choices], probabilities[:choices], strict=True)) if probabilities else {}
    return Prediction(text, by_class, _kind_of(output, codec) or _target_kind(codec))


def _target_kind(codec: Codec) -> str:
    """Return the kind of the field that the data has to predict."""
    return next((f.kind for f in codec.info.fields.values() if f.name in ("label", "tags")), "text")


def _kind_of(output: Any, codec: Codec) -> str:
    """Return the kind of generated text, of masked tokens and of the value of a named field; "" for others, which are of the kind
    of the field that the data has to predict."""
    if isinstance(output, FieldPrediction):
        return codec.info[output.of].kind
    if isinstance(output, list) and output and isinstance(output[0], Hypothesis):
        return "text"
    return "labels" if isinstance(output, MaskPrediction) else ""


def _has_words(info: Info, row: Mapping[str, str]) -> bool:
    """Return whether there is anything to tag: a text that is given as words may be empty."""
    return all(row[f.name] for f in info.texts() if f.words)
