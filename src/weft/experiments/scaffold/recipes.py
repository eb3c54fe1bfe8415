"""Commented recipes for detected data, from the templates beside this module."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from string import Template
from typing import TYPE_CHECKING

from weft.experiments.scaffold.detected_data import DetectedData, Paths, yaml_string
from weft.inference.embedding import POOLING

if TYPE_CHECKING:
    from weft.pretrained import PublishedModel

_TEMPLATES = Path(__file__).parent / "templates"
_MAX_STEPS = 20_000
_MIN_WINDOW = 64
"""With fewer positions, a question may leave none for its context."""
_TEXTS_TOGETHER = ("sentence-pairs", "multiple-choice", "question-answering")
"""Sources whose texts share the positions of one sequence."""


@dataclass(frozen=True)
class _Scratch:
    """A model that is trained from scratch for a task: its template and what the template leaves open."""

    template: str
    metrics: str
    epochs: int = 8
    structure: str = "classifier"
    objective: str = "classification"


@dataclass(frozen=True)
class _FineTuning:
    """How a pretrained model is fine-tuned for a task."""

    task: str
    objective: str
    metrics: str
    lr: str = "5.0e-5"


_SCRATCH = {
    "labeled-text": _Scratch("classifier", "accuracy, macro-f1"),
    "multi-label": _Scratch("classifier", "multi-label-f1", objective="multi-label"),
    "regression": _Scratch("classifier", "correlation", objective="regression"),
    "sentence-pairs": _Scratch("classifier", "accuracy, macro-f1"),
    "multiple-choice": _Scratch("classifier", "accuracy", structure="multiple-choice", objective="multiple-choice"),
    "plain-text": _Scratch("language-model", "word-perplexity", epochs=10),
    "parallel-text": _Scratch("seq2seq", "bleu, chrf", epochs=25),
    "question-answering": _Scratch("span-extractor", "answer-exact-match, answer-f1", epochs=10),
    "tagged-text": _Scratch("tagger", "entity-f1", epochs=25),
}
_FINE_TUNING = {
    "labeled-text": _FineTuning("classification", "classification", "accuracy, macro-f1"),
    "multi-label": _FineTuning("classification", "multi-label", "multi-label-f1"),
    "regression": _FineTuning("classification", "regression", "correlation"),
    "sentence-pairs": _FineTuning("classification", "classification", "accuracy, macro-f1"),
    "multiple-choice": _FineTuning("multiple-choice", "multiple-choice", "accuracy"),
    "question-answering": _FineTuning("question-answering", "span", "answer-exact-match, answer-f1"),
    "tagged-text": _FineTuning("token-classification", "tagging", "entity-f1"),
    "parallel-text": _FineTuning("generation", "next-token", "bleu, chrf", lr="3.0e-4"),
    "plain-text": _FineTuning("generation", "next-token", "word-perplexity"),
    "masked-lm": _FineTuning("masked-lm", "masked-lm", ""),
}
"""5e-5 with linear decay is in the range of Devlin et al. (2019), appendix A.3; T5 needs a higher learning rate."""


def scratch_recipe(detected: DetectedData, folder: Path) -> str:
    """Return a commented recipe that trains a small model from scratch.

    Args:
        detected: The data.
        folder: The folder of the recipe; paths below it are written relative to it.
    """
    model = _SCRATCH[detected.task]
    tokens = detected.size / 5
    steps = min(_MAX_STEPS, max(300, round(tokens * model.epochs / 2000 / 100) * 100))
    return _template(model.template).substitute(
        reason=" ".join(detected.reason.split()),
        source=detected.source,
        data=_data_lines(detected, folder),
        structure=model.structure,
        objective=model.objective,
        metrics=_metrics(model.metrics, detected),
        steps=steps,
        warmup=max(10, steps // 20),
        every=max(50, steps // 10),
    )


def fine_tuning_recipe(detected: DetectedData, folder: Path, model: str, steps: int | None = None) -> str:
    """Return a commented recipe that fine-tunes a pretrained model with its own tokenizer.

    Args:
        detected: The data.
        folder: The folder of the recipe; paths below it are written relative to it.
        model: Folder of a pretrained model, name of a packaged one (minilm), or name of a model on a hub.
        steps: Optimizer steps; None = about three epochs.

    Raises ValueError if the model cannot be fine-tuned on the data.
    """
    from weft.pretrained import PublishedModel

    published = PublishedModel(model)
    masked = detected.task == "plain-text" and published.task != "generation"
    tuning = _FINE_TUNING["masked-lm" if masked else detected.task]
    _require_compatible(detected, published, tuning.task)
    positions = published.family.field(published.config).max_length - 8
    windows = detected.source == "question-answering" and positions >= _MIN_WINDOW
    per_text = positions // 2 if detected.source in _TEXTS_TOGETHER else positions
    window = f"{{type: span, window: {min(384, positions)}}}   # splits long contexts into windows"
    mean = (published.path / POOLING).is_file() and tuning.task in ("classification", "multiple-choice")
    steps = steps or min(_MAX_STEPS, max(100, round(detected.size / 4 * 3 / 1000)))
    metrics = _metrics(tuning.metrics, detected)
    text = _template("fine-tuning").substitute(
        reason=" ".join(detected.reason.split()),
        source=detected.source,
        data=_data_lines(detected, folder),
        model=_paths([model], folder) if Path(model).exists() else model,
        max_length=4000 if windows else min(256, max(1, per_text)),
        task=tuning.task,
        pooler="\n  pooler: mean" if mean else "",
        objective=window if windows else tuning.objective,
        steps=steps,
        lr=tuning.lr,
        warmup=max(1, steps // 10),
        every=max(1, steps // 3),
        metrics=f"  metrics: [{metrics}]" if metrics else "",
    )
    return text.rstrip() + "\n"


def _require_compatible(detected: DetectedData, published: PublishedModel, task: str) -> None:
    """Raise ValueError unless the model has a head for the task; parallel text needs a sequence-to-sequence model."""
    from weft.core.registry import name_of

    found = f"the files are {detected.source} ({detected.reason})"
    try:
        is_seq2seq = name_of(published.structure(task)) == "seq2seq"
    except ValueError as error:
        raise ValueError(f"{found}, but {error}") from None
    if is_seq2seq and detected.source != "parallel-text":
        raise ValueError(f"{found}, but {published.path} is a sequence-to-sequence model, which needs parallel-text")
    if not is_seq2seq and detected.source == "parallel-text":
        raise ValueError(f"{found}, but {published.path} is not a sequence-to-sequence model; use one, such as a T5")


@cache
def _template(name: str) -> Template:
    return Template((_TEMPLATES / f"{name}.yaml").read_text(encoding="utf-8"))


def _metrics(metrics: str, detected: DetectedData) -> str:
    """The metrics of a task; tags without a chunking scheme have no entities, only an accuracy."""
    return metrics.replace("entity-f1", "tag-accuracy") if detected.options.get("scheme") == "null" else metrics


def _data_lines(detected: DetectedData, folder: Path) -> str:
    """The lines of a recipe with the splits and options of the data, and comments on the columns that were chosen."""
    lines = [f"  # {note}" for note in detected.notes()]
    lines += [f"  {split}: {_paths(files, folder)}" for split, files in detected.splits.items()]
    lines += [f"  {option}: {value}" for option, value in detected.options.items()]
    if "valid" not in detected.splits:
        lines.append("  validation_fraction: 0.05        # fraction of the training examples held out for validation")
    return "\n".join(lines)


def _paths(files: Paths, folder: Path) -> str:
    """Files as YAML: a string, a list of several, or a mapping of classes."""
    if isinstance(files, dict):
        return "{" + ", ".join(f"{yaml_string(label)}: {_paths(own, folder)}" for label, own in files.items()) + "}"

    def relative(file: str) -> str:
        path, base = Path(file).resolve(), folder.resolve()
        shown = str(path.relative_to(base) if path.is_relative_to(base) else path)
        return shown if re.fullmatch(r"[\w./-]+", shown) else repr(shown)

    return relative(files[0]) if len(files) == 1 else f"[{', '.join(map(relative, files))}]"
