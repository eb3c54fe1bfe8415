"""Which tests ``make test-fast`` and ``make test`` leave out."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace

import pytest
from tests import durations


def test_a_test_is_known_by_its_file_name_wherever_the_file_is() -> None:
    assert durations.key("tests/a/test_x.py::test_y[a/b::c]") == "test_x.py::test_y[a/b::c]"


def test_the_quickest_tests_are_fast() -> None:
    seconds = {"t/test_a.py::one": 4.0, "t/test_a.py::two": 1.0, "t/test_a.py::three": 2.0, "t/test_a.py::four": 1.5}
    assert durations.slow_tests(seconds, {}, {}, budget=5.0) == {"test_a.py::one": 4.0}
    assert durations.slow_tests(seconds, {}, {}, budget=4.0) == {"test_a.py::one": 4.0, "test_a.py::three": 2.0}
    assert durations.slow_tests(seconds, {}, {}, budget=8.5) == {}


def test_shared_fixtures_count_for_every_test_that_uses_them() -> None:
    seconds = {"t/test_a.py::one": 0.1, "t/test_a.py::two": 0.2, "t/test_a.py::three": 0.1, "t/test_a.py::four": 0.3}
    uses = {"t/test_a.py::one": ["trained"], "t/test_a.py::two": ["trained", "data"], "t/test_a.py::three": ["data"]}
    assert durations.slow_tests(seconds, {"trained": 1.0, "data": 0.1}, uses, budget=0.6) == {
        "test_a.py::two": 1.3,
        "test_a.py::one": 1.1,
    }


SAMPLE = """
import pytest

@pytest.fixture(scope="module")
def data(clock):
    clock.now += 0.3

@pytest.fixture(scope="module")
def trained(clock, request):
    request.getfixturevalue("data")
    clock.now += 0.7

def test_trained(trained): ...
def test_trained_too(trained): ...
def test_data(data, clock): clock.now += 0.1
def test_long(clock): clock.now += 0.6
def test_quick(clock): clock.now += 0.2

def test_longer(clock): clock.now += 5
"""


class Clock:
    """A clock that only the tests move, and the fixture by which they do."""

    now = 0.0

    @pytest.fixture(scope="session")
    def clock(self) -> Clock:
        return self


class Selection:
    """Marks the slow and long tests of a file and keeps the names of those that ran."""

    def __init__(self, file: Path):
        self.file, self.ran = file, []

    def pytest_configure(self, config: pytest.Config) -> None:
        for name in ("slow", "long"):
            config.addinivalue_line("markers", name)

    @pytest.hookimpl(tryfirst=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        durations.mark(items, self.file, 3.0)

    def pytest_runtest_setup(self, item: pytest.Item) -> None:
        self.ran.append(item.name)


def test_what_is_recorded_is_left_out(tmp_path: Path) -> None:
    (tmp_path / "test_sample.py").write_text(SAMPLE)
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    file, clock = tmp_path / "durations.json", Clock()
    common = [str(tmp_path), "-q", f"--rootdir={tmp_path}", "-c", str(tmp_path / "pytest.ini"), "-p", "no:cacheprovider"]

    everything = Selection(file)
    code = pytest.main(common, plugins=[clock, everything, durations.Recorder(file, 0.9, lambda: clock.now)])
    assert code == 0 and len(everything.ran) == 6
    assert json.loads(file.read_text()) == {
        "test_sample.py::test_longer": 5.0,
        "test_sample.py::test_trained": 0.7,
        "test_sample.py::test_trained_too": 0.7,
        "test_sample.py::test_long": 0.6,
    }

    fast = Selection(file)
    assert pytest.main([*common, "-m", "not slow"], plugins=[clock, fast]) == 0
    assert fast.ran == ["test_data", "test_quick"]

    standard = Selection(file)
    assert pytest.main([*common, "-m", "not long"], plugins=[clock, standard]) == 0
    assert standard.ran == ["test_trained", "test_trained_too", "test_data", "test_long", "test_quick"]


def test_workers_measure_and_the_main_process_writes(tmp_path: Path) -> None:
    workers = [durations.Recorder(tmp_path / "unused.json") for _ in range(2)]
    workers[0].seconds, workers[0].shared, workers[0].uses = {"test_a.py::one": 1.0}, {"data": 2.0}, {"test_a.py::one": {"data"}}
    workers[1].seconds, workers[1].shared = {"test_a.py::two": 0.5}, {"data": 3.0}
    main = durations.Recorder(tmp_path / "durations.json", 0.6)
    for worker in workers:
        session = SimpleNamespace(config=SimpleNamespace(workeroutput={}))
        worker.pytest_sessionfinish(session, 0)
        main.pytest_testnodedown(SimpleNamespace(workeroutput=session.config.workeroutput))
    main.pytest_sessionfinish(SimpleNamespace(config=object()), 0)
    assert durations.read(main.file) == {"test_a.py::one": 4.0} and not (tmp_path / "unused.json").exists()


def test_nothing_is_recorded_where_a_test_fails(tmp_path: Path) -> None:
    recorder = durations.Recorder(tmp_path / "durations.json")
    session = SimpleNamespace(config=object())
    recorder.pytest_sessionfinish(session, 1)
    assert durations.read(recorder.file) == {}
    recorder.pytest_sessionfinish(session, 0)
    assert recorder.file.exists()
