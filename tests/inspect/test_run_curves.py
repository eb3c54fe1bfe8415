"""Learning curves of several runs in one plot."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from tests.experiments.run_folders import log

from weft.inspect.run_curves import log_curves, plot_run_curves


def test_curves_are_read_from_the_log() -> None:
    found = log_curves(log())
    assert list(found) == ["training loss", "valid loss", "valid bleu"]
    assert list(found["training loss"].steps) == [1, 2, 3, 4] and list(found["training loss"].minutes) == [1, 2, 3, 4]
    assert list(found["valid bleu"].minutes) == [2, 4] and list(found["valid bleu"].values) == [20.0, 40.0]


def test_curves_continue_through_stages() -> None:
    rows = [
        {"event": "train", "stage": 0, "step": 10, "a/loss": 1.0, "b/loss": 2.0, "tokens": 600, "tokens_per_second": 10.0},
        {"event": "valid", "stage": 1, "step": 5, "valid": {"loss": float("nan"), "f1": 0.5}},
        {"event": "train", "stage": 1, "step": 10, "loss": 4.0, "tokens": 1200, "tokens_per_second": 10.0},
        {"event": "skip", "stage": 1, "step": 11, "loss": 9.0},
        {"note": "x"},
    ]
    found = log_curves(rows)
    assert list(found["training loss"].values) == [3.0, 4.0] and list(found["training loss"].steps) == [10, 20]
    assert list(found["training loss"].minutes) == [1, 3] and list(found["valid f1"].minutes) == [2]
    assert "valid loss" not in found and log_curves([]) == {}
    without = log_curves([{"event": "valid", "step": 5, "valid": {"f1": 0.5}}])["valid f1"]
    assert np.isnan(without.minutes).all()


def test_zero_and_wide_ranges_and_many_metrics_can_be_plotted(tmp_path: Path) -> None:
    zero = [{"event": "valid", "step": r, "valid": {"f1": 0.0}} for r in (1, 2)]
    wide = [{"event": "train", "step": r, "loss": 10.0**-r} for r in range(9)]
    many = [{"event": "valid", "step": 1, "valid": {f"f{i}": 1.0 for i in range(30)}}]
    assert plot_run_curves({"$x": zero, "_y": wide, "": many} | {str(i): wide for i in range(12)}, tmp_path / "c.png").is_file()
    with pytest.raises(ValueError, match="nothing to plot yet"):
        plot_run_curves({"a": []}, tmp_path / "d.png")
