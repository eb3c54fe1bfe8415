"""Which tests are slow and which are long, by the seconds that they took when they were last measured.

``make durations`` measures all tests. The quickest that together fit into ``FAST`` are fast; the others are written, with their
seconds, to durations.json. ``make test-fast`` runs the fast ones, ``make test`` also the slow ones that fit into ``STANDARD``,
and ``make test-long`` the rest, the long ones. A test that is not in the file, such as a new one, counts as fast until the next
recording.
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
FAST = 110.0
"""Seconds that the fast tests may take in one process: with two, and the start of both, ``make test-fast`` ends within 90."""
STANDARD = 560.0
"""The same for all but the long tests: with two processes, set-up, types and documentation, ``make test`` ends within 600."""


def key(nodeid: str) -> str:
    """Return what identifies a test in the file: the name of its file, without folders, and of the test."""
    path, _, name = nodeid.partition("::")
    return f"{path.rpartition('/')[2]}::{name}"


def read(file: Path = FILE) -> dict[str, float]:
    """Return the recorded seconds of the slow tests; none where nothing was recorded."""
    return json.loads(file.read_text()) if file.exists() else {}


def mark(items: Iterable[pytest.Item], file: Path = FILE, standard: float = STANDARD - FAST) -> None:
    """Mark the tests in the file as slow, and those that do not fit into ``standard`` seconds also as long."""
    recorded = read(file)
    long = slow_tests(recorded, {}, {}, standard)
    for item in items:
        if key(item.nodeid) in recorded:
            item.add_marker(pytest.mark.slow)
        if key(item.nodeid) in long:
            item.add_marker(pytest.mark.long)


def slow_tests(
    seconds: Mapping[str, float], shared: Mapping[str, float], uses: Mapping[str, Iterable[str]], budget: float = FAST
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
    """Measures tests and the fixtures that they share, and writes the slow tests at the end.

    With pytest-xdist, every worker measures its tests and the main process writes those of all.
    """

    def __init__(self, file: Path = FILE, budget: float = FAST, clock: Callable[[], float] = time.perf_counter):
        self.file, self.budget, self.clock = file, budget, clock
        self.seconds: dict[str, float] = {}
        self.shared: dict[str, float] = {}
        self.uses: dict[str, Iterable[str]] = {}
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
            self.seconds[item.nodeid] = self.clock() - before - self._setting_up
            self.uses[item.nodeid] = set(_shared_fixtures(item))

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any) -> None:
        """Add what a worker has measured."""
        seconds, shared, uses = node.workeroutput["durations"]
        self.seconds |= seconds
        self.uses |= uses
        for name, taken in shared.items():
            self.shared[name] = max(taken, self.shared.get(name, 0.0))

    def pytest_sessionfinish(self, session: Any, exitstatus: int) -> None:
        output = getattr(session.config, "workeroutput", None)
        if output is not None:
            output["durations"] = (self.seconds, self.shared, {test: sorted(names) for test, names in self.uses.items()})
        elif exitstatus == 0:
            found = slow_tests(self.seconds, self.shared, self.uses, self.budget)
            self.file.write_text(json.dumps(found, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


def _name(fixturedef: Any) -> str:
    return f"{fixturedef.baseid}::{fixturedef.argname}"


def _shared_fixtures(item: Any) -> Iterator[str]:
    """The fixtures of a wider scope that a test asked for by name: what every test has (``_...``) makes none of them slow."""
    for name, found in item._fixtureinfo.name2fixturedefs.items():
        if found[-1].scope != "function" and not name.startswith("_") and found[-1].baseid:
            yield _name(found[-1])
