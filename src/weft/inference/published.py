"""A published model as a run that can be used at once: generated from, asked, embedded with, looked into."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from weft.core.contracts import (
    Classifies,
    ClassifiesPairs,
    Codec,
    Decodes,
    ExtractsSpans,
    ModelsLanguage,
    Objective,
    PredictsMasked,
    ScoresChoices,
    Tags,
    Tokenizer,
)
from weft.core.fields import Info
from weft.data import LabeledText, MultipleChoice, ParallelText, PlainText, QuestionAnswering, TaggedText
from weft.data.requests import RequestSpec
from weft.data.tokenizers.pretrained import PretrainedTokenizer
from weft.generate.frontier import positions
from weft.inference.trained_run import TrainedRun
from weft.learning import Gradient
from weft.objectives import (
    Classification,
    MaskedLM,
    MultiLabel,
    MultipleChoiceObjective,
    NextSentence,
    NextToken,
    Regression,
    SpanAnswer,
    Tagging,
)
from weft.pretrained import PublishedModel, load
from weft.pretrained.generation_config import check_padding, eos_ids, merge_generation_config, special_ids, start_ids
from weft.training.build import choose_device
from weft.training.run import Run

ANY_LENGTH = 1_000_000
"""Of a text that is read in windows."""


def open_published(name: str | Path, *, task: str | None = None, device: str = "auto") -> TrainedRun:
    """A published model with its tokenizer, as a run.

    Args:
        name: A folder in the Hugging Face layout, a packaged model's name, or a hub's.
        task: What it shall be for; None = what it was published for.
        device: Where to compute.
    """
    loaded = load(name, task=task)
    if not loaded.info.texts():
        raise ValueError(f"{name} reads images, and a run is opened around a tokenizer: take weft.pretrained.load")
    tokenizer: Any = loaded.tokenizer
    check_padding(loaded.published.config, tokenizer.special, tokenizer.names)
    info = _told(loaded.info, loaded.published, tokenizer, loaded.model.provides(), positions(loaded.model))
    codec = Codec(info, {"text": tokenizer})
    model: Any = loaded.model.to(choose_device(device))
    if Decodes in model.provides():
        model.target = codec.info[model.target.name]  # it was built before its ids were known
    goals = [(goal, source, file) for need, goal, source, file in _GOALS if need in model.provides()]
    objective, source, file = goals[0] if goals else (MaskedLM, PlainText, "txt")
    if objective is SpanAnswer:  # contexts of any length, in windows
        objective = partial(SpanAnswer, window=positions(model))
        fields = {**codec.info.fields, "context": replace(codec.info["context"], max_length=ANY_LENGTH)}
        codec = Codec(replace(codec.info, fields=fields), codec.tokenizers)
    if objective is Classification:
        objective, source = _BY_KIND[codec.info["label"].kind]
    if objective is MaskedLM and tokenizer.special.mask < 0:
        objective = partial(MaskedLM, mask_token_ratio=0.0)
    if "source" in codec.info:
        source, file = ParallelText, "tsv"
    data: Any = partial(source, train=f"your-data.{file}", tokenizer=partial(PretrainedTokenizer, from_=tokenizer.from_))
    run = Run(data=data, structure=loaded.structure, objective=objective, learning=partial(Gradient, steps=1))
    run.name = Path(str(name)).name
    objectives: dict[str, Objective] = {"": objective(codec.info, model.dim)} if objective is not None else {}
    trained = TrainedRun(run, model, codec, objectives)
    if Decodes in model.provides():
        trained.start_ids = start_ids(model, codec.info, merge_generation_config(loaded.published.config, loaded.published.path))
    trained.pair_format = pair_of(trained)
    return trained


def pair_of(trained: TrainedRun) -> RequestSpec | None:
    """How a published model that says something of a text reads two: as its tokenizer puts them together, with their segments."""
    codec, objective = trained.codec, next(iter(trained.objectives.values()), None)
    if not isinstance(objective, Classification | MultiLabel | Regression) or "text" not in codec.info:
        return None
    text, label = codec.info["text"], codec.info["label"]
    fields = {"first": replace(text, name="first"), "second": replace(text, name="second"), "label": label}
    info = Info(fields, "first", codec.info.data)
    return RequestSpec(Codec(info, codec.tokenizers), type(objective)(info, trained.model.dim))


_GOALS: list[tuple[type, Any, Any, str]] = [
    (Classifies, Classification, LabeledText, "tsv"),
    (ScoresChoices, MultipleChoiceObjective, MultipleChoice, "jsonl"),
    (Tags, Tagging, TaggedText, "txt"),
    (ExtractsSpans, SpanAnswer, QuestionAnswering, "json"),
    (Decodes, NextToken, PlainText, "txt"),
    (PredictsMasked, MaskedLM, PlainText, "txt"),
    (ClassifiesPairs, partial(MaskedLM, mask_ratio=0.0, pairing=NextSentence), PlainText, "txt"),
]
"""What a structure can do, with what it would be asked, the data that has it, and how a file of them ends."""
_BY_KIND: dict[str, tuple[Any, Any]] = {
    "label": (Classification, LabeledText),
    "labels": (MultiLabel, partial(LabeledText, label_type="multiple")),
    "number": (Regression, partial(LabeledText, label_type="number")),
}
"""What is asked about a text whose answer is a class, several, or a number, and the data that has it."""


def _told(info: Info, published: PublishedModel, tokenizer: Tokenizer, does: tuple[type, ...], most: int | None) -> Info:
    """The fields with what the tokenizer and the config say of their ids; ``most`` positions, if the model has so many."""
    special = tokenizer.special
    config, target = merge_generation_config(published.config, published.path), info[info.target]
    writes = special_ids(special, config, target, encoder_decoder=target.name == "target")
    told = {
        "frame": tokenizer.frame,
        "sentinel_count": tokenizer.sentinel_count,
        "decoder_start": tokenizer.decoder_start,
        "words": "tags" in info,
    }
    fields = {
        name: replace(field, special=special, **told) if field.kind in ("text", "texts") else field
        for name, field in info.fields.items()
    }
    if most is not None and ModelsLanguage not in does:
        # what stands around a text has positions too
        room = max(1, most - len(tokenizer.frame.first) - len(tokenizer.frame.last))
        fields = {name: replace(f, max_length=min(f.max_length, room)) if f.kind == "text" else f for name, f in fields.items()}
    if Decodes in does:
        fields[info.target] = replace(fields[info.target], special=writes, extra_eos=eos_ids(config, target))
    return Info(fields, info.target, f"the published model {published.path.name}")
