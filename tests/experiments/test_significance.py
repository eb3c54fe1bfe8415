"""Paired significance tests between runs, and the notes on runs that cannot be tested."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from tests.experiments.run_folders import write_pair, write_predictions, write_run

from weft.evaluate import ExactMatch
from weft.evaluate.resampling import paired_test
from weft.experiments.compare import compare


@pytest.fixture
def two(tmp_path: Path) -> list[Path]:
    return write_pair(tmp_path)


def test_p_values_are_those_of_the_paired_bootstrap(two: list[Path], capsys: pytest.CaptureFixture[str]) -> None:
    targets = [str(i) for i in range(40)]
    better = [t if i % 8 else "?" for i, t in enumerate(targets)]
    worse = [t if i % 3 == 0 else "?" for i, t in enumerate(targets)]
    write_predictions(two[0], better, targets)
    write_predictions(two[1], worse, targets)
    lines = (two[1] / "predictions.jsonl").read_text().splitlines()
    (two[1] / "predictions.jsonl").write_text("\n".join(reversed(lines)) + "\n")  # paired by row number, not by order
    result = compare(two)
    expected = paired_test(ExactMatch(), better, worse, [{"source": t, "target": t} for t in targets])
    assert result.significance == [{"runs": ["a", "b"], "p": expected}] and expected["exact_match"] < 0.01
    assert result.notes == []
    result.print()
    assert f"a - b  exact_match  {expected['exact_match']:.4f}" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (None, "no significance test for b: no predictions.jsonl"),
        ("", "is empty"),
        ("[1]\n", "predictions.jsonl:1: must be an object with row, prediction and reference"),
        ('{"row": 0, "reference": {}}\n', "row 0 has no prediction"),
        ('{"row": 0, "prediction": "x", "reference": {"target": "0"}}\n', "predictions for 2 and 1 rows"),
        (
            '{"row": 0, "prediction": "x", "reference": {"source": "0", "target": "0"}}\n'
            '{"row": 1, "prediction": "x", "reference": {"source": "1", "target": "CHANGED"}}\n',
            "the references of row 1 differ",
        ),
        (
            '{"row": 0, "prediction": "x", "reference": {"source": "0", "target": "0"}}\n'
            '{"row": 7, "prediction": "x", "reference": {"source": "1", "target": "1"}}\n',
            "predictions for different rows",
        ),
        ("{\n" + '{"row": 0}\n', "not valid JSON"),
    ],
)
def test_a_note_reports_why_there_is_no_test(two: list[Path], text: str | None, message: str) -> None:
    write_predictions(two[0], ["0", "1"], ["0", "1"])
    if text is not None:
        (two[1] / "predictions.jsonl").write_text(text)
    result = compare(two)
    assert result.significance == [] and [note for note in result.notes if message in note]


def test_one_note_if_no_run_has_predictions(two: list[Path]) -> None:
    assert compare(two).notes == ["no significance test: no run has a predictions.jsonl"]


def test_only_registered_metrics_in_common_are_tested(tmp_path: Path) -> None:
    metrics = [{"type": "exact-match", "field": "source", "group_by": None}], [{"type": "of-a-plug-in"}]
    a, b, c, d = write_run(tmp_path / "a"), write_run(tmp_path / "b"), write_run(tmp_path / "c"), write_run(tmp_path / "d")
    for run, metric in zip((b, c, d), (metrics[0], metrics[1], metrics[1]), strict=True):
        shutil.rmtree(run)
        write_run(run, {"evaluate.metrics": metric})
    for run in (a, b, c, d):
        write_predictions(run, ["0"], ["0"])
    notes = compare([a, b]).notes
    assert any("they have no metric in common" in note for note in notes)
    assert any("evaluated differently (evaluate.metrics.0.field)" in note for note in notes)
    assert any("of-a-plug-in" in note and "no significance test for c and d" in note for note in compare([c, d]).notes)


def test_more_than_five_runs_are_tested_against_the_first(tmp_path: Path) -> None:
    runs = [write_run(tmp_path / f"r{i}", {"seed": i}, {"loss": 1.0}) for i in range(6)]
    for run in runs:
        write_predictions(run, ["0", "1"], ["0", "x"])
    assert len(compare(runs[:4]).significance) == 6
    result = compare(runs)
    assert [t["runs"] for t in result.significance] == [["r0", f"r{i}"] for i in range(1, 6)]
    assert any("only against r0" in note for note in result.notes)
