"""Shared helpers of the plots."""

from __future__ import annotations

import numpy as np
import pytest

from weft.inspect.plotting import MAX_POINTS, compact_count, finite_points, new_figure, printable, set_log_scale, smooth, thin


def test_smoothing_is_a_moving_average_that_is_shorter_at_the_start():
    y = np.random.default_rng(0).normal(size=301)
    smoothed = smooth(y)
    assert smoothed[0] == pytest.approx(y[0])
    assert smoothed[150] == pytest.approx(y[144:157].mean())
    assert smoothed[300] == pytest.approx(y[294:].mean())
    assert smooth(np.arange(200.0))[:100] == pytest.approx(np.arange(100.0))


def test_thinning_keeps_short_curves_and_the_ends_of_long_ones():
    x = np.arange(10.0)
    assert np.array_equal(thin(x, x * 2)[1], x * 2)
    x = np.arange(50_000.0)
    kept, values = thin(x, -x)
    assert len(kept) == MAX_POINTS and (kept[0], kept[-1]) == (0, 49_999) and np.array_equal(values, -kept)
    assert np.ptp(np.diff(kept)) <= 1  # evenly spaced


def test_points_without_a_finite_value_are_dropped():
    x, y = finite_points([(1, 2.0), (2, None), (3, float("nan")), (4, float("inf")), (5, 0)])
    assert x.tolist() == [1, 5] and y.tolist() == [2, 0]


@pytest.mark.parametrize(
    ("values", "log"), [([1, 10.1], True), ([1, 10], False), ([0, 100], False), ([-1, 100], False), ([], False), ([3], False)]
)
def test_the_axis_is_logarithmic_if_positive_values_span_more_than_a_factor_of_ten(values, log):
    axes = new_figure().add_subplot()
    assert set_log_scale(axes, np.array(values, np.float64)) is log
    assert axes.get_yscale() == ("log" if log else "linear")


def test_control_characters_are_shown_by_code_point_and_long_texts_truncated():
    assert printable("a\u202eb\n", 20) == "aU+202EbU+000A"
    assert printable("漢字 ok", 5) == "漢字 ok" and printable("漢字 okay", 5) == "漢字 o…"


def test_counts_have_few_digits():
    assert [compact_count(n) for n in (0, 9_999, 10_000, 1_234_567)] == ["0", "9,999", "10k", "1,235k"]
