"""Open a published model as a run, for generation, prediction, embedding and inspection."""

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
from weft.core.fields import Field, Info, LabelField, LabelsField, NumberField, TextField
from weft.data import LabeledImages, LabeledText, MultipleChoice, ParallelText, PlainText, QuestionAnswering, TaggedText
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
from weft.pretrained import PretrainedModel, PublishedModel, load
from weft.pretrained.generation_config import check_padding, eos_ids, merge_generation_config, special_ids, start_ids
from weft.training.build import choose_device
from weft.training.run import Run

ANY_LENGTH = 1_000_000
"""Maximum length of a text that is split into windows."""


def open_published(name: str | Path, *, task: str | None = None, device: str = "auto") -> TrainedRun:
    """Open a published model with its tokenizer as a run.

    Args:
        name: Folder in the Hugging Face layout, of an image network too; GGUF file, name of a packaged model, or name on the hub.
        task: Task of the model; None = the task it was published for.
        device: Device to compute on.
    """
    loaded = load(name, task=task)
    if not loaded.info.texts():
        return _open_image_classifier(str(name), loaded, device)
    tokenizer: Any = loaded.tokenizer
    check_padding(loaded.published.config, tokenizer.special, tokenizer.names)
    info = _with_token_ids(loaded.info, loaded.published, tokenizer, loaded.model.provides(), positions(loaded.model))
    codec = Codec(info, {"text": tokenizer})
    model: Any = loaded.model.to(choose_device(device))
    if Decodes in model.provides():
        model.target = codec.info.text(model.target.name)  # with the special token ids of its config
    found = [(objective, source, file) for need, objective, source, file in _OBJECTIVES if need in model.provides()]
    objective, source, file = found[0] if found else (MaskedLM, PlainText, "txt")
    if objective is SpanAnswer:  # contexts of any length are split into windows
        objective = partial(SpanAnswer, window=positions(model))
        fields = {**codec.info.fields, "context": replace(codec.info.text("context"), max_length=ANY_LENGTH)}
        codec = Codec(replace(codec.info, fields=fields), codec.tokenizers)
    if objective is Classification:
        objective, source = _BY_LABEL[type(codec.info["label"])]
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


def _open_image_classifier(name: str, loaded: PretrainedModel, device: str) -> TrainedRun:
    """A classifier of images as a run."""
    image, label = loaded.info.images()[0], loaded.info.fields.get("label")
    if not isinstance(label, LabelField) or image.channels not in (1, 3):
        raise ValueError(
            f"{name} is an image model that predicts no class of a gray or color image; load it with weft.pretrained.load"
        )
    size = (image.height, image.width)
    data: Any = partial(LabeledImages, train="your-data.tsv", labels=label.labels, size=size, channels=image.channels)
    run = Run(data=data, structure=loaded.structure, objective=Classification, learning=partial(Gradient, steps=1))
    run.name = Path(name).name
    info = Info(loaded.info.fields, image.name, f"the published model {loaded.published.path.name}")
    model = loaded.model.to(choose_device(device))
    return TrainedRun(run, model, Codec(info, {}), {"": Classification(info, model.dim)})


def pair_of(trained: TrainedRun) -> RequestSpec | None:
    """Return codec and objective of a published classifier for pairs of texts; None for other models."""
    codec, objective = trained.codec, next(iter(trained.objectives.values()), None)
    if not isinstance(objective, Classification | MultiLabel | Regression) or "text" not in codec.info:
        return None
    text, label = codec.info.text("text"), codec.info["label"]
    fields = {"first": replace(text, name="first"), "second": replace(text, name="second"), "label": label}
    info = Info(fields, "first", codec.info.data)
    return RequestSpec(Codec(info, codec.tokenizers), type(objective)(info, trained.model.dim))


_OBJECTIVES: list[tuple[type, Any, Any, str]] = [
    (Classifies, Classification, LabeledText, "tsv"),
    (ScoresChoices, MultipleChoiceObjective, MultipleChoice, "jsonl"),
    (Tags, Tagging, TaggedText, "txt"),
    (ExtractsSpans, SpanAnswer, QuestionAnswering, "json"),
    (Decodes, NextToken, PlainText, "txt"),
    (PredictsMasked, MaskedLM, PlainText, "txt"),
    (ClassifiesPairs, partial(MaskedLM, mask_ratio=0.0, pairing=NextSentence), PlainText, "txt"),
]
"""Capability of a structure, with its objective, its data source, and the suffix of its data files."""
_BY_LABEL: dict[type[Field], tuple[Any, Any]] = {
    LabelField: (Classification, LabeledText),
    LabelsField: (MultiLabel, partial(LabeledText, label_type="multiple")),
    NumberField: (Regression, partial(LabeledText, label_type="number")),
}
"""Objective and data source by the kind of label."""


def _with_token_ids(
    info: Info, published: PublishedModel, tokenizer: Tokenizer, provided: tuple[type, ...], max_length: int | None
) -> Info:
    """Return the fields with special token ids from tokenizer and config, and with the maximum length of the model."""
    special = tokenizer.special
    config, target = merge_generation_config(published.config, published.path), info.text(info.target)
    decoder_special = special_ids(special, config, target, encoder_decoder=target.name == "target")
    options = {
        "frame": tokenizer.frame,
        "sentinel_count": tokenizer.sentinel_count,
        "decoder_start": tokenizer.decoder_start,
    }
    fields = info.fields | {f.name: replace(f, special=special, **options) for f in info.tokenized()}
    fields |= {f.name: replace(f, words="tags" in info) for f in fields.values() if isinstance(f, TextField)}
    if max_length is not None and ModelsLanguage not in provided:
        # special tokens have positions too
        room = max(1, max_length - tokenizer.frame.size(1))
        fields |= {f.name: replace(f, max_length=min(f.max_length, room)) for f in fields.values() if isinstance(f, TextField)}
    if Decodes in provided:
        fields[info.target] = replace(Info(fields).text(info.target), special=decoder_special, extra_eos=eos_ids(config, target))
    return Info(fields, info.target, f"the published model {published.path.name}")
