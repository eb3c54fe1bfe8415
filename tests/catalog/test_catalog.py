"""Every registered block, put through the checks of its slot, as it is and with each of its options changed."""

from __future__ import annotations

import functools
import itertools
from functools import partial
from typing import Any

import pytest

from weft.core import contracts as slots
from weft.core.fields import Info
from weft.core.registry import CATALOG, is_composition
from weft.objectives import Classification, NextToken

from . import bench, checks

BROKEN = bench.fill_catalog()

SAMPLES: dict[tuple[type, str], dict[str, Any]] = {
    (slots.Objective, "weighted"): {"parts": {"lm": NextToken, "class": Classification}, "weights": {"lm": 0.5}},
    (slots.Score, "location"): {"length": 24},
    (slots.Backbone, "feature-pyramid"): {},
}
"""Options for blocks that cannot be built without them."""

EQUIVARIANT: list[tuple[str, dict[str, Any]]] = [("bag-of-words", {}), ("transformer", {"position": None})]
"""Encoders for which permuted inputs give permuted outputs."""

INVARIANT = ["mean", "max", "concat"]
"""Poolers for which the order of positions does not matter."""

PAGES = {"check_registration", "check_vocabulary", "check_defaults", "check_docstring", "check_example"}
"""Static checks: they inspect the registered class or function itself."""

ONCE = PAGES | {"check_recipe", "check_deepcopy", "check_seed", "check_bfloat16", "check_dropout"}
"""Checks that are not repeated for every option."""


@functools.cache
def subject(slot: type, name: str, factory: Any) -> Any:
    given = SAMPLES.get((slot, name))
    return bench.tiny(factory, given) if given else bench.small(factory)


def blocks() -> list[Any]:
    return [
        pytest.param(slot, name, factory, check, id=f"{slot.__name__}-{name}-{check.__name__.removeprefix('check_')}")
        for slot, name, factory in bench.entries()
        for check in checks.checks_for(subject(slot, name, factory))
        if check.__name__ in PAGES or not _is_size(slot, factory)
    ]


def _is_size(slot: type, factory: Any) -> bool:
    """Whether it is a named size of an image network: the network itself is tested, the size in tests/models/zoo."""
    return slot is slots.Backbone and is_composition(factory)


def varied() -> list[Any]:
    """Every variation that can be built. What a block refuses with a ValueError it may refuse."""
    return [
        pytest.param(slot, name, changed, id=f"{slot.__name__}-{name}[{what}]")
        for slot, name, factory in bench.entries()
        if slot in checks.MODULES and slot is not slots.Objective and not is_composition(factory)
        for what, changed in bench.variations(subject(slot, name, factory))
        if bench.accepts(changed, [case.label for case in bench.cases(subject(slot, name, factory))])
    ]


@functools.cache
def by_abilities(name: str) -> dict[frozenset[str], tuple[str, Any]]:
    """A structure, and its variations that provide something else, by what they provide; of one layer."""
    plain = bench.shallow(CATALOG[slots.Structure][name])
    found = {bench.abilities(plain): (name, plain)}
    for what, changed in bench.ability_variations(plain):
        found.setdefault(bench.abilities(changed), (f"{name}[{what}]", changed))
    return found


def test_every_module_can_be_imported() -> None:
    assert not BROKEN


@pytest.mark.parametrize("slot", list(CATALOG), ids=lambda s: s.__name__)
def test_slot_is_covered(slot: type) -> None:
    """A new slot needs checks of its own, or an entry in the list of those tested elsewhere."""
    assert slot in checks.MODULES or slot.__name__ in bench.OWN_TESTS


@pytest.mark.parametrize(("slot", "name", "factory", "check"), blocks())
def test_block(slot: type, name: str, factory: Any, check: checks.Check) -> None:
    check(factory if check.__name__ in PAGES else subject(slot, name, factory))


def test_variation(slot: type, name: str, factory: Any) -> None:
    """All that a block computes, with one option changed."""
    for check in checks.checks_for(factory):
        if check.__name__ not in ONCE:
            check(factory)
    if slot is slots.Structure:
        assert bench.abilities(factory) in by_abilities(name), "it provides what test_pair does not try: bench.ability_variations"


@pytest.mark.parametrize(("name", "options"), EQUIVARIANT)
def test_equivariance(name: str, options: dict[str, Any]) -> None:
    checks.check_permutation(partial(CATALOG[slots.Encoder][name], **options))


@pytest.mark.parametrize("name", INVARIANT)
def test_invariance(name: str) -> None:
    checks.check_invariance(CATALOG[slots.Pooler][name])


def pairs() -> list[Any]:
    """Every structure (and its variations that provide something else) with every objective, on every kind of data."""
    names = [name for slot, name, _ in bench.entries() if slot is slots.Structure]
    structures = [found for name in names for found in by_abilities(name).values()]
    objectives = [(n, subject(s, n, f)) for s, n, f in bench.entries() if s is slots.Objective]
    return [
        pytest.param(structure, objective, info, id=f"{model}-{goal}-{data}")
        for (model, structure), (goal, objective), (data, info) in itertools.product(structures, objectives, bench.INFOS.items())
        if bench.fits(structure, objective, data)
    ]


def test_pair(structure: Any, objective: Any, info: Info) -> None:
    """A structure under an objective: counts, a loss that is a sum, a gradient, and the meta device."""
    checks.check_pair(structure, objective, info)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """List variations and pairs, unless slow tests are left out: each is built once to know whether it fits."""
    listed = {"test_variation": (("slot", "name", "factory"), varied), "test_pair": (("structure", "objective", "info"), pairs)}
    if metafunc.function.__name__ in listed:
        names, function = listed[metafunc.function.__name__]
        metafunc.parametrize(names, [] if metafunc.config.getoption("markexpr") == "not slow" else function())
