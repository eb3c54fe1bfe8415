"""One thread (the tests' tensors are tiny) and fixed seeds, for every test."""

from __future__ import annotations

import random
from collections.abc import Iterator

import numpy as np
import pytest
import torch

torch.set_num_threads(1)


@pytest.fixture(autouse=True, scope="session")
def _cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Prepared data goes into a folder of this session, never into the home."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("WEFT_CACHE", str(tmp_path_factory.mktemp("cache")))
        yield


@pytest.fixture(autouse=True)
def _seeds() -> None:
    random.seed(0)
    np.random.seed(0)
    torch.manual_seed(0)
