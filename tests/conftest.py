"""One thread (the tests' tensors are tiny) and fixed seeds, for every test."""

from __future__ import annotations

import random

import numpy as np
import pytest
import torch

torch.set_num_threads(1)


@pytest.fixture(autouse=True)
def _seeds() -> None:
    random.seed(0)
    np.random.seed(0)
    torch.manual_seed(0)
