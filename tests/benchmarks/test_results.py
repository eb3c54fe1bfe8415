"""Recorded results are found by arm and recipe, and by arm alone where nothing else could be meant."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks import results


def test_results_of_an_earlier_recipe_are_used_where_they_are_unambiguous(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(results, "FOLDER", tmp_path)
    for name, value in {"arm-1-00000000": 1, "arm-1-00000000-test": 2, "arm-2-11111111": 3, "arm-2-22222222": 4}.items():
        results.record(name, {"value": value})
    assert results.recorded("arm-1-00000000") == {"value": 1} and capsys.readouterr().out == ""
    assert results.recorded("arm-1-abcdef01") == {"value": 1} and "earlier version" in capsys.readouterr().out
    assert results.recorded("arm-1-abcdef01-test") == {"value": 2}
    assert results.recorded("arm-2-33333333") is None, "two earlier recipes: which one is meant?"
    assert results.recorded("arm-3-00000000") is None and results.recorded("arm-1") is None
