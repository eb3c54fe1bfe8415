"""The grid of a sweep: parsing of assignments and names of trials."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from weft.experiments.sweep_grid import build_trials, read_assignments, split_values
from weft.experiments.sweep_search import parse_range, random_configurations
from weft.recipe.text import parse_value


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("1,2,3", ["1", "2", "3"]),
        (" 1 , two words ", ["1", "two words"]),
        ("[1, 2],[3]", ["[1, 2]", "[3]"]),
        ("{type: adam, lr: 0.1},sgd", ["{type: adam, lr: 0.1}", "sgd"]),
        ("{a: [1, {b: 2, c: 3}], d: 4},x", ["{a: [1, {b: 2, c: 3}], d: 4}", "x"]),
        ("'a,b',\"c,d\"", ["'a,b'", '"c,d"']),
        ("'it''s, so',b", ["'it''s, so'", "b"]),
        ('"a\\",b",c', ['"a\\",b"', "c"]),
        ("it's,that's", ["it's", "that's"]),
        ("[']', 1],2", ["[']', 1]", "2"]),
        ("", [""]),
    ],
)
def test_commas_in_brackets_and_quotes_do_not_split(text: str, expected: list[str]) -> None:
    assert split_values(text) == expected


_leaf = st.integers() | st.booleans() | st.none() | st.text("ab'\",[]{}: \\#-", max_size=6)
_value = st.recursive(_leaf, lambda v: st.lists(v, max_size=3) | st.dictionaries(st.sampled_from("xyz"), v, max_size=3))


@given(st.lists(_value, min_size=1, max_size=4))
def test_json_values_are_split_and_parsed_unchanged(values: list[Any]) -> None:
    texts = [json.dumps(v) for v in values]
    assert split_values(",".join(texts)) == texts
    assert [parse_value(t, "x").plain() for t in split_values(",".join(texts))] == values


@pytest.mark.parametrize(
    ("assignments", "message"),
    [
        (["seed"], "command line: seed: an assignment of a sweep is path=v1,v2"),
        (["=1,2"], "an assignment of a sweep is path=v1,v2"),
        (["seed=1,,2"], "a value is missing between the commas of '1,,2'"),
        (["seed=1,2,"], "a value is missing"),
        (["seed=[1,2"], "a ] is missing in [1,2"),
        (["seed='1,2"], "a ' is missing"),
        (["seed=1,2", "seed=3"], "seed: is given twice; list all values in one assignment"),
        (["learning.clip=0.1,1e-1"], "learning.clip: duplicate value 0.1"),
        (["seed=1"], "a sweep needs an option with at least two values"),
        ([], "at least two values"),
        (
            [f"seed={','.join(map(str, range(40)))}", f"learning.steps={','.join(map(str, range(1, 41)))}"],
            "40 x 40 = 1,600 trials",
        ),
        ({"seed": []}, "seed: has no values"),
        (["seed=0..2000"], "seed: the range 0..2000 has more than 1,000 values"),
        (["lr=1e-5..1e-2:log"], "lr: 1e-5..1e-2:log is a range of numbers, which a grid does not have"),
        (["seed=3..1"], "seed: the range 3..1 must go from a smaller to a larger number"),
    ],
)
def test_wrong_assignments_are_errors(assignments: Any, message: str) -> None:
    with pytest.raises(ValueError) as error:
        read_assignments(assignments)
    assert message in str(error.value)


def test_every_trial_has_a_short_distinct_name() -> None:
    def names(*assignments: str) -> list[str]:
        return [trial.name for trial in build_trials(read_assignments(assignments), Path())]

    assert names("a.lr=1,2", "b.lr=3", "b.x=[1, 2],'a,b'") == ["lr=1,x=1-2", "lr=1,x=a-b", "lr=2,x=1-2", "lr=2,x=a-b"]
    assert names("a.lr=1,2", "b.lr=3,4")[0] == "a.lr=1,b.lr=3"
    assert names("lr=1,2", "b.lr=3,4")[0] == "lr=1,b.lr=3"
    assert names("x=-1,1,.5") == ["x=-1", "x=1", "x=.5"]
    alike = names("x=/a b,/a/b,/A/B,ä,ö")
    assert len(set(alike)) == 5 and all(name.isascii() and "/" not in name for name in alike)
    assert all(len(name) < 50 for name in names(f"x={'y' * 99}1,{'y' * 99}2"))
    assert names("seed=1,2", "learning.steps=5") == ["seed=1", "seed=2"]
    trials = build_trials(read_assignments(["x=[1, 2],{a: 3}", "y=7"]), Path("f"))
    assert [trial.options for trial in trials] == [{"x": [1, 2]}, {"x": {"a": 3}}]
    assert trials[1].overrides == ["x={a: 3}", "y=7"] and trials[0].folder == Path("f/x=1-2")


def test_a_range_of_integers_is_a_list() -> None:
    assert read_assignments(["data.fold=0..4", "seed=7,1..2"]) == {"data.fold": list("01234"), "seed": ["7", "1", "2"]}
    assert read_assignments(["x=a..b,1..c"])["x"] == ["a..b", "1..c"]
    searched = read_assignments(["lr=1e-5..1e-2:log", "layers=1..4", "seed=1..2"], "random")
    assert searched == {"lr": ["1e-5..1e-2:log"], "layers": ["1..4"], "seed": ["1", "2"]}
    with pytest.raises(ValueError, match="a search needs several values or a range"):
        read_assignments(["seed=1,2"], "random")
    with pytest.raises(ValueError, match="starts at 0; with :log it must start above 0"):
        read_assignments(["lr=0..1:log"], "random")


@given(st.floats(0, 1, exclude_max=True), st.integers(-9, 9), st.integers(1, 9))
def test_sampled_numbers_are_in_their_range(quantile: float, low: int, width: int) -> None:
    for text in (f"{low}..{low + width}", f"{low}.0..{low + width}.5", f"{abs(low) + 1}..{abs(low) + 1 + width}:log"):
        found = parse_range(text)
        assert found is not None and found.low <= float(found.at(quantile)) <= found.high, text
        assert not found.integer or "." not in found.at(quantile)


def test_random_configurations_are_distinct_and_spread_over_the_space() -> None:
    values = {"a": ["x", "y"], "b": ["1..3"], "seed": ["1", "2"]}
    found = list(random_configurations(values, 100))
    assert len(found) == 6 and {tuple(one.values()) for one in found} == {(a, b) for a in "xy" for b in "123"}
    logs = [math.log10(float(one["lr"])) for one in random_configurations({"lr": ["1e-6..1e-2:log"]}, 400)]
    assert abs(sum(logs) / 400 + 4) < 0.2 and min(logs) < -5.8 and max(logs) > -2.2
