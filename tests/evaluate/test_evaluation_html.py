"""An evaluation in a notebook."""

from __future__ import annotations

from tests.displays import HOSTILE, cells, parsed, words

from weft.evaluate import Accuracy
from weft.evaluate.evaluation import EvaluationResult


def result(**options: object) -> EvaluationResult:
    rows = range(40)
    predictions = {row: "yes" if row % 4 else "no" for row in rows}
    references = {row: {"label": "yes"} for row in rows}
    return EvaluationResult({"loss": 0.25, "accuracy": 0.75}, predictions, references, **options)  # type: ignore[arg-type]


def test_metrics_are_shown_with_their_intervals() -> None:
    shown = result(split="test", metrics=[Accuracy()])
    tree = parsed(shown)
    header, loss, accuracy = cells(tree)
    assert header == ["metric", "value", "95 % interval"]
    assert loss == ["loss", "0.2500", ""]
    low, high = shown.intervals([Accuracy()])["accuracy"]
    assert accuracy == ["accuracy", "0.7500", f"{low:.4f} – {high:.4f}"] and low < 0.75 < high
    assert "Evaluation on test" in words(tree)


def test_without_metrics_there_are_no_intervals() -> None:
    assert cells(parsed(result()))[1:] == [["loss", "0.2500", ""], ["accuracy", "0.7500", ""]]


def test_signatures_and_remarks_stand_below_and_are_escaped() -> None:
    tree = parsed(result(signatures={"bleu": HOSTILE}, remarks=[HOSTILE], split=HOSTILE))
    assert "bleu: <img" in words(tree)


def test_an_empty_evaluation_is_well_formed() -> None:
    assert len(cells(parsed(EvaluationResult({})))) == 1
