"""Learning-rate schedules: formulas, bounds, warmup, no state."""

from __future__ import annotations

import itertools
import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from weft.learning.schedules import ConstantSchedule, CosineSchedule, LinearSchedule, NoamSchedule, SlantedTriangularSchedule

SCHEDULES = (ConstantSchedule, LinearSchedule, CosineSchedule, NoamSchedule, SlantedTriangularSchedule)


def factors(schedule, updates):
    return [schedule.factor(t, updates) for t in range(updates)]


@settings(deadline=None)
@given(st.sampled_from(SCHEDULES), st.integers(1, 300), st.integers(1, 300), st.integers(0, 600))
def test_within_bounds_and_pure(kind, updates, warmup, update):
    schedule = kind(warmup=warmup)
    first = schedule.factor(update, updates)
    assert 0 <= first <= 1
    factors(schedule, updates)
    assert schedule.factor(update, updates) == first == kind(warmup=warmup).factor(update, updates)


@settings(deadline=None)
@given(st.sampled_from(SCHEDULES), st.integers(1, 100), st.integers(1, 100))
def test_the_factor_rises_to_one_and_then_never_again(kind, updates, warmup):
    values = factors(kind(warmup=warmup), updates)
    # The slanted triangle begins to count at 0, so that its top comes one update later.
    top = warmup if kind is SlantedTriangularSchedule else warmup - 1
    assert values[: top + 1] == sorted(values[: top + 1])
    if top < updates:
        assert values[top] == 1
        assert values[top:] == sorted(values[top:], reverse=True)
    else:  # a warm-up longer than the run keeps rising
        assert values[-1] < 1 and len(set(values)) == updates


@settings(deadline=None)
@given(st.sampled_from((ConstantSchedule, LinearSchedule, CosineSchedule)), st.integers(1, 100))
def test_without_warmup_the_first_factor_is_one(kind, updates):
    assert kind().factor(0, updates) == 1


@pytest.mark.parametrize("kind", (ConstantSchedule, LinearSchedule, CosineSchedule, NoamSchedule))
def test_warmup_is_linear(kind):
    assert factors(kind(warmup=8), 40)[:8] == pytest.approx([t / 8 for t in range(1, 9)])


@settings(deadline=None)
@given(st.sampled_from((LinearSchedule, CosineSchedule)), st.integers(2, 200), st.integers(0, 50), st.floats(0, 1))
def test_the_factor_decays_to_min_factor(kind, updates, warmup, floor):
    schedule = kind(warmup=warmup, min_factor=floor)
    assert schedule.factor(max(updates, warmup), updates) == pytest.approx(floor)
    assert schedule.factor(max(updates, warmup) + 1000, updates) == pytest.approx(floor)
    if warmup < updates and floor < 0.9:  # the last update is not wasted on the floor
        assert schedule.factor(updates - 1, updates) > floor


def test_linear_last_value_and_equal_steps():
    values = factors(LinearSchedule(warmup=5, min_factor=0.1), 44)
    steps = [a - b for a, b in itertools.pairwise(values[4:])]
    assert steps == pytest.approx([0.9 / 40] * 39)
    assert values[-1] == pytest.approx(0.1 + 0.9 / 40)


@pytest.mark.parametrize("floor", [0.0, 0.2])
def test_cosine_equals_torch(floor):
    weight = torch.nn.Parameter(torch.zeros(1))
    optimizer = torch.optim.SGD([weight], lr=1.0)
    reference = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=30, eta_min=floor)
    for t in range(30):
        assert CosineSchedule(min_factor=floor).factor(t, 30) == pytest.approx(reference.get_last_lr()[0], abs=1e-9)
        optimizer.step()
        reference.step()


@settings(deadline=None)
@given(st.integers(1, 5000), st.integers(1, 2048), st.integers(0, 20000))
def test_noam_equals_the_formula_of_the_paper(warmup, dim, update):
    step = update + 1
    paper = dim**-0.5 * min(step**-0.5, step * warmup**-1.5)
    assert (dim * warmup) ** -0.5 * NoamSchedule(warmup=warmup).factor(update, 1) == pytest.approx(paper, rel=1e-9)


@settings(deadline=None)
@given(st.integers(1, 30), st.sampled_from([(0.1, 10), (0.25, 4), (0.5, 2)]), st.floats(1, 100))
def test_slanted_triangular_equals_the_formula_of_the_paper(tens, cut_and_parts, ratio):
    fraction, parts = cut_and_parts
    updates = tens * parts  # so that updates * cut is whole
    cut = math.floor(updates * fraction)
    for t in range(updates):
        p = t / cut if t < cut else 1 - (t - cut) / (cut * (1 / fraction - 1))
        paper = (1 + p * (ratio - 1)) / ratio
        assert SlantedTriangularSchedule(cut_fraction=fraction, ratio=ratio).factor(t, updates) == pytest.approx(
            paper, rel=1e-9, abs=1e-12
        )


@settings(deadline=None)
@given(st.integers(1, 60), st.floats(0, 1), st.floats(1, 100))
def test_slanted_triangular_stays_within_its_range(updates, cut, ratio):
    values = factors(SlantedTriangularSchedule(cut_fraction=cut, ratio=ratio), updates + 5)
    assert all(1 / ratio - 1e-9 <= value <= 1 for value in values)
    assert SlantedTriangularSchedule(cut_fraction=cut, ratio=ratio).factor(2 * updates, updates) == pytest.approx(1 / ratio)


def test_defaults_of_slanted_triangular():
    values = factors(SlantedTriangularSchedule(), 100)
    assert values[0] == pytest.approx(1 / 32) and values.index(1) == 10


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: NoamSchedule(warmup=0), "at least 1 for noam, not 0"),
        (
            lambda: ConstantSchedule(warmup=-1),
            "warmup must be a number of updates, at least 0, or a fraction of them below 1, not -1",
        ),
        (lambda: LinearSchedule(min_factor=1.5), "min_factor must be between 0 and 1, not 1.5"),
        (lambda: CosineSchedule(min_factor=-0.5), "min_factor must be between 0 and 1, not -0.5"),
        (lambda: SlantedTriangularSchedule(cut_fraction=2.0), "cut_fraction must be between 0 and 1, not 2.0"),
        (lambda: SlantedTriangularSchedule(ratio=0.5), "at least 1, not 0.5"),
    ],
)
def test_invalid_options_are_refused(make, message):
    with pytest.raises(ValueError, match=message):
        make()
