"""One thread (the tests' tensors are tiny) and fixed seeds, for every test; slow tests are marked."""

from __future__ import annotations

import os
import random
from collections.abc import Iterator

os.environ.setdefault("OMP_NUM_THREADS", "1")  # before torch is imported, and for processes that tests start

import hypothesis
import numpy as np
import pytest
import torch
from benchmarks.stand_ins import write_stand_ins
from tests import durations

torch.set_num_threads(1)
# a busy machine is not a failure, and the same commit has the same result; HYPOTHESIS_PROFILE=random draws other examples
hypothesis.settings.register_profile("weft", deadline=None, derandomize=True)
hypothesis.settings.register_profile("random", deadline=None)
hypothesis.settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "weft"))


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--record-durations", action="store_true", help="write the slow tests to tests/durations.json (make durations)"
    )


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "slow: not one of the quickest tests; `make test-fast` leaves it out")
    config.addinivalue_line("markers", "long: one of the longest tests; `make test` leaves it out, `make test-long` runs it")
    if config.getoption("--record-durations"):
        config.pluginmanager.register(durations.Recorder())


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Mark the tests that were slow or long when durations were last recorded."""
    if not config.getoption("--record-durations"):
        durations.mark(items)


@pytest.fixture(autouse=True, scope="session")
def _folders(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Prepared data goes into a folder of this session, never into the home; shipped recipes find small files."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("WEFT_CACHE", str(tmp_path_factory.mktemp("cache")))
        patch.setenv("WEFT_DATA", str(write_stand_ins(tmp_path_factory.mktemp("data"))))
        yield


@pytest.fixture(autouse=True)
def _seeds() -> None:
    random.seed(0)
    np.random.seed(0)
    torch.default_generator.manual_seed(0)  # torch.manual_seed formats a stack trace for each accelerator that is absent
