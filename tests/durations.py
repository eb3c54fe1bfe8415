"""Which tests are slow: those marked so by hand, and the longest of the others.

``make durations`` measures all tests. The quickest that together fit into ``BUDGET`` are fast; the others are written, with their
seconds, to durations.json, and ``make test-fast`` leaves them out. A test that is not in the file, such as a new one, counts as
fast until the next recording.
"""

from __future__ import annotations

import itertools
import json
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

FILE = Path(__file__).with_name("durations.json")
BUDGET = 120.0
"""Seconds that the fast tests may take in one process: with two, and the start of both, ``make test-fast`` ends within 90."""


def key(nodeid: str) -> str:
    """Return what identifies a test in the file: the name of its file, without folders, and of the test."""
    path, _, name = nodeid.partition("::")
    return f"{path.rpartition('/')[2]}::{name}"


def read(file: Path = FILE) -> dict[str, float]:
    """Return the recorded seconds of the slow tests; none where nothing was recorded."""
    return json.loads(file.read_text()) if file.exists() else {}


def mark_slow(items: Iterable[pytest.Item], file: Path = FILE) -> None:
    """Mark the tests that are in the file."""
    recorded = read(file)
    for item in items:
        if key(item.nodeid) in recorded:
            item.add_marker(pytest.mark.slow)


def slow_tests(
    seconds: Mapping[str, float], shared: Mapping[str, float], uses: Mapping[str, Iterable[str]], budget: float = BUDGET
) -> dict[str, float]:
    """Return the tests that do not fit into the budget, slowest first.

    Args:
        seconds: Of each test, without the fixtures that it shares with others.
        shared: Seconds of those fixtures.
        uses: The shared fixtures of each test. Whichever test runs first pays for them, so they count for all.
        budget: Seconds that all other tests take together.
    """
    whole = {test: own + sum(shared[name] for name in uses.get(test, ())) for test, own in seconds.items()}
    quickest_first = sorted(whole, key=lambda test: (whole[test], test))
    spent = itertools.accumulate(whole[test] for test in quickest_first)
    slow = [test for test, total in zip(quickest_first, spent, strict=True) if total > budget]
    return {key(test): round(whole[test], 2) for test in reversed(slow)}


class Recorder:
    """Measures tests and the fixtures that they share, in one process, and writes the slow tests at the end."""

    def __init__(self, file: Path = FILE, budget: float = BUDGET, clock: Callable[[], float] = time.perf_counter):
        self.file, self.budget, self.clock = file, budget, clock
        self.seconds: dict[str, float] = {}
        self.shared: dict[str, float] = {}
        self.uses: dict[str, set[str]] = {}
        self._setting_up = 0.0

    @pytest.hookimpl(wrapper=True)
    def pytest_fixture_setup(self, fixturedef: Any) -> Iterator[Any]:
        before, inner = self.clock(), self._setting_up
        try:
            return (yield)
        finally:
            if fixturedef.scope != "function":
                # without the shared fixtures that this one asked for while it was set up
                taken = self.clock() - before - (self._setting_up - inner)
                self.shared[_name(fixturedef)] = max(taken, self.shared.get(_name(fixturedef), 0.0))
                self._setting_up += taken

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[Any]:
        before, self._setting_up = self.clock(), 0.0
        try:
            return (yield)
        finally:
            if item.get_closest_marker("slow") is None:
                self.seconds[item.nodeid] = self.clock() - before - self._setting_up
                self.uses[item.nodeid] = set(_shared_fixtures(item))

    def pytest_sessionfinish(self, exitstatus: int) -> None:
        if exitstatus == 0:
            found = slow_tests(self.seconds, self.shared, self.uses, self.budget)
            self.file.write_text(json.dumps(found, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


def _name(fixturedef: Any) -> str:
    return f"{fixturedef.baseid}::{fixturedef.argname}"


def _shared_fixtures(item: Any) -> Iterator[str]:
    """The fixtures of a wider scope that a test asked for by name: what every test has (``_...``) makes none of them slow."""
    for name, found in item._fixtureinfo.name2fixturedefs.items():
        if found[-1].scope != "function" and not name.startswith("_") and found[-1].baseid:
            yield _name(found[-1])
