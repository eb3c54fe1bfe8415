"""One thread (the tests' tensors are tiny) and fixed seeds, for every test."""

from __future__ import annotations

import random
from collections.abc import Iterator

import numpy as np
import pytest
import torch
from benchmarks.stand_ins import write_stand_ins

torch.set_num_threads(1)


@pytest.fixture(autouse=True, scope="session")
def _places(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Prepared data goes into a folder of this session, never into the home; shipped recipes find small files."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("WEFT_CACHE", str(tmp_path_factory.mktemp("cache")))
        patch.setenv("WEFT_DATA", str(write_stand_ins(tmp_path_factory.mktemp("data"))))
        yield


@pytest.fixture(autouse=True)
def _seeds() -> None:
    random.seed(0)
    np.random.seed(0)
    torch.manual_seed(0)
