"""Comparisons and sweeps in a notebook."""

from __future__ import annotations

from pathlib import Path

from tests.displays import HOSTILE, cells, parsed, strong, words

from weft.experiments.compare import Comparison
from weft.experiments.sweep_grid import Trial
from weft.experiments.sweep_result import SweepResult, SweepRow


def comparison(name: str = "b") -> Comparison:
    return Comparison(
        ["a", name],
        [Path("a"), Path("b")],
        {"structure.dim": [128, 256], "seed": [1, None]},
        {"test loss": [0.5, 0.4], "test bleu": [30.0, None]},
        {"test loss": [1], "test bleu": []},
        [{"runs": ["a", name], "p": {"test bleu": 0.0123}}],
        notes=["b: it is not finished"],
    )


def test_a_comparison_shows_options_metrics_and_significance() -> None:
    tree = parsed(comparison())
    rows = cells(tree)
    assert ["structure.dim", "128", "256"] in rows
    assert ["test loss", "0.5000", "0.4000"] in rows and ["test bleu", "30.0000", "-"] in rows
    assert strong(tree) == ["0.4000"]
    assert ["a – b", "test bleu", "0.0123"] in rows
    assert "b: it is not finished" in words(tree)


def test_a_comparison_of_equal_options_has_no_table_of_them() -> None:
    same = comparison()
    same.options = {}
    assert "Different options" not in words(parsed(same))


def test_the_names_of_runs_are_escaped() -> None:
    hostile = comparison(HOSTILE)
    hostile.options[HOSTILE], hostile.notes = [HOSTILE, 1], [HOSTILE]
    assert "alert(1)" in words(parsed(hostile))


def sweep(error: str = "") -> SweepResult:
    finished = Trial("dim=8", {"dim": 8}, [], Path("x"), {"valid loss": 0.5}, {"valid loss": False})
    trials = [finished, Trial("dim=9", {"dim": 9}, [], Path("y"), error=error)]
    rows = [
        SweepRow("dim=8", {"dim": 8}, ["dim=8"], 2, {"valid loss": 0.5}, {"valid loss": 0.01}),
        SweepRow("dim=*", {"dim": 9}, ["dim=9"], 2, {"valid loss": 0.6}, {"valid loss": None}),
    ]
    return SweepResult(Path("runs/s"), ["dim"], trials, rows)


def test_a_sweep_shows_mean_and_standard_deviation_and_the_best() -> None:
    tree = parsed(sweep())
    assert cells(tree) == [
        ["options", "n", "valid loss"],
        ["dim=8", "2", "0.5000 ± 0.0100"],
        ["dim=*", "2", "0.6000"],
    ]
    assert strong(tree) == ["0.5000 ± 0.0100"]
    assert "best mean in bold" in words(tree) and "dim=9" in words(tree)


def test_the_error_of_a_failed_trial_is_shown_and_escaped() -> None:
    assert "alert(1)" in words(parsed(sweep(HOSTILE)))
