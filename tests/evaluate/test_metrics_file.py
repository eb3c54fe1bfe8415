"""Values and directions of metrics.json."""

from __future__ import annotations

from pathlib import Path

import pytest

from weft.evaluate.metrics_file import best_indices, metric_values, read_metrics


@pytest.mark.parametrize(
    ("higher_is_better", "values", "best"),
    [
        (False, [1.0, 2.0], [0]),
        (True, [1.0, 2.0], [1]),
        (None, [1.0, 2.0], []),
        (False, [3.0, None, 2.0], [2]),
        (True, [1.0, 2.0, 2.0], [1, 2]),
        (True, [2.0, 2.0], []),
        (True, [2.0, None], []),
        (False, [float("nan"), 2.0, 3.0], [1]),
    ],
)
def test_the_best_value_follows_the_direction(higher_is_better: bool | None, values: list[float | None], best: list[int]) -> None:
    assert best_indices(values, higher_is_better) == best


def test_only_numbers_are_metrics() -> None:
    stored = {"format": 1, "split": "valid", "loss": 1.0, "text": "x", "higher_is_better": {"loss": False}}
    assert metric_values(stored) == {"valid loss": 1.0}


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("[]", r"m\.json: must be a JSON object with the metrics of a run, not list"),
        ("null", r"m\.json: must be a JSON object with the metrics of a run, not NoneType"),
        ('{"format": 9}', r"m\.json: has format 9"),
        ('{"format": 1, "split": 3}', r"m\.json: split: must be a str, not int"),
        ('{"format": 1, "valid": []}', r"m\.json: valid: must be a dict, not list"),
        ('{"format": 1, "remarks": "x"}', r"m\.json: remarks: must be a list, not str"),
        ('{"format": 1, "higher_is_better": null}', r"m\.json: higher_is_better: must be a dict, not NoneType"),
    ],
)
def test_a_file_that_no_run_wrote_is_refused(content: str, message: str, tmp_path: Path) -> None:
    (tmp_path / "m.json").write_text(content)
    with pytest.raises(ValueError, match=message):
        read_metrics(tmp_path / "m.json")
