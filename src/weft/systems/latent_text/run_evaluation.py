"""Evaluate a trained run on class-conditional generation and style transfer."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np

from weft.core.contracts import ProgressCallback
from weft.core.seeding import key
from weft.data.text_files import read_labeled_texts, read_texts
from weft.evaluate import KneserNey
from weft.inference.datasets import open_split
from weft.inference.load import load
from weft.inference.trained_run import TrainedRun
from weft.systems.latent_text.evaluate import (
    GenerationMetrics,
    Oracle,
    count_shared_texts,
    evaluate_generation,
    evaluate_transfer,
)
from weft.systems.latent_text.space import LatentSpace, SearchStrategy

MAX_TEXTS = 5000


@dataclass(frozen=True)
class RunEvaluation:
    """Generated texts of a run, and their metrics.

    Args:
        generation: Metrics of class-conditional generation, over all classes in turn.
        transfer: Metrics of style transfer; None if the run does not support it.
        oracle_accuracy: Accuracy of the oracle on the real texts: an upper bound for the other accuracies.
        generated: Target label and text of each sample.
        transferred: Source, target label and rewritten text of each real text.
        oracle_overlap: Number of real texts in the training set of the oracle.
        language_model_overlap: Number of real texts in the training set of the language model.
        train_overlap: Number of training texts of the run in the training set of the oracle.
        extra_classes: Classes of the oracle that the run does not have.
    """

    generation: GenerationMetrics
    transfer: GenerationMetrics | None
    oracle_accuracy: float
    generated: tuple[tuple[str, str], ...]
    transferred: tuple[tuple[str, str, str], ...]
    oracle_overlap: int = 0
    language_model_overlap: int = 0
    train_overlap: int = 0
    extra_classes: tuple[str, ...] = ()

    def metric_values(self) -> dict[str, float]:
        """Return all metrics by name: ``generation_accuracy``, ``transfer_bleu_4`` and so on."""
        values = {"oracle_accuracy": self.oracle_accuracy}
        for name, metrics in (("generation", self.generation), ("transfer", self.transfer)):
            if metrics is not None:
                values |= {f"{name}_{metric}": value for metric, value in metrics.metric_values().items()}
        return values

    def warnings(self) -> list[str]:
        """Return reasons not to trust a metric, such as mode collapse or shared training texts."""
        found = [f"generation: {warning}" for warning in self.generation.warnings]
        found += [f"transfer: {warning}" for warning in self.transfer.warnings] if self.transfer is not None else []
        if self.oracle_overlap:
            found.append(f"{self.oracle_overlap:,} of the real texts are in the training set of the oracle; give it other texts")
        if self.train_overlap:
            found.append(
                f"{self.train_overlap:,} training texts of the run are in the training set of the oracle; give it other texts"
            )
        if self.extra_classes:
            names = ", ".join(self.extra_classes)
            found.append(f"the run does not have the classes {names} of the oracle; these predictions count as wrong")
        if self.language_model_overlap:
            found.append(
                f"{self.language_model_overlap:,} of the real texts are in the training set of the language model; "
                "give it other texts"
            )
        return found


def is_oracle(files: Sequence[str]) -> bool:
    """Whether this is a single file written by ``Oracle.save`` (.json), not a list of text files."""
    return len(files) == 1 and Path(files[0]).suffix == ".json"


def open_oracle(files: Sequence[str]) -> tuple[Oracle, list[str]]:
    """Load or train an oracle. Returns the oracle and its training texts.

    Args:
        files: A file written by ``Oracle.save`` (.json, whose training texts are unknown), or labeled texts to train on: tables,
            or CLASS=FILE.
    """
    if is_oracle(files):
        if not Path(files[0]).is_file():
            raise ValueError(f"{files[0]}: file not found")
        return Oracle.load(files[0]), []
    rows = read_labeled_texts(files)
    return Oracle.train([row.text for row in rows], [str(row.label) for row in rows]), [row.text for row in rows]


def train_fluency_model(files: Sequence[str]) -> tuple[KneserNey, list[str]]:
    """Train a Kneser-Ney 4-gram language model for the perplexity of generated texts. Returns the model and its training texts.

    Args:
        files: Tables, or files with one text per line. Words that occur once are unknown.
    """
    texts = [row.text for file in files for row in read_texts(file)]
    return KneserNey([text.split() for text in texts], order=4, min_count=2), texts


def evaluate_run(
    run: TrainedRun | str | Path,
    oracle: Oracle | Sequence[tuple[str, str | None]],
    *,
    oracle_texts: Sequence[str] = (),
    split: str | None = None,
    files: Sequence[str | Path] = (),
    max_texts: int = MAX_TEXTS,
    seed: int = 0,
    search: SearchStrategy = None,
    language_model: TrainedRun | KneserNey | None = None,
    language_model_texts: Sequence[str] = (),
    human_references: Sequence[Sequence[str]] | None = None,
    progress: ProgressCallback | None = None,
) -> RunEvaluation:
    """Evaluate a run on class-conditional generation and, if it supports it, style transfer.

    Generation: as many samples as there are real texts, over all classes in turn, against the real texts
    (``evaluate_generation``). Transfer: each real text, rewritten to a random other class, against itself
    (``evaluate_transfer``).

    Args:
        run: A class-conditional run, or its folder.
        oracle: The oracle, or labeled texts to train one on.
        oracle_texts: Training texts of the oracle, to detect overlaps.
        split: Split of the run's data with the real texts (by default test, or valid if there is no test split).
        files: Files with the real texts instead.
        max_texts: Maximum number of real texts.
        seed: Random seed of the samples, the target classes and the order of the real texts.
        search: Decoding strategy; None = that of the recipe.
        language_model: A language model for the perplexity, other than the run.
        language_model_texts: Its training texts, to detect overlaps.
        human_references: Human rewrites of each real text.
        progress: Receives progress messages.
    """
    space = LatentSpace(run if isinstance(run, TrainedRun) else load(run))
    oracle, oracle_texts = _check_oracle(space, oracle, oracle_texts)
    if max_texts < 2:
        raise ValueError(f"max_texts must be at least 2 for Self-BLEU, not {max_texts}; {MAX_TEXTS:,} is usual")
    real = _real_texts(space.run, split, files, human_references, max_texts, seed)
    generated = _generate(space, len(real.texts), seed, search, progress)
    transferred = _transfer(space, real, seed, search, progress)
    targets, samples = [label for label, _ in generated], [text for _, text in generated]
    return RunEvaluation(
        evaluate_generation(samples, targets, real.texts, oracle, language_model=language_model),
        _transfer_metrics(transferred, real, oracle, language_model) if transferred else None,
        oracle.accuracy(real.texts, real.labels),
        generated,
        transferred,
        oracle_overlap=count_shared_texts(oracle_texts, real.texts) if oracle_texts else 0,
        language_model_overlap=count_shared_texts(language_model_texts, real.texts) if language_model_texts else 0,
        train_overlap=count_shared_texts(oracle_texts, _training_texts(space.run)) if oracle_texts else 0,
        extra_classes=tuple(name for name in oracle.labels if name not in space.labels.names),
    )


def _check_oracle(
    space: LatentSpace, oracle: Oracle | Sequence[tuple[str, str | None]], oracle_texts: Sequence[str]
) -> tuple[Oracle, Sequence[str]]:
    """The oracle, trained if labeled texts were given, and its training texts."""
    if not space.labels.samples_by_label:
        space.labels.resolve(0, "")  # raises an error that names the alternatives
    if not isinstance(oracle, Oracle):
        oracle_texts = [text for text, _ in oracle]
        oracle = Oracle.train(oracle_texts, [str(label) for _, label in oracle])
    if missing := [name for name in space.labels.names if name not in oracle.labels]:
        raise ValueError(f"the oracle has no class {missing[0]!r} of the run; it has {', '.join(oracle.labels)}")
    return oracle, oracle_texts


class _RealTexts(NamedTuple):
    rows: list[int]
    texts: list[str]
    labels: list[str]
    human_references: list[Sequence[str]] | None


def _real_texts(
    run: TrainedRun,
    split: str | None,
    files: Sequence[str | Path],
    human_references: Sequence[Sequence[str]] | None,
    max_texts: int,
    seed: int,
) -> _RealTexts:
    """The real texts with their labels and human references, shuffled: files may be sorted by class."""
    opened = open_split(run, split, files)
    name, dataset = opened.name, opened.dataset
    raw = [dataset.raw(row) for row in range(len(dataset))]
    if any("label" not in row for row in raw):
        raise ValueError(f"the examples of {name} have no labels; class-conditional evaluation needs labeled texts")
    if human_references is not None and len(human_references) != len(raw):
        raise ValueError(f"{len(human_references)} human references, but {len(raw)} real texts; give one list per text")
    shuffled = np.random.default_rng(key(seed, "real")).permutation(len(raw))
    rows = [int(row) for row in shuffled[:max_texts]]
    texts, labels = [raw[row]["source"] for row in rows], [str(raw[row]["label"]) for row in rows]
    return _RealTexts(rows, texts, labels, None if human_references is None else [human_references[row] for row in rows])


def _generate(
    space: LatentSpace, samples: int, seed: int, search: SearchStrategy, progress: ProgressCallback | None
) -> tuple[tuple[str, str], ...]:
    """Target label and text of each sample, over all classes in turn."""
    labels = [space.labels.names[i % len(space.labels.names)] for i in range(samples)]
    z_NP = space.sample_latents(samples, labels, seed)
    texts = (space.run.decode(row[0]) for row in space.hypotheses(z_NP, labels, search))
    return tuple(zip(labels, _report(texts, "sampling texts", samples, progress), strict=True))


def _transfer(
    space: LatentSpace, real: _RealTexts, seed: int, search: SearchStrategy, progress: ProgressCallback | None
) -> tuple[tuple[str, str, str], ...]:
    """Source, target label and rewritten text of each real text; empty if the run does not support style transfer."""
    if not space.labels.class_conditional:
        return ()
    targets = [_other_class(label, space.labels.names, seed, row) for row, label in zip(real.rows, real.labels, strict=True)]
    rewritten = _report(space.rewrite(real.texts, None, targets, search), "rewriting texts", len(targets), progress)
    return tuple(zip(real.texts, targets, rewritten, strict=True))


def _transfer_metrics(
    transferred: Sequence[tuple[str, str, str]],
    real: _RealTexts,
    oracle: Oracle,
    language_model: TrainedRun | KneserNey | None,
) -> GenerationMetrics:
    targets, texts = [label for _, label, _ in transferred], [text for _, _, text in transferred]
    return evaluate_transfer(
        real.texts, texts, targets, oracle, human_references=real.human_references, language_model=language_model
    )


def _training_texts(run: TrainedRun) -> Iterator[str]:
    """All training texts of the run, read one by one; none if its data is not available any more."""
    try:
        dataset = run.dataset("train")[1]
    except (OSError, ValueError):
        return
    for row in range(len(dataset)):
        yield dataset.raw(row)["source"]


def _other_class(label: str, classes: Sequence[str], seed: int, row: int) -> str:
    others = [name for name in classes if name != label]
    return others[int(np.random.default_rng(key(seed, "transfer", row)).integers(len(others)))]


def _report(texts: Iterable[str], activity: str, total: int, progress: ProgressCallback | None) -> Iterator[str]:
    for done, text in enumerate(texts, 1):
        yield text
        if progress is not None:
            progress(f"{activity}: {done:,} of {total:,}", 0, 0)
