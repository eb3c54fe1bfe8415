"""Every encoder x decoder x objective: what check accepts trains, what it refuses raises."""

from __future__ import annotations

import random

import pytest
from benchmarks.combinations import accepted, combinations, raises, trains

ALL = list(combinations())
SAMPLE = random.Random(0).sample(ALL, 2000)


def test_there_are_thousands_and_every_objective_is_sampled():
    assert len(ALL) > 20_000
    assert {c.objective for c in SAMPLE} == {c.objective for c in ALL}
    assert {c.data for c in SAMPLE} == {c.data for c in ALL}


@pytest.mark.parametrize("part", range(8))
def test_accepted_trains_and_refused_raises(part):
    """``python -m benchmarks.combinations`` tries all."""
    wrong, verdicts = [], []
    for combination in SAMPLE[part::8]:
        verdicts.append(accepted(combination))
        if verdicts[-1]:
            if problem := trains(combination):
                wrong.append(f"{combination.title}: {problem}")
        elif not raises(combination):
            wrong.append(f"{combination.title}: refused, but with checking off it works")
    assert not wrong, "\n".join(wrong)
    assert 0 < sum(verdicts) < len(verdicts) - 50, "a part has combinations of both kinds"
