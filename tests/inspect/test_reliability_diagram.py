from __future__ import annotations

import sys

import numpy as np
import pytest

from weft.inspect.reliability_diagram import calibration_bins, expected_calibration_error, plot_reliability_diagram


def test_expected_calibration_error_of_a_worked_example():
    # two bins: {0.2, 0.5} with 1 of 2 correct, and {0.6, 0.9, 1.0} with 1 of 3 correct
    confidence, correct = [0.2, 0.6, 0.9, 0.5, 1.0], [True, False, True, False, False]
    expected = 2 / 5 * abs(1 / 2 - 0.35) + 3 / 5 * abs(1 / 3 - 2.5 / 3)
    assert expected_calibration_error(confidence, correct, bins=2) == pytest.approx(expected)
    assert expected_calibration_error(confidence, correct, bins=1) == pytest.approx(abs(0.64 - 0.4))


@pytest.mark.parametrize("bins", [1, 7, 10, 15])
def test_calibration_error_equals_a_loop_over_bins(bins):
    rng = np.random.default_rng(bins)
    confidence = np.concatenate([rng.random(300), [0.0, 1.0, 0.5]])
    correct = rng.random(303) < confidence**2
    total = 0.0
    for b in range(bins):
        inside = [i for i, p in enumerate(confidence) if b / bins < p <= (b + 1) / bins or (b == 0 and p == 0)]
        if inside:
            total += abs(sum(correct[i] for i in inside) - sum(confidence[i] for i in inside)) / len(confidence)
    assert expected_calibration_error(confidence, correct, bins) == pytest.approx(total)


def test_a_calibrated_model_has_an_error_near_zero():
    rng = np.random.default_rng(0)
    confidence = rng.random(200_000)
    assert expected_calibration_error(confidence, rng.random(200_000) < confidence) < 0.01
    assert expected_calibration_error(confidence, rng.random(200_000) < confidence / 2) == pytest.approx(0.25, abs=0.01)
    assert expected_calibration_error([1.0, 1.0], [True, True]) == 0 and expected_calibration_error([1.0], [False]) == 1


def test_bins_contain_every_prediction():
    rng = np.random.default_rng(0)
    confidence, correct = rng.random(100), rng.random(100) < 0.5
    found = calibration_bins(confidence, correct, 6)
    assert found.count.sum() == 100 and len(found.edges) == 7
    assert (found.count * found.confidence).sum() == pytest.approx(confidence.sum())
    assert (found.count * found.accuracy).sum() == pytest.approx(correct.sum())


def test_plot_shows_accuracy_gaps_and_histogram(tmp_path, saved_figures):
    confidence, correct = [0.95, 0.95, 0.55, 0.15], [True, False, True, False]
    file = plot_reliability_diagram(confidence, correct, tmp_path / "new" / "r.png", "$x_1$", bins=10)
    assert file.read_bytes().startswith(b"\x89PNG")
    [figure] = saved_figures
    upper, lower = figure.axes
    assert figure.get_suptitle() == "$x_1$"
    error = 100 * expected_calibration_error(confidence, correct)
    assert upper.get_title(loc="left").startswith(f"expected calibration error {error:.1f} %")
    assert [t.get_text() for t in figure.legends[0].get_texts()] == [
        "perfect calibration",
        "accuracy",
        "overconfident",
        "underconfident",
    ]
    accuracy, over, under = upper.containers
    assert [bar.get_height() for bar in accuracy] == pytest.approx([0, 1, 0.5])
    assert [(bar.get_y(), bar.get_height()) for bar in over] == [pytest.approx((0, 0.15)), pytest.approx((0.5, 0.45))]
    assert [(bar.get_y(), bar.get_height()) for bar in under] == [pytest.approx((0.55, 0.45))]
    assert [t.get_text() for t in lower.texts] == ["1", "1", "2"]


def test_invalid_arguments_are_rejected(tmp_path, monkeypatch):
    for confidence, correct in (([], []), ([0.5], [True, False]), ([[0.5]], [[True]])):
        with pytest.raises(ValueError, match="pass one value of each per prediction"):
            expected_calibration_error(confidence, correct)
    for confidence, correct in (([1.5], [True]), ([float("nan")], [True]), ([-0.1], [True]), ([0.5], [2])):
        with pytest.raises(ValueError, match="must be between 0 and 1"):
            expected_calibration_error(confidence, correct)
    with pytest.raises(ValueError, match="bins is 0; must be at least 1"):
        expected_calibration_error([0.5], [True], bins=0)
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(ValueError, match=r"matplotlib: pip install 'weft\[plots\]'"):
        plot_reliability_diagram([0.5], [True], tmp_path / "r.png")
