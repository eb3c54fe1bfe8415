"""The lock files: exact, complete, and within the ranges of pyproject.toml."""

from __future__ import annotations

import re
import sys
import tomllib
from importlib.metadata import PackageNotFoundError, distribution, version
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from tools import lock

ROOT = Path(__file__).resolve().parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())


def pinned(name: str) -> dict[str, str]:
    lines = [line for line in (lock.FOLDER / f"{name}.lock").read_text().splitlines() if not line.startswith("#")]
    return dict(line.split("==") for line in lines)


@pytest.mark.parametrize("name", lock.SETS)
def test_every_line_is_a_name_and_an_exact_version(name: str) -> None:
    head, *lines = (lock.FOLDER / f"{name}.lock").read_text().splitlines()
    assert head.startswith("# ") and "make lock" in head
    names = [line.partition("==")[0] for line in lines]
    assert names == sorted(set(names))
    for line in lines:  # no address of an index or a folder, no local version
        assert re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*==[0-9][0-9a-z.]*", line), line


@pytest.mark.parametrize("name", lock.SETS)
def test_direct_requirements_are_locked_within_their_ranges(name: str) -> None:
    found = pinned(name)
    for requirement in map(Requirement, lock.requirements(PROJECT, lock.SETS[name])):
        each = lock.normalize(requirement.name)
        assert each in found, f"{requirement} is not in {name}.lock; run: make lock"
        assert found[each] in requirement.specifier, f"{each} is {found[each]} in {name}.lock, not {requirement}; run: make lock"


def test_the_core_is_locked_at_the_versions_of_development() -> None:
    assert pinned("core").items() < pinned("dev").items()
    assert f"torch=={pinned('dev')['torch']}" in lock.CONSTRAINTS.read_text().splitlines()


def test_packages_of_files_are_locked_without_what_they_require() -> None:
    (model,) = map(Requirement, lock.FILES_ONLY["dev"])
    assert pinned("dev")[model.name] in model.specifier and not {"llm", "llama-cpp-python"} & pinned("dev").keys()


@pytest.mark.parametrize("name", lock.SETS)
def test_transitive_requirements_are_locked(name: str) -> None:
    found = pinned(name)
    made_for = f"Python {sys.version_info.major}.{sys.version_info.minor}, {sys.platform}"
    if made_for not in (lock.FOLDER / f"{name}.lock").read_text():
        pytest.skip(f"the lock files were not made for {made_for}")
    if other := [each for each in found if _installed(each) != found[each]]:
        pytest.skip(f"this environment is not the locked one: {', '.join(other)}; run: make setup-dev")
    assert [each for each in _needed(lock.requirements(PROJECT, lock.SETS[name])) if each not in found] == []


def _installed(name: str) -> str:
    try:
        return version(name).partition("+")[0]
    except PackageNotFoundError:
        return "not installed"


def _needed(wanted: list[str]) -> set[str]:
    """The distributions that these requirements need here, directly or not, by the metadata of what is installed."""
    waiting, seen = [Requirement(text) for text in wanted], set()
    while waiting:
        requirement = waiting.pop()
        name, extras = lock.normalize(requirement.name), ("", *requirement.extras)
        if (name, extras) in seen:
            continue
        seen.add((name, extras))
        for inner in map(Requirement, distribution(name).requires or []):
            if inner.marker is None or any(inner.marker.evaluate({"extra": extra}) for extra in extras):
                waiting.append(inner)
    return {name for name, _ in seen}


def test_a_report_of_pip_becomes_pins() -> None:
    entries = [{"name": "Ruamel.YAML", "version": "0.19.1"}, {"name": "torch", "version": "2.13.0+cpu"}]
    found = lock.pins({"install": [{"metadata": entry} for entry in entries]})
    assert found == {"ruamel-yaml": "0.19.1", "torch": "2.13.0"}
    assert lock.text(found, ["a", "b"]).splitlines()[1:] == ["ruamel-yaml==0.19.1", "torch==2.13.0"]


def test_references_to_own_extras_are_resolved_once() -> None:
    extras = {"x": ["b", "some-thing[y, z]"], "y": ["c", "some_thing[x]"], "z": ["d[more]>2"]}
    project = {
        "project": {"name": "Some.Thing", "dependencies": ["a>=1"], "optional-dependencies": extras},
        "build-system": {"requires": ["builder"]},
    }
    assert lock.requirements(project, ["x"]) == ["a>=1", "b", "c", "d[more]>2", "builder", *lock.EDITABLE]
