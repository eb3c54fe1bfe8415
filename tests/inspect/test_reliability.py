from __future__ import annotations

import sys

import numpy as np
import pytest

from weft.inspect.reliability import binned, calibration_error, reliability


@pytest.fixture
def drawn(monkeypatch):
    """The figures that were saved."""
    metric_values = []
    from matplotlib.figure import Figure

    save = Figure.savefig
    monkeypatch.setattr(Figure, "savefig", lambda self, *a, **k: (metric_values.append(self), save(self, *a, **k))[1])
    return metric_values


def test_calibration_error_by_hand():
    # Bins of a half: {0.2, 0.5} with 1 of 2 right, and {0.6, 0.9, 1.0} with 1 of 3 right.
    confidence, right = [0.2, 0.6, 0.9, 0.5, 1.0], [True, False, True, False, False]
    expected = 2 / 5 * abs(1 / 2 - 0.35) + 3 / 5 * abs(1 / 3 - 2.5 / 3)
    assert calibration_error(confidence, right, bins=2) == pytest.approx(expected)
    assert calibration_error(confidence, right, bins=1) == pytest.approx(abs(0.64 - 0.4))


@pytest.mark.parametrize("bins", [1, 7, 10, 15])
def test_calibration_error_row_by_row(bins):
    rng = np.random.default_rng(bins)
    confidence = np.concatenate([rng.random(300), [0.0, 1.0, 0.5]])
    right = rng.random(303) < confidence**2
    total = 0.0
    for b in range(bins):
        inside = [i for i, p in enumerate(confidence) if b / bins < p <= (b + 1) / bins or (b == 0 and p == 0)]
        if inside:
            total += abs(sum(right[i] for i in inside) - sum(confidence[i] for i in inside)) / len(confidence)
    assert calibration_error(confidence, right, bins) == pytest.approx(total)


def test_a_calibrated_model_has_no_error_but_chance():
    rng = np.random.default_rng(0)
    confidence = rng.random(200_000)
    assert calibration_error(confidence, rng.random(200_000) < confidence) < 0.01
    assert calibration_error(confidence, rng.random(200_000) < confidence / 2) == pytest.approx(0.25, abs=0.01)
    assert calibration_error([1.0, 1.0], [True, True]) == 0 and calibration_error([1.0], [False]) == 1


def test_bins_keep_all_rows():
    rng = np.random.default_rng(0)
    confidence, right = rng.random(100), rng.random(100) < 0.5
    found = binned(confidence, right, 6)
    assert found.count.sum() == 100 and len(found.edges) == 7
    assert (found.count * found.confidence).sum() == pytest.approx(confidence.sum())
    assert (found.count * found.right).sum() == pytest.approx(right.sum())


def test_picture(tmp_path, drawn):
    confidence, right = [0.95, 0.95, 0.55, 0.15], [True, False, True, False]
    file = reliability(confidence, right, tmp_path / "new" / "r.png", "$x_1$", bins=10)
    assert file.read_bytes().startswith(b"\x89PNG")
    [figure] = drawn
    upper, lower = figure.axes
    assert figure.get_suptitle() == "$x_1$"
    error = 100 * calibration_error(confidence, right)
    assert upper.get_title(loc="left").startswith(f"expected calibration error {error:.1f} %")
    assert [t.get_text() for t in figure.legends[0].get_texts()] == [
        "as right as confident",
        "share right",
        "too confident",
        "not confident enough",
    ]
    shares, over, under = upper.containers
    assert [bar.get_height() for bar in shares] == pytest.approx([0, 1, 0.5])
    assert [(bar.get_y(), bar.get_height()) for bar in over] == [pytest.approx((0, 0.15)), pytest.approx((0.5, 0.45))]
    assert [(bar.get_y(), bar.get_height()) for bar in under] == [pytest.approx((0.55, 0.45))]
    assert [t.get_text() for t in lower.texts] == ["1", "1", "2"]


def test_errors(tmp_path, monkeypatch):
    for confidence, right in (([], []), ([0.5], [True, False]), ([[0.5]], [[True]])):
        with pytest.raises(ValueError, match="one number each"):
            calibration_error(confidence, right)
    for confidence, right in (([1.5], [True]), ([float("nan")], [True]), ([-0.1], [True]), ([0.5], [2])):
        with pytest.raises(ValueError, match="must lie between 0 and 1"):
            calibration_error(confidence, right)
    with pytest.raises(ValueError, match="bins is 0"):
        calibration_error([0.5], [True], bins=0)
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(ValueError, match=r"matplotlib: pip install 'weft\[plots\]'"):
        reliability([0.5], [True], tmp_path / "r.png")
