"""Random compositions of the catalog are accepted, or refused with a located message; never with a traceback."""

from __future__ import annotations

import pytest
from benchmarks.compositions import Tally, case, judge

from weft.core.registry import CATALOG


@pytest.mark.parametrize("part", range(4))
def test_the_check_accepts_or_locates_the_problem(part):
    """``python -m benchmarks.compositions --cases 2000 --seed 1`` tries more."""
    tally = Tally()
    for number in range(10 * part, 10 * part + 10):
        tally.add(number, seed=2)
    assert not tally.counts["traceback"] and not tally.counts["unlocated"], tally.faults
    assert tally.counts["valid"] + tally.counts["refused"] + tally.counts["stopped"] == 10
    assert tally.counts["valid"]


def test_cases_are_reproducible_and_differ():
    assert case(7, seed=1) == case(7, seed=1) != case(9, seed=1)
    assert len({str(case(number, seed=1)["structure"]) for number in range(20)}) > 15


def test_a_part_that_crashes_is_a_traceback(monkeypatch):
    recipe = {
        "data": {"type": "dates"},
        "structure": {"type": "seq2seq", "dim": 8},
        "objective": "next-token",
        "learning": {"type": "gradient", "steps": 1, "batch_tokens": 100},
    }
    assert judge(recipe) == ("valid", "")
    refused = recipe | {"structure": {"type": "seq2seq", "dim": 0}}
    assert judge(refused)[0] == "refused" and "structure.dim" in judge(refused)[1]
    tokens = next(
        cls for slot, parts in CATALOG.items() if slot.__name__ == "Embedder" for name, cls in parts.items() if name == "token"
    )
    monkeypatch.setattr(tokens, "forward", lambda *_: 1 / 0)
    outcome, detail = judge(recipe)
    assert outcome == "traceback" and "ZeroDivisionError" in detail
