"""Commented recipes for detected data, from the templates beside this module."""

from __future__ import annotations

import json
import math
import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from string import Template
from typing import TYPE_CHECKING

from weft.core.fields import TextField
from weft.core.io import list_files
from weft.core.printable import printable_line
from weft.data.sources.cursor import Cursor
from weft.experiments.scaffold.detected_data import DetectedData, Paths, comment, files_of, yaml_string
from weft.pretrained.sentence_layout import POOLING
from weft.recipe.text import MAX_KEY_LENGTH, is_key

if TYPE_CHECKING:
    from weft.pretrained import PublishedModel

_TEMPLATES = Path(__file__).parent / "templates"
_MIN_STEPS, _MAX_STEPS = 300, 20_000
"""Range of the number of steps. Small data is repeated for more epochs; early stopping ends them."""
_MAX_CHARACTERS = 200
"""Characters of a clause in texts without spaces."""
_EVALUATIONS = 10
"""Evaluations during training."""
_BYTES_PER_TOKEN = 5
_SMALL_BYTES = 10_000_000
"""Up to this size a classifier of n-grams is at least as good as a recurrent network, and faster (benchmarks/defaults.py)."""
_NGRAM_TASKS = ("labeled-text", "multi-label", "regression", "sentence-pairs")
_UNSPACED = re.compile(r"[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff]")
"""Characters of scripts without spaces between words: Thai, Lao, Burmese, Khmer, Japanese, Chinese."""
_HELD_OUT = ((200_000, 0.2), (2_000_000, 0.1), (math.inf, 0.05))
"""Fraction of the training examples held out for validation, by the size of the data in bytes."""
_TUNING_TOKENS, _TUNING_EXAMPLES = 2000, 16
"""Batches of fine-tuning."""
_MIN_WINDOW = 64
"""With fewer positions, a question may leave none for its context."""
_PATCHES = 8
"""Patches on each side of an image, of networks that are trained from scratch."""
_TEXTS_TOGETHER = ("sentence-pairs", "multiple-choice", "question-answering")
"""Sources whose texts share the positions of one sequence."""


@dataclass(frozen=True)
class _Task:
    """What the recipes of a task have in common.

    Args:
        metrics: Metrics of the evaluation.
        monitor: The value that selects the best weights.
        template: Template of a model that is trained from scratch.
        batch_tokens: Whether batches are measured in tokens, because texts are long or generated; else in examples.
        epochs: Epochs of training from scratch on data of medium size.
        structure: Structure of a model that is trained from scratch.
        objective: Objective.
        tuning: Task of a pretrained model.
        lr: Learning rate of fine-tuning. 5e-5 with linear decay is in the range of Devlin et al. (2019), appendix A.3; T5 needs
            a higher one.
    """

    metrics: str
    monitor: str
    template: str = "classifier"
    batch_tokens: bool = True
    epochs: int = 8
    structure: str = "classifier"
    objective: str = "classification"
    tuning: str = "classification"
    lr: str = "5.0e-5"


_TASKS = {
    "labeled-text": _Task("accuracy, macro-f1", "accuracy", batch_tokens=False),
    "multi-label": _Task("multi-label-f1", "multi_label_micro_f1", objective="multi-label", batch_tokens=False),
    "regression": _Task("correlation", "loss", objective="regression", batch_tokens=False),
    "sentence-pairs": _Task("accuracy, macro-f1", "accuracy", batch_tokens=False),
    "multiple-choice": _Task(
        "accuracy",
        "accuracy",
        structure="multiple-choice",
        objective="multiple-choice",
        tuning="multiple-choice",
        batch_tokens=False,
    ),
    "plain-text": _Task("word-perplexity", "loss", "language-model", epochs=10, objective="next-token", tuning="generation"),
    "parallel-text": _Task("bleu, chrf", "chrf", "seq2seq", epochs=25, objective="next-token", tuning="generation", lr="3.0e-4"),
    "question-answering": _Task(
        "answer-exact-match, answer-f1", "answer_f1", "span-extractor", epochs=10, objective="span", tuning="question-answering"
    ),
    "tagged-text": _Task(
        "entity-f1", "entity_f1", "tagger", epochs=25, objective="tagging", tuning="token-classification", batch_tokens=False
    ),
    "masked-lm": _Task("", "loss", objective="masked-lm", tuning="masked-lm"),
}


def scratch_recipe(detected: DetectedData, folder: Path) -> str:
    """Return a commented recipe that trains a small model from scratch.

    Args:
        detected: The data.
        folder: The folder of the recipe; paths below it are written relative to it.
    """
    if detected.of_images:
        return _image_recipe(detected, folder)
    task = _TASKS[detected.task]
    ngrams = detected.task in _NGRAM_TASKS
    small = ngrams and detected.size <= _SMALL_BYTES
    unspaced = _is_unspaced(detected)
    rows = _estimate_rows(detected)
    batch_size = 32 if rows <= 20_000 else 64
    epochs = _epochs(5, rows / batch_size) if small else _epochs(task.epochs, detected.size / _BYTES_PER_TOKEN / 2000)
    characters = f", max_characters: {_MAX_CHARACTERS if unspaced else 20}" if ngrams else ""
    tokenizer = f"{{type: word, lowercase: true{characters}}}"
    tokenizer += "   # a word is a clause: the texts have no spaces between words" if unspaced else ""
    lengths = "min_n: 1, max_n: 3" if unspaced else "min_n: 3, max_n: 4"
    grams = f"{{type: char-ngrams, {lengths}, dropout: 0.3, word: {{type: token, scale: 1.0}}}}"
    return _template("ngram-classifier" if small else task.template).substitute(
        reason=comment(detected.reason),
        source=detected.source,
        data=_data_lines(detected, folder) + (f"\n  max_length: {detected.max_length}" if detected.max_length else ""),
        tokenizer=tokenizer,
        embedder=grams if small else f"{{type: sum, parts: [{grams}], dropout: 0.3}}" if ngrams else "{type: sum, dropout: 0.3}",
        structure=task.structure,
        objective=task.objective,
        epochs=f"{epochs:g}",
        batch_size=batch_size,
        every=f"{_interval(epochs):g}",
        metrics=_metrics(task.metrics, detected),
        monitor=_metrics(task.monitor, detected),
    )


def fine_tuning_recipe(detected: DetectedData, folder: Path, model: str, steps: int | None = None) -> str:
    """Return a commented recipe that fine-tunes a pretrained model with its own tokenizer.

    Args:
        detected: The data.
        folder: The folder of the recipe; paths below it are written relative to it.
        model: Folder of a pretrained model, name of a packaged one (minilm), or name of a model on a hub.
        steps: Optimizer steps; None = three epochs, more on small data.

    Raises ValueError if the model cannot be fine-tuned on the data.
    """
    from weft.pretrained import PublishedModel

    if detected.of_images:
        raise ValueError(f"the files are {detected.source} ({detected.reason}); leave out --from, which is for texts")
    published = PublishedModel(model)
    masked = detected.task == "plain-text" and published.task != "generation"
    task = _TASKS["masked-lm" if masked else detected.task]
    _require_compatible(detected, published, task.tuning)
    text = published.family.field(published.config)
    assert isinstance(text, TextField)  # a model that is compatible with texts
    positions = text.max_length - 8
    windows = detected.source == "question-answering" and positions >= _MIN_WINDOW
    per_text = positions // 2 if detected.source in _TEXTS_TOGETHER else positions
    window = f"{{type: span, window: {min(384, positions)}}}   # splits long contexts into windows"
    mean = (published.path / POOLING).is_file() and task.tuning in ("classification", "multiple-choice")
    per_epoch = detected.size / 4 / _TUNING_TOKENS if task.batch_tokens else _estimate_rows(detected) / _TUNING_EXAMPLES
    epochs = _epochs(3, per_epoch, most=10)
    metrics = _metrics(task.metrics, detected)
    text = _template("fine-tuning").substitute(
        reason=comment(detected.reason),
        source=detected.source,
        data=_data_lines(detected, folder),
        model=_paths([model], folder) if Path(model).exists() else model,
        max_length=4000 if windows else min(max(256, detected.max_length), max(1, per_text)),
        task=task.tuning,
        pooler=_pooler(task) if mean else "",
        objective=window if windows else task.objective,
        length=f"steps: {steps}" if steps else f"epochs: {epochs:g}                        # at most; see patience",
        batch=f"batch_tokens: {_TUNING_TOKENS}               # tokens per batch"
        if task.batch_tokens
        else f"batch_size: {_TUNING_EXAMPLES}                   # examples per batch",
        lr=task.lr,
        every=max(1, steps // 3) if steps else f"{{epochs: {min(1.0, _interval(epochs)):g}}}",
        metrics=f"  metrics: [{metrics}]\n" if metrics else "",
        monitor=_metrics(task.monitor, detected),
    )
    return text.rstrip() + "\n"


def _image_recipe(detected: DetectedData, folder: Path) -> str:
    """A recipe for images. The network is in the template alone."""
    labeled = detected.source == "labeled-images"
    task = _TASKS[detected.task if labeled and detected.label_type != "single" else "labeled-text"]
    side = int(detected.options["size"])
    patch = max(1, side // _PATCHES)
    epochs = _epochs(30, (detected.rows or _estimate_rows(detected)) / 64)
    monitor = task.monitor if labeled else "loss"
    return _template("images").substitute(
        reason=comment(detected.reason),
        source=detected.source,
        data=_data_lines(detected, folder),
        augment=", ".join([f"{{type: random-crop, padding: {max(1, side // 8)}}}", *(["horizontal-flip"] if labeled else [])]),
        structure="classifier" if labeled else "image-encoder",
        objective=task.objective if labeled else f"{{type: masked-patches, patch_size: {patch}}}   # of the images alone",
        patch=patch,
        epochs=f"{epochs:g}",
        every=f"{_interval(epochs):g}",
        metrics=f"  metrics: [{task.metrics}]\n" if labeled else "",
        monitor=monitor,
    )


def _pooler(task: _Task) -> str:
    """The line that sets mean pooling, with what it means for publishing the model."""
    choices = "   # weft convert cannot publish it with multiple choice; to publish, remove this line"
    return "\n  pooler: mean" + (choices if task.tuning == "multiple-choice" else "")


def _epochs(usual: float, steps_per_epoch: float, most: float = 1000) -> float:
    """The number of epochs: more than usual on small data, up to ``most``, and fewer on large data."""
    found = min(max(usual, _MIN_STEPS / max(steps_per_epoch, 1e-3)), most, _MAX_STEPS / max(steps_per_epoch, 1e-3))
    return math.ceil(found) if found > 1 else max(0.01, round(found, 2))


def _interval(epochs: float) -> float:
    """Epochs between evaluations."""
    return max(1, round(epochs / _EVALUATIONS)) if epochs >= _EVALUATIONS / 2 else max(0.01, round(epochs / _EVALUATIONS, 2))


def _estimate_rows(detected: DetectedData) -> int:
    """The approximate number of training examples: lines, or groups of lines in tagged text, extrapolated from the start."""
    text = _head(detected)
    end = "\n\n" if detected.source == "tagged-text" else "\n"
    return max(1, round(text.count(end) * detected.size / max(1, len(text.encode()))))


def _is_unspaced(detected: DetectedData) -> bool:
    """Whether more than a tenth of the characters are of scripts without spaces between words."""
    text = _head(detected)
    return len(_UNSPACED.findall(text)) > 0.1 * len(text)


def _head(detected: DetectedData) -> str:
    """The first lines of the training data, up to a million characters."""
    files = list_files(files_of(detected.splits["train"])[0])
    lines, size = list[str](), 0
    for line, _ in Cursor(files[:1], encoding=detected.options.get("encoding", "utf-8")).lines():
        lines.append(line)
        size += len(line) + 1
        if size > 1_000_000:
            break
    return "\n".join([*lines, ""])


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
    return (
        metrics.replace("entity-f1", "tag-accuracy").replace("entity_f1", "tag_accuracy")
        if detected.options.get("scheme") == "null"
        else metrics
    )


def _data_lines(detected: DetectedData, folder: Path) -> str:
    """The lines of a recipe with the splits and options of the data, and comments on the columns that were chosen."""
    lines = [f"  # {note}" for note in detected.notes()]
    lines += [f"  {split}: {_paths(files, folder)}" for split, files in detected.splits.items()]
    lines += [] if detected.folder is None else [f"  folder: {_paths([detected.folder], folder)}"]
    lines += [f"  {option}: {value}" for option, value in detected.options.items()]
    if "valid" not in detected.splits:
        fraction = next(fraction for size, fraction in _HELD_OUT if detected.size < size)
        lines.append(f"  validation_fraction: {fraction:<12g}# fraction of the training examples held out for validation")
    return "\n".join(lines)


def _paths(files: Paths, folder: Path) -> str:
    """Files as YAML: a string, a list of several, or a mapping of classes."""
    if isinstance(files, dict):
        if unusable := next((label for label in files if not is_key(label)), None):
            raise ValueError(
                f"the class {printable_line(unusable)[:MAX_KEY_LENGTH]!r} is no key of a recipe: a key has at most "
                f"{MAX_KEY_LENGTH} characters, all of them printable; rename its folder or file"
            )
        return "{" + ", ".join(f"{yaml_string(label)}: {_paths(own, folder)}" for label, own in files.items()) + "}"

    def relative(file: str) -> str:
        path, base = Path(file).resolve(), folder.resolve()
        shown = str(path.relative_to(base) if path.is_relative_to(base) else path)
        if "${" in shown:
            raise ValueError(f"{shown!r}: a recipe cannot name this file, because ${{...}} is a reference; rename it")
        return shown if re.fullmatch(r"[\w./-]+", shown) else json.dumps(shown, ensure_ascii=not shown.isprintable())

    return relative(files[0]) if len(files) == 1 else f"[{', '.join(map(relative, files))}]"
