"""A sample of the benchmark on mutated recipes, and tests that the benchmark detects wrong messages."""

from __future__ import annotations

import functools
from collections import Counter

import pytest
from benchmarks.mutations import KINDS, Mutant, classify, mutants, recipes, spots

from weft.recipe import Problem, RecipeError, parse


def test_every_key_is_found() -> None:
    def paths(node, path: str):
        for step, inner in node.value.items() if isinstance(node.value, dict) else enumerate(node.value):
            here = f"{path}.{step}" if path else str(step)
            yield here, inner.where
            if isinstance(inner.value, dict | list):
                yield from paths(inner, here)

    for name, text in recipes().items():
        assert {s.path: f"{name}:{s.line}" for s in spots(text)} == dict(paths(parse(text, name), ""))


def test_every_key_and_kind_is_mutated() -> None:
    made = mutants(1100, seed=1)
    assert len(made) == len({(m.recipe, m.text) for m in made}) == 1100
    assert {m.kind for m in made} == set(KINDS)
    assert len(KINDS) >= 10
    assert max(Counter(m.kind for m in made).values()) < 50
    assert mutants(1100, seed=1) == made
    assert mutants(1100, seed=2) != made


@functools.cache
def sampled() -> list[Mutant]:
    return mutants(900, seed=5)


@pytest.mark.parametrize("kind", [k for k in KINDS if k not in ("7, which divides little", "10^12", "zero", "key deleted")])
def test_errors_in_mutated_recipes_are_located(kind: str) -> None:
    """Three mutants of each kind; kinds that mostly stay valid are slow to check, and left to the benchmark."""
    chosen = [m for m in sampled() if m.kind == kind and m.recipe != "dates-filled.yaml"][:3]
    assert chosen
    for mutant in chosen:
        outcome, message = classify(mutant)
        assert outcome in ("located", "felt", "valid"), message


def mutated(path: str | None, lines: tuple[int, ...], text: str) -> Mutant:
    return Mutant("planted", "r.yaml", text, path, lines)


@pytest.mark.parametrize(
    ("where", "path", "outcome"),
    [
        ("r.yaml:5", "structure.dim", "located"),
        ("r.yaml:5", "structure.dim.x", "located"),
        ("r.yaml:6", "structure.dim", "wrong"),
        ("r.yaml", "structure.dim", "wrong"),
        ("r.yaml:6", "structure.encoder.layer.mixer", "felt"),
        ("r.yaml:5", "structure.encoder.layer.mixer", "wrong"),
        ("r.yaml:3", "structure", "felt"),
        ("r.yaml:8", "objective", "felt"),
        ("r.yaml:2", "data", "wrong"),
        ("r.yaml:2", "data.train", "wrong"),
        ("r.yaml:5", "learning.steps", "wrong"),
        ("r.yaml:5", "", "wrong"),
    ],
)
def test_a_message_at_another_location_is_detected(
    small: str, monkeypatch: pytest.MonkeyPatch, where: str, path: str, outcome: str
) -> None:
    def refuse(*_: object) -> None:
        raise RecipeError([Problem(where, path, "planted")])

    monkeypatch.setattr("benchmarks.mutations.read_run_text", refuse)
    assert classify(mutated("structure.dim", (5,), small))[0] == outcome


@pytest.mark.parametrize(("error", "outcome"), [(KeyError("x"), "traceback"), (ValueError("x"), "wrong")])
def test_other_exceptions_are_detected(small: str, monkeypatch: pytest.MonkeyPatch, error: Exception, outcome: str) -> None:
    def fail(*_: object) -> None:
        raise error

    monkeypatch.setattr("benchmarks.mutations.read_run_text", fail)
    assert classify(mutated("structure.dim", (5,), small))[0] == outcome


def test_only_lines_are_compared_if_the_text_is_not_yaml(small: str) -> None:
    text = small.replace("  dim: 16", "\tdim: 16")
    assert classify(mutated(None, (5,), text))[0] == "located"
    assert classify(mutated(None, (4,), text))[0] == "wrong"
