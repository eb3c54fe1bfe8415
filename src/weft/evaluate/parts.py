"""Evaluation of several sources: each by itself, with its metrics under the name of the source."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import torch

from weft.core.contracts import Codec, Dataset, Objective, Structure
from weft.core.options import OptionError
from weft.core.seeding import Key
from weft.evaluate.evaluation import Evaluation, EvaluationResult


@dataclass(frozen=True)
class EvaluationPart:
    """What is evaluated under one name: a source, or a source of a mixture.

    Args:
        evaluation: Its metrics, and the options of the evaluation.
        objective: Computes the loss and the predictions.
        codec: Turns predictions into text.
        splits: The examples by split.
    """

    evaluation: Evaluation
    objective: Objective
    codec: Codec
    splits: Mapping[str, Dataset]


def part_name(*names: str) -> str:
    """Return the name of a part, or of a value of a part: ``sentiment.accuracy``.

    Example:
        >>> part_name("sentiment", "accuracy"), part_name("", "accuracy")
        ('sentiment.accuracy', 'accuracy')
    """
    return ".".join(name for name in names if name)


def evaluate_parts(
    parts: Mapping[str, EvaluationPart],
    split: str,
    model: Structure,
    device: torch.device,
    max_examples: int = 0,
    last: bool = True,
    key: Key = (),
) -> EvaluationResult:
    """Evaluate a split of each part that has it. See ``Evaluation.evaluate``.

    Args:
        parts: The parts by name; a single one has the name "".
        split: The split.
        model: The network.
        device: The device of the model.
        max_examples: At most N examples of each part; 0 = all.
        last: Whether training is over.
        key: Seed of the evaluation.
    """
    found: dict[str, EvaluationResult] = {}
    for name, part in parts.items():
        if split in part.splits:
            own = (key, name) if name else key
            dataset = part.splits[split]
            found[name] = part.evaluation.evaluate(model, part.objective, dataset, part.codec, device, max_examples, last, own)
    return join_results(found)


def join_results(results: Mapping[str, EvaluationResult]) -> EvaluationResult:
    """Return the results of several parts as one: values named ``part.value``, and as ``loss`` the mean of their losses."""
    if set(results) == {""}:
        return results[""]
    losses = [result.metric_values["loss"] for result in results.values() if "loss" in result.metric_values]
    whole = EvaluationResult({"loss": sum(losses) / len(losses) if losses else math.nan}, higher_is_better={"loss": False})
    for part, result in results.items():
        whole.metric_values |= {part_name(part, name): value for name, value in result.metric_values.items()}
        whole.higher_is_better |= {part_name(part, name): higher for name, higher in result.higher_is_better.items()}
        whole.signatures |= {part_name(part, name): text for name, text in result.signatures.items()}
        whole.remarks += [f"{part}: {remark}" for remark in result.remarks]
    whole.parts = dict(results)
    return whole


def check_monitor(
    monitor: str, evaluations: Mapping[str, Evaluation], objectives: Mapping[str, Objective], terms: Iterable[str]
) -> None:
    """Raise ValueError if the monitored value is neither the mean loss nor a value of a part.

    Args:
        monitor: The name of the value.
        evaluations: The evaluation of each part.
        objectives: The objective of each part.
        terms: The loss terms.
    """
    if set(evaluations) == {""}:
        evaluations[""].check_monitor(monitor, terms, objectives[""])
        return
    head, slash, group = monitor.partition("/")
    part, dot, name = head.rpartition(".")
    if monitor == "loss":
        return
    if part not in evaluations or not dot:
        raise OptionError(
            "monitor",
            f"monitor is {monitor!r}, but with several sources it must be loss (the mean over the sources) or a value of one of "
            f"them: {', '.join(f'{part}.loss' for part in evaluations)}",
        )
    evaluations[part].check_monitor(name + slash + group, terms, objectives[part])
