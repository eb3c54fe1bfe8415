"""Presets: named sets of overrides in a recipe."""

from __future__ import annotations

import pytest

PRESETS = """
presets:
  paper: {learning.steps: 7000, "learning.optimizer": {type: sgd, lr: 0.5}, seed: 9}
  test:
    learning.steps: 3
"""


@pytest.fixture
def recipe(small: str) -> str:
    return small + PRESETS


def test_a_preset_is_applied_if_requested(read, recipe: str, small: str) -> None:
    plain = read(small).dump()
    assert read(recipe).dump() == plain
    paper = read(recipe, ["preset=paper"]).dump()
    assert (paper["learning"]["steps"], paper["seed"], paper["learning"]["optimizer"]["type"]) == (7000, 9, "sgd")
    assert read(recipe, ["preset=test"]).dump() == {**plain, "learning": {**plain["learning"], "steps": 3}}
    assert "presets" not in paper


@pytest.mark.parametrize("order", [("preset=paper", "seed=4"), ("seed=4", " preset = paper")])
def test_other_overrides_take_precedence_in_any_order(read, recipe: str, order: tuple[str, str]) -> None:
    dump = read(recipe, order).dump()
    assert (dump["seed"], dump["learning"]["steps"]) == (4, 7000)


def test_an_unknown_preset_is_an_error(errors_of, recipe: str, small: str) -> None:
    assert errors_of(recipe, ["preset=papers"]) == [
        "command line: preset: the recipe has no preset 'papers' (it has: paper, test); did you mean 'paper'?"
    ]
    assert errors_of(small, ["preset=paper"]) == ["command line: preset: the recipe has no preset 'paper' (it has none)"]
    assert errors_of(recipe, ["preset=paper", "preset=test"]) == [
        "command line: preset: 2 presets requested; at most one is allowed"
    ]


@pytest.mark.parametrize(
    ("presets", "path"),
    [
        ("presets: [paper]", "presets"),
        ("presets: {cpu: {}, paper: 3}", "presets.paper"),
        ("presets:\n  paper: [seed=3]", "presets.paper"),
        ("presets: {paper: null}", "presets.paper"),
    ],
)
def test_presets_are_checked_even_if_not_requested(errors_of, small: str, presets: str, path: str) -> None:
    (told,) = errors_of(small + "\n" + presets)
    assert told.endswith(f" {path}: a preset is a mapping of changes, as in presets: {{small: {{learning.steps: 100}}}}")


def test_an_error_in_a_preset_is_located_at_its_line(read, errors_of, small: str) -> None:
    lines = len(small.rstrip("\n").split("\n"))
    text = small.rstrip("\n") + "\npresets:\n  a: {learning.stesp: 3}\n  b:\n    learning.steps.x: 3\n"
    read(text)  # what is not asked for is not looked into
    (told,) = errors_of(text, ["preset=a"])
    assert f":{lines + 2}: learning.stesp" in told and "did you mean 'steps'?" in told
    (told,) = errors_of(text, ["preset=b"])
    assert f":{lines + 4}: learning.steps: cannot set an option below the scalar" in told
