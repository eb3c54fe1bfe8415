"""The outputs of a trained run that can be attributed to its input, with their scores.

Shape suffixes: N points, K outputs, T positions, D hidden size, C classes, V vocabulary, H height, W width.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor, nn

from weft.blocks import PatchEmbedder
from weft.core.batch import Batch, Instance
from weft.core.contracts import Classifies, Decodes, Latent, Objective, Tags
from weft.core.example import ids_of
from weft.core.fields import ClassField, TagsField
from weft.data import encode_example
from weft.data.requests import Request, RequestSpec
from weft.data.tag_schemes import Span
from weft.inspect.entity_spans import spans_of
from weft.inspect.inspection import MAX_TOKENS, decoder_pass, encoder_input, input_fields, token_names
from weft.inspect.presence import Baseline, Features, ScoredModel, length_of, log_odds, patch_owners, text_owners
from weft.objectives import Classification, MultiLabel, Ordinal, Regression, Tagging, Weighted
from weft.objectives.inputs import EncoderInput, PairInput

if TYPE_CHECKING:
    from weft.inference.trained_run import TrainedRun

MAX_OUTPUTS = 64
"""Maximum number of outputs of one input: entities, or generated tokens."""


@dataclass(frozen=True)
class Scored:
    """An input with its prediction and the model that scores its outputs.

    Args:
        model: The scores as a function of the input features.
        prediction: The prediction as text.
        words: The words of a tagged text.
        spans: The predicted entities, as words of the text.
        pixels: H x W x C pixels of an image between -1 and 1; None for a text.
    """

    model: ScoredModel
    prediction: str
    words: Sequence[str] = ()
    spans: Sequence[Span] = ()
    pixels: np.ndarray | None = None


@dataclass
class _Request:
    """A request as the model reads it."""

    run: TrainedRun
    form: RequestSpec
    objective: Any
    row: Mapping[str, str]
    instance: Instance
    example: Mapping[str, Any]
    notes: list[str] = field(default_factory=list)

    def features(self, patch: int | None) -> Features:
        image = next((name for name, value in self.instance.items() if getattr(value, "ndim", 0) == 3), None)
        if image is not None:
            return _patches(
                self.form.codec.info.images()[0].name,
                image,
                self.instance[image],
                _patch_size(self.run.model) if patch is None else patch,
            )
        if patch is not None:
            raise ValueError("patch is the side of image patches, but the input is a text; remove it")
        owner = getattr(self.objective, "input", None)
        encoder = owner.input if isinstance(owner, PairInput) else owner
        fields = encoder.texts if isinstance(encoder, EncoderInput) else [self.form.codec.info.text(self.objective.tags.of)]
        frame = encoder.frame if isinstance(encoder, EncoderInput) else self.objective.frame
        lengths = [length_of(self.example[f.name]) for f in fields]
        first = np.cumsum([0, *lengths]).tolist()
        starts = [(frame.start(lengths, j), first[j], n) for j, n in enumerate(lengths)]
        owners = {"text": text_owners(length_of(self.instance["text"]), starts)}
        if "reversed" in self.instance:
            back = [(frame.start(lengths[::-1], 1 - j), first[j], n) for j, n in enumerate(lengths)]
            owners["reversed"] = text_owners(length_of(self.instance["reversed"]), back)
        names = [name for f in fields for name in token_names(self.form.codec, f, ids_of(self.example[f.name]).tolist())]
        return Features(names, [f.name for f, n in zip(fields, lengths, strict=True) for _ in range(n)], owners)

    def batch(self) -> Batch:
        return self.run.collate([self.instance])


def scored_outputs(
    run: TrainedRun, request: Request, targets: Sequence[str], baseline: Baseline, patch: int | None, vocab_per_token: int = 1000
) -> Scored:
    """Return the outputs to attribute: the predicted class, or the classes ``targets``; the value of a regression; each entity of
    a tagger; each token that a decoder generates."""
    objective = _first_objective(run.objective)
    provided = run.model.provides()
    if Latent in provided:
        raise ValueError(f"{run.name} samples a latent code, so its output has no attribution to the input")
    if Decodes in provided and type(objective).probabilities is Objective.probabilities:
        if targets:
            raise ValueError(f"target names classes ({', '.join(targets)}), but {run.name} generates text; remove it")
        return _generated(run, request, baseline, patch, vocab_per_token)
    asked = _request(run, request, objective)
    if isinstance(objective, Tagging):
        return _tagged(asked, targets, baseline, patch)
    if isinstance(objective, Classification | Ordinal | MultiLabel | Regression):
        return _classified(asked, targets, baseline, patch)
    raise ValueError(
        f"attribution needs a classifier, a regression, a tagger or a generator, but {run.name} is trained with "
        f"{type(objective).__name__}; its attention weights can be shown with method attention"
    )


def _first_objective(objective: Any) -> Any:
    while isinstance(objective, Weighted):
        objective = next(iter(objective.parts.values()))
    return objective


def _request(run: TrainedRun, request: Request, objective: Any) -> _Request:
    form = run.request_format(request)
    row, notes = run.cells(request), list[str]()
    example = encode_example(form.codec, row, lambda lost: notes.append(f"The input is truncated by {lost} tokens."))
    used = _first_objective(form.objective)
    instance = used.prepare_request(example)
    if instance is None:
        raise ValueError("the input is empty; pass a text")
    return _Request(run, form, used, row, instance, example, notes)


# ---------------------------------------------------------------------------------------------------------- classifiers


def _classified(asked: _Request, targets: Sequence[str], baseline: Baseline, patch: int | None) -> Scored:
    objective, model, features = asked.objective, asked.run.model, asked.features(patch)
    with torch.no_grad():
        (output,) = objective.predict(model, asked.batch(), asked.run.evaluation().search)
        likely = objective.probabilities(model, asked.batch())
    prediction = asked.run.decode(output)
    if isinstance(objective, Regression):
        if targets:
            raise ValueError(f"target names classes ({', '.join(targets)}), but {asked.run.name} predicts a number; remove it")
        names, score = ["value"], lambda model, batch: objective.logits(model, batch).float()
    else:
        assert likely is not None
        label = asked.form.codec.info.expect("label", ClassField)
        chosen = _class_indices(label, targets) or _predicted(output, likely[0])
        names = [label.class_name(i) for i in chosen]
        score = _class_scores(objective, chosen)
    scored = _scored(asked, features, names, score, baseline, cost=_cost(features))
    pixels = None
    if features.grid is not None:
        field = asked.form.codec.info.images()[0]
        pixels = field.displayed(next(iter(asked.instance.values()))) / 127.5 - 1
    return Scored(scored, prediction, pixels=pixels)


def _predicted(output: Any, probability_C: Tensor) -> list[int]:
    """The predicted classes; of a multi-label model that predicts none, the most probable one."""
    if isinstance(output, int):
        return [output]
    return list(output) or [int(probability_C.argmax())]


def _class_indices(label: ClassField, targets: Sequence[str]) -> list[int]:
    if unknown := [name for name in targets if name not in label.labels]:
        known = ", ".join(label.labels[:20]) + ", ..." * (len(label.labels) > 20)
        raise ValueError(f"target {unknown[0]!r} is not a class; the classes are: {known}")
    return [label.labels.index(name) for name in dict.fromkeys(targets)]


def _class_scores(objective: Any, chosen: Sequence[int]) -> Any:
    def score(model: Classifies, batch: Batch) -> Tensor:
        if isinstance(objective, MultiLabel):  # independent classes: the logit is the log-odds
            return model.classifier(model.features(batch["text"])).float()[:, list(chosen)]
        logit_NC = objective.logits(model, batch).float()
        index_NKC = torch.tensor(chosen, device=logit_NC.device).expand(len(logit_NC), -1)
        return log_odds(logit_NC[:, None].expand(-1, len(chosen), -1), index_NKC)

    return score


# -------------------------------------------------------------------------------------------------------------- taggers


def _tagged(asked: _Request, targets: Sequence[str], baseline: Baseline, patch: int | None) -> Scored:
    objective, model, tags = asked.objective, asked.run.model, asked.form.codec.info.expect("tags", TagsField)
    if targets:
        raise ValueError(f"target names classes ({', '.join(targets)}), but {asked.run.name} predicts tags; remove it")
    features, words = asked.features(patch), asked.row[tags.of].split(" ")
    with torch.no_grad():
        (indices,) = objective.predict(model, asked.batch(), asked.run.evaluation().search)
    words, names = words[: len(indices)], [tags.class_name(i) for i in indices]
    every = spans_of(names)
    spans = every[:MAX_OUTPUTS]
    if len(spans) < len(every):
        asked.notes.append(f"Only the first {MAX_OUTPUTS} of {len(every)} entities are attributed.")
    if model.chain is not None:
        asked.notes.append("The scores are those of the tags without the transitions of the CRF.")

    def score(model: Tags, batch: Batch) -> Tensor:
        logit_NC = model.tag_head(batch["tags"].gather(model.encode(batch["text"]))).float()
        logit_NWC = logit_NC.unflatten(0, (len(batch), -1))
        odds_NW = log_odds(logit_NWC, torch.tensor(indices, device=logit_NC.device).expand(len(batch), -1))
        return torch.stack([odds_NW[:, start:end].sum(1) for _, start, end in spans], 1)

    outputs = [f"{kind}: {' '.join(words[start:end])}" for kind, start, end in spans]
    scored = _scored(asked, features, outputs, score, baseline, cost=_cost(features))
    return Scored(scored, " ".join(names), words, every)


# ----------------------------------------------------------------------------------------------------------- generators


def _generated(run: TrainedRun, request: Request, baseline: Baseline, patch: int | None, vocab_per_token: int) -> Scored:
    if patch is not None:
        raise ValueError("patch is the side of image patches, but the input is a text; remove it")
    codec, model = run.codec, run.model
    source = input_fields(model, codec)[0]
    text = run.cells(request)[source.name]
    hypothesis = next(iter(run.hypotheses([text])))[0]
    done = decoder_pass(model, codec, text, hypothesis, run.start_ids)
    notes = list(done.notes)
    instance = Instance(input=np.array(done.inputs, np.int64))
    if source.name == model.target.name:
        tokens = done.prompt
        owners = {"input": text_owners(len(done.inputs), [(done.forced + 1 - len(tokens), 0, len(tokens))])}
    else:
        tokens = ids_of(encode_example(codec, {source.name: text})[source.name]).tolist()
        instance[source.name] = encoder_input(model, codec, text)
        owners = {
            source.name: text_owners(length_of(instance[source.name]), [(source.frame.start([len(tokens)], 0), 0, len(tokens))])
        }
    targets = done.targets[done.forced : done.forced + MAX_OUTPUTS]
    if len(targets) < len(done.targets) - done.forced:
        notes.append(f"Only the first {MAX_OUTPUTS} of {len(done.targets) - done.forced} generated tokens are attributed.")

    def score(model: Decodes, batch: Batch) -> Tensor:
        hidden_NKD = model.decode(batch["input"], model.memory(batch)).hidden.data[:, done.forced :][:, : len(targets)]
        logit_NKV = model.head(hidden_NKD.flatten(0, 1)).float().unflatten(0, hidden_NKD.shape[:2])
        return log_odds(logit_NKV, torch.tensor(targets, device=logit_NKV.device).expand(len(batch), -1))

    features = Features(token_names(codec, source, tokens), [source.name] * len(tokens), owners)
    outputs = done.target_tokens[done.forced :][: len(targets)]
    cost = len(done.inputs) + len(tokens) + len(targets) * model.target.vocab // vocab_per_token
    asked = _Request(run, RequestSpec(codec, run.objective), run.objective, {}, instance, {}, notes)
    return Scored(_scored(asked, features, outputs, score, baseline, cost), codec.decode(model.target.name, done.output))


# --------------------------------------------------------------------------------------------------------------- inputs


def _scored(
    asked: _Request, features: Features, outputs: Sequence[str], score: Any, baseline: Baseline, cost: int
) -> ScoredModel:
    if not len(features):
        raise ValueError("the input has no tokens to attribute to; pass a text")
    if features.grid is None and len(features) > MAX_TOKENS:
        raise ValueError(f"the input has {len(features)} tokens; at most {MAX_TOKENS} can be attributed, pass a shorter text")
    space = next((f for f in asked.form.codec.info.tokenized() if f.name == features.fields[0]), None)
    image = next(iter(asked.form.codec.info.images()), None)
    return ScoredModel(
        asked.run.model, asked.instance, features, outputs, score, baseline, space, max(1, cost), image, notes=asked.notes
    )


def _patches(field_name: str, name: str, image_CHW: np.ndarray, patch: int) -> Features:
    height, width = image_CHW.shape[1:]
    if not 1 <= patch <= max(height, width):
        raise ValueError(f"patch is {patch}, but the image has {height} x {width} pixels; use 1 to {max(height, width)}")
    rows, columns = -(-height // patch), -(-width // patch)
    names = [f"row {row + 1}, column {column + 1}" for row in range(rows) for column in range(columns)]
    return Features(names, [field_name] * len(names), {name: patch_owners(height, width, patch)}, (rows, columns))


def _patch_size(model: nn.Module) -> int:
    """The patches of the model; pixels where it has none."""
    return next((module.size for module in model.modules() if isinstance(module, PatchEmbedder)), 1)


def _cost(features: Features) -> int:
    """Tokens of one copy of the input; an image counts as its patches, and at least as 64 tokens."""
    return sum(owner.size for owner in features.owners.values()) if features.grid is None else max(64, len(features) // 4)
