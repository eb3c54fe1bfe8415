"""SIGKILL at random moments, from another process: what benchmarks/kills.py counts, in small."""

from __future__ import annotations

import pytest
from benchmarks.kills import RECIPES, Kills
from tests.forked import Forked


@pytest.fixture(scope="module", params=RECIPES)
def killing(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Kills:
    return Kills(request.param, tmp_path_factory.mktemp("kills"), Forked, steps=14)


def test_runs_that_are_killed_once_end_bit_identical(killing: Kills):
    outcomes = list(killing.one_each(2))
    assert [outcome.equal for outcome in outcomes] == [True] * 2
    assert any(death.inside for outcome in outcomes for death in outcome.deaths)


def test_a_run_that_is_killed_again_and_again_ends_bit_identical(killing: Kills):
    outcome = killing.all_on_one(3)
    assert outcome.equal
    assert len(outcome.deaths) == 3
