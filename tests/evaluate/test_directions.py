"""Every metric, loss term and derived value declares whether higher is better, and the declaration agrees with behavior."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from weft.blocks import LSTM, AttentionLSTM
from weft.core.batch import Batch, Clock
from weft.core.contracts import Metric, Objective
from weft.core.fields import Info
from weft.core.io import read_json, read_lines
from weft.core.loss import Loss, Term
from weft.core.registry import CATALOG, block, unregister
from weft.data import Dates
from weft.evaluate import BLEU, Evaluation, EvaluationResult, ExactMatch
from weft.learning import SGD, Gradient, load_checkpoint, read_weights
from weft.models import Seq2Seq
from weft.objectives import NextToken, Weighted
from weft.systems.latent_text.evaluate import Oracle
from weft.training.catalog import fill_catalog
from weft.training.run import Run

fill_catalog()

SENTENCES = ["the food was good", "a rude waiter came late", "great service and wine"]
LABELS = ["1", "2", "3", "2"]
TAGS = ["B-PER I-PER O", "O B-LOC O"]


def oracle_file(folder: Path) -> dict[str, Any]:
    file = folder / "oracle.json"
    Oracle(["-", "+"], ["good"], np.array([[0, 2]]), np.array([1, 0]), 1).save(file)
    return {"oracle": str(file)}


# Per metric: the references of a column, predictions that are perfect, predictions that are wrong.
CASES: dict[str, tuple[str, list[str], list[Any], list[Any]]] = {
    "accuracy": ("label", LABELS, LABELS, ["3", "1", "1", "3"]),
    "macro-f1": ("label", LABELS, LABELS, ["3", "1", "1", "3"]),
    "mean-absolute-error": ("label", LABELS, LABELS, ["3", "4", "1", "4"]),
    "correlation": ("label", LABELS, LABELS, ["3", "2", "1", "2"]),
    "multi-label-f1": ("label", ["a\tb", "c"], ["a\tb", "c"], ["c", "a"]),
    "entity-f1": ("tags", TAGS, TAGS, ["O O O", "B-PER O O"]),
    "tag-accuracy": ("tags", TAGS, TAGS, ["O O B-PER", "B-LOC O B-LOC"]),
    "exact-match": ("target", SENTENCES, SENTENCES, [*SENTENCES[:0:-1], "no"]),
    "bleu": ("target", SENTENCES, SENTENCES, ["x y z w v"] * 3),
    "chrf": ("target", SENTENCES, SENTENCES, ["xyz"] * 3),
    "forward-bleu": ("target", SENTENCES, SENTENCES, ["x y z w v"] * 3),
    "self-bleu": ("target", SENTENCES, SENTENCES, ["the food was good"] * 3),
    "distinct": ("target", SENTENCES, SENTENCES, ["good good good"] * 3),
    "repetition": ("target", SENTENCES, SENTENCES, ["good good good"] * 3),
    "answer-exact-match": ("answer", SENTENCES, SENTENCES, ["nothing"] * 3),
    "answer-f1": ("answer", SENTENCES, SENTENCES, ["nothing"] * 3),
    "oracle-accuracy": ("label", ["+", "+"], ["so good", "good"], ["bad", "so so"]),
    "word-perplexity": ("text", SENTENCES, [{"loss": 1.0}], [{"loss": 50.0}]),
}
FROM_THE_MODEL = {"latent-space", "prior-samples"}
"""Metrics of the model itself; their values are tested with latent models in tests/systems."""


def test_every_registered_metric_has_a_case() -> None:
    assert set(CATALOG[Metric]) == CASES.keys() | FROM_THE_MODEL


@pytest.mark.parametrize("name", CASES)
def test_perfect_predictions_are_better_than_wrong_ones_in_the_declared_direction(name: str, tmp_path: Path) -> None:
    column, references, perfect, wrong = CASES[name]
    metric = CATALOG[Metric][name](**(oracle_file(tmp_path) if name == "oracle-accuracy" else {}))
    rows = [{column: text} for text in references]
    good, bad = metric.compute(perfect, rows), metric.compute(wrong, rows)
    assert {value.partition("/")[0] for value in good} == set(metric.higher_is_better)
    assert any(metric.direction(value) is not None for value in good)
    for value in good.keys() & bad.keys():
        direction = metric.direction(value)
        if direction is None:
            assert good[value] == bad[value], "a value without a direction is a count that predictions do not change"
        else:
            assert (good[value] > bad[value]) if direction else (good[value] < bad[value])


def test_a_group_has_the_direction_of_its_value() -> None:
    metric = ExactMatch(group_by="language")
    assert metric.direction("exact_match/en") is True and metric.direction("exact_match_worst_group") is True
    assert ExactMatch().direction("exact_match_worst_group") is None and BLEU().direction("chrf") is None


class Reported(NextToken):
    """The next-token loss with an accuracy beside it and three derived values."""

    higher_is_better = {"gap": None, "skill": True}

    def counts(self, batch: Batch) -> dict[str, int]:
        return super().counts(batch) | {"correct": len(batch)}

    def forward(self, model: Any, batch: Batch, clock: Clock) -> Loss:
        correct = Term(torch.ones(()), len(batch), 0.0, higher_is_better=True)
        return Loss(super().forward(model, batch, clock) | {"correct": correct})

    def metric_values(self, means: Any) -> dict[str, float]:
        return {"skill": -means["loss"], "gap": 1.0, "undeclared": 2.0}


class Signed(NextToken):
    """The next-token loss as a term of another name, lowered or raised by training."""

    higher_is_better = {}

    def __init__(self, info: Info, dim: int, *, weight: float = 1.0):
        super().__init__(info, dim)
        self.weight = weight

    def counts(self, batch: Batch) -> dict[str, int]:
        return {"replaced": super().counts(batch)["loss"]}

    def forward(self, model: Any, batch: Batch, clock: Clock) -> Loss:
        return Loss(replaced=replace(super().forward(model, batch, clock)["loss"], weight=self.weight))

    def metric_values(self, means: Any) -> dict[str, float]:
        return {}


@pytest.fixture(autouse=True)
def registered() -> Iterator[None]:
    for name, objective in (("reported", Reported), ("signed", Signed)):
        block(name)(objective)
    yield
    for objective in (Reported, Signed):
        unregister(objective)


def run(objective: Any, evaluation: Any, **learning: Any) -> Run:
    return Run(
        data=partial(Dates, train=100, valid=20, test=20),
        structure=partial(Seq2Seq, dim=8, encoder=partial(LSTM, bidirectional=True), decoder=AttentionLSTM),
        objective=objective,
        learning=partial(Gradient, **{"batch_tokens": 400, "log_every": 1, "keep": 20, **learning}),
        evaluate=evaluation,
    )


def test_terms_and_derived_values_carry_their_direction_into_the_result(tmp_path: Path) -> None:
    weighted = partial(Weighted, parts={"lm": Reported, "other": NextToken})
    for name, objective in (("one", Reported), ("two", weighted)):
        run(objective, partial(Evaluation, metrics=[ExactMatch]), steps=1).train(tmp_path / name, quiet=True)
    assert read_json(tmp_path / "one" / "metrics.json")["higher_is_better"] == {
        "loss": False,
        "correct": True,
        "skill": True,
        "exact_match": True,
    }
    assert read_json(tmp_path / "two" / "metrics.json")["higher_is_better"] == {
        "loss": False,
        "lm": False,
        "lm.correct": True,
        "other": False,
        "exact_match": True,
    }


@pytest.mark.parametrize(("weight", "falls"), [(1.0, True), (-1.0, False)])
def test_the_checkpoint_with_the_lowest_loss_term_is_kept(tmp_path: Path, weight: float, falls: bool) -> None:
    """A term is a loss, whatever its name: the last weights where training lowers it, the first where training raises it."""
    objective = partial(Signed, weight=weight)
    learning = {"steps": 4, "final": "best", "optimizer": partial(SGD, lr=0.5)}
    run(objective, partial(Evaluation, every=1, monitor="replaced"), **learning).train(tmp_path / "run", quiet=True, keep=True)
    terms = [row["valid"]["replaced"] for row in read_lines(tmp_path / "run" / "log.jsonl") if row["event"] == "valid"]
    assert terms == sorted(terms, reverse=falls) and len(set(terms)) == 4
    update = 1 + int(np.argmin(terms))
    best = load_checkpoint(tmp_path / "run" / "checkpoints" / f"step-{update:08d}").tensors["model.safetensors"]
    final = read_weights(tmp_path / "run" / "model.safetensors")
    assert all(torch.equal(final[name], best[name]) for name in final)


def test_early_stopping_on_a_term_waits_while_the_term_falls(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    values = iter([3.04, 2.9, 2.8, 2.74, 2.8, 2.9, 3.0])

    def evaluate(self: Any, *args: Any, **options: Any) -> EvaluationResult:
        return EvaluationResult({"replaced": next(values, 9.0)}, higher_is_better={"replaced": False})

    monkeypatch.setattr(Evaluation, "evaluate", evaluate)
    evaluation = partial(Evaluation, every=1, monitor="replaced")
    run(NextToken, evaluation, steps=20, patience=2, final="best").train(tmp_path / "run", quiet=True)
    steps = [row["step"] for row in read_lines(tmp_path / "run" / "log.jsonl") if row["event"] == "train"]
    assert max(steps) == 6, "the best value came in step 4; two steps without a better one follow"


def test_a_value_without_a_direction_cannot_be_monitored() -> None:
    evaluation = Evaluation(monitor="gap")
    result = EvaluationResult({"loss": 1.0, "gap": 1.0}, higher_is_better={"loss": False})
    with pytest.raises(ValueError, match=r"'gap', which does not declare higher_is_better.*; choose one of: loss$"):
        evaluation.score(result)
    assert Evaluation().score(result) == -1.0


def test_every_derived_value_of_an_objective_declares_its_direction() -> None:
    """``metric_values`` of every registered objective returns exactly the names that the objective declares."""

    class AnyMean(dict[str, float]):
        def __missing__(self, name: str) -> float:
            return 1.0

        def __contains__(self, name: object) -> bool:
            return True

    for name, factory in CATALOG[Objective].items():
        assert isinstance(factory, type) and issubclass(factory, Objective)
        declared = factory.higher_is_better
        if factory.metric_values is Objective.metric_values:
            assert not declared, name
        elif name not in ("reported", "cara-reconstruction"):  # one of this file; one with an accumulator: see tests/systems
            assert set(factory.metric_values(factory.__new__(factory), AnyMean())) == set(declared), name
