"""Values and directions of metrics.json."""

from __future__ import annotations

from pathlib import Path

import pytest

from weft.experiments.metrics_file import best_indices, metric_values


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


def test_only_numbers_of_the_current_format_are_metrics() -> None:
    path = Path("m.json")
    assert metric_values(
        {"format": 1, "split": "valid", "loss": 1.0, "text": "x", "higher_is_better": {"loss": False}}, path
    ) == {"valid loss": 1.0}
    with pytest.raises(ValueError, match=r"m\.json: has format 9"):
        metric_values({"format": 9}, path)
    with pytest.raises(ValueError, match=r"m\.json: must be a JSON object with the metrics of a run, not list"):
        metric_values([], path)
