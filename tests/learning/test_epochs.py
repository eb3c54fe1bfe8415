"""The length of training in epochs, and the size of a batch in examples."""

from __future__ import annotations

import numpy as np
import pytest

from weft.core.options import OptionError
from weft.core.seeding import key
from weft.data.order import Buckets
from weft.evaluate import Evaluation
from weft.learning import CosineSchedule, Gradient, LinearSchedule
from weft.learning.phase import Phase


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, "the length of training is missing; set steps or epochs"),
        ({"steps": 3, "epochs": 2}, "steps is 3 and epochs is 2, but only one"),
        ({"steps": 3, "batch_tokens": 32, "batch_size": 8}, "batch_tokens is 32 and batch_size is 8, but only one"),
    ],
)
def test_the_length_and_the_batch_are_given_once(options: dict[str, int], message: str) -> None:
    with pytest.raises(OptionError, match=message):
        Gradient(**options)


@pytest.mark.parametrize(
    ("options", "per_epoch", "steps"),
    [
        ({"epochs": 3}, 10, 30),
        ({"epochs": 0.25}, 10, 3),
        ({"epochs": 0.01}, 10, 1),
        ({"epochs": 3, "accumulate": 4}, 2.5, 8),
        ({"epochs": 2, "phases": [lambda: Phase(repeat=5)]}, 2, 4),
        ({"epochs": 2, "phases": [lambda: Phase(every=3)]}, 30, 60),
        ({"steps": 7}, 10, 7),
    ],
)
def test_steps_follow_from_the_batches_of_an_epoch(options: dict[str, float], per_epoch: float, steps: int) -> None:
    learning = Gradient(**options)
    assert learning.resolve_epochs(10) == per_epoch and learning.steps == steps


def test_steps_are_unknown_before_the_data_is_open() -> None:
    with pytest.raises(ValueError, match="follows from epochs"):
        _ = Gradient(epochs=3).steps


def test_evaluations_every_fraction_of_an_epoch() -> None:
    assert Evaluation(every={"epochs": 0.5}).steps_between(10.0) == 5
    assert Evaluation(every={"epochs": 0.01}).steps_between(10.0) == 1
    assert Evaluation(every=7).steps_between(10.0) == 7
    with pytest.raises(OptionError, match="every must be a number of steps or"):
        Evaluation(every={"rounds": 1})  # pyright: ignore[reportArgumentType]


@pytest.mark.parametrize("schedule", [CosineSchedule, LinearSchedule])
def test_a_fractional_warmup_is_that_of_the_updates(schedule: type[CosineSchedule] | type[LinearSchedule]) -> None:
    for updates, warmup in ((100, 10), (35, 4)):
        part, whole = schedule(warmup=0.1), schedule(warmup=warmup)
        assert [part.factor(t, updates) for t in range(updates)] == [whole.factor(t, updates) for t in range(updates)]
    with pytest.raises(ValueError, match=r"a fraction of them below 1, not 1\.5"):
        schedule(warmup=1.5)


@pytest.mark.parametrize("pairs", [False, True])
@pytest.mark.parametrize(("rows", "size"), [(1000, 32), (31, 32), (33, 32), (1, 4), (500, 1)])
def test_batches_have_the_requested_number_of_examples(rows: int, size: int, pairs: bool) -> None:
    rng = np.random.default_rng(0)
    order = Buckets(rng.integers(1, 60, rows), 10, beside=rng.integers(1, 30, rows) if pairs else None, batch_size=size)
    batches = [order.rows(key(1), 2, i) for i in range(len(order))]
    assert sorted(row for batch in batches for row in batch.tolist()) == list(range(rows))
    assert max(map(len, batches)) <= size and len(batches) == -(-rows // size)
