"""Every encoder x decoder x objective: what check accepts trains, what it refuses raises."""

from __future__ import annotations

import pytest
from benchmarks.combinations import accepted, combinations, raises, trains

ALL = list(combinations())


def test_there_are_both_kinds():
    some = ALL[::8]
    verdicts = [accepted(c) for c in some]
    assert len(ALL) > 3000
    assert 20 < sum(verdicts) < len(some) - 50


@pytest.mark.parametrize("part", range(8))
def test_accepted_trains_and_refused_raises(part):
    """One in seven of them; ``python -m benchmarks.combinations`` tries all."""
    wrong = []
    for combination in ALL[part::56]:
        if accepted(combination):
            if trouble := trains(combination):
                wrong.append(f"{combination.title}: {trouble}")
        elif not raises(combination):
            wrong.append(f"{combination.title}: refused, but with checking off it works")
    assert not wrong, "\n".join(wrong)
