"""Loss terms of an optimizer step: summed on the host in double precision, copied from the device once."""

from __future__ import annotations

from collections import Counter
from functools import partial
from typing import Any

import pytest
import torch
from torch import nn
from torch.overrides import TorchFunctionMode

from weft.core.batch import Batch, Clock
from weft.core.contracts import Objective, Structure
from weft.core.fields import Info
from weft.core.loss import Loss, Term, to_floats
from weft.learning import SGD, Gradient, Network, TrainingLoop
from weft.learning.term_totals import TermTotals

SYNCHRONIZING = ("item", "tolist", "cpu", "numpy", "__float__", "__int__", "__bool__", "__index__", "nonzero")


class Synchronizations(TorchFunctionMode):
    """Counts the calls that make the host wait for the device."""

    def __init__(self) -> None:
        super().__init__()
        self.calls: Counter[str] = Counter()

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if (name := getattr(func, "__name__", "")) in SYNCHRONIZING:
            self.calls[name] += 1
        return func(*args, **(kwargs or {}))


@pytest.mark.parametrize("read", [torch.Tensor.item, float, torch.Tensor.tolist, int, bool])
def test_the_counter_sees_every_way_to_read_a_value(read):
    with Synchronizations() as seen:
        read(torch.ones(()))
    assert seen.calls.total() == 1


class LinearModel(Structure):
    def __init__(self, info: Info):
        super().__init__(info)
        self.dim = 3
        self.map = nn.Linear(3, 1)


class ThreeTerms(Objective):
    """Squared error, absolute error and an integer count of positive predictions that is only reported."""

    def prepare(self, example: Any, rng: Any, pool: Any) -> None:
        raise AssertionError("the batches are built by hand")

    def counts(self, batch: Batch) -> dict[str, int]:
        return dict.fromkeys(("squared", "absolute", "positive"), len(batch))

    def forward(self, model: Any, batch: Batch, clock: Clock) -> Loss:
        predicted_B = model.map(batch["x"])[:, 0]
        error_B = predicted_B - batch["y"]
        totals = {"squared": (error_B**2).sum(), "absolute": error_B.abs().sum(), "positive": (predicted_B > 0).sum()}
        weights = {"squared": 1.0, "absolute": 0.3, "positive": 0.0}
        return Loss({name: Term(total, len(batch), weights[name]) for name, total in totals.items()})


class Batches:
    """The same batches in every epoch."""

    def __init__(self, batches: list[Batch]):
        self.batches, self.name = batches, "fixed"

    def counts(self) -> dict[str, int]:
        return {}

    def __len__(self) -> int:
        return len(self.batches)

    def batch(self, draw: int, without: frozenset[int] = frozenset(), rank: int = 0, world: int = 1) -> Batch:
        return self.batches[draw % len(self)]


class LogOnly:
    """Callbacks that keep the log and ignore the rest."""

    def __init__(self) -> None:
        self.rows: list[dict[str, Any]] = []

    def on_log(self, row: dict[str, Any]) -> None:
        self.rows.append(row)

    def should_evaluate(self, progress: Any, last: bool) -> bool:
        return False

    def evaluate(self, progress: Any, last: bool) -> None: ...

    def save(self, tensors: Any, documents: Any, progress: Any) -> None: ...

    def restore(self) -> Any: ...

    def should_stop(self) -> bool:
        return False


def make_loop(accumulate: int, steps: int = 2) -> tuple[TrainingLoop, LogOnly, list[Batch]]:
    torch.manual_seed(0)
    sizes = [5, 1, 3, 8, 2, 7, 4, 6]
    batches = [Batch({"x": torch.randn(n, 3), "y": torch.randn(n)}, n, tuple(range(n))) for n in sizes]
    info, callbacks = Info({}), LogOnly()
    network = Network(LinearModel(info), {"": ThreeTerms(info, 3)})
    learning = Gradient(steps=steps, accumulate=accumulate, optimizer=partial(SGD, lr=0.1), log_every=1)
    where: dict[str, Any] = {"seed": 1, "stage": 0, "device": torch.device("cpu"), "precision": "fp32"}
    return TrainingLoop(network, learning, lambda *_: Batches(batches), callbacks, **where), callbacks, batches


def synchronizations_per_update(accumulate: int) -> float:
    loop, _, _ = make_loop(accumulate, steps=3)
    with Synchronizations() as seen:
        for _ in range(3):
            loop.run_phase(loop.phases[0])
    return seen.calls.total() / 3


def test_one_synchronization_per_optimizer_step_for_any_number_of_micro_batches():
    assert [synchronizations_per_update(n) for n in (1, 2, 8)] == [1, 1, 1]


def test_logged_values_equal_sums_of_item_in_the_order_of_the_micro_batches():
    """The reference adds ``.item()`` of every micro-batch in Python, so equality is exact."""
    loop, callbacks, batches = make_loop(accumulate=8, steps=1)
    objective, model = loop.phases[0].objective, loop.network.model
    counts = dict.fromkeys(("squared", "absolute", "positive"), sum(map(len, batches)))
    loss, means = 0.0, dict.fromkeys(counts, 0.0)
    for batch in batches:
        terms = objective(model, batch, Clock())
        loss += torch.stack([t.weight * t.total.float() / counts[name] for name, t in terms.items()]).sum().item()
        for name, term in terms.items():
            means[name] += term.total.item() / counts[name]
    loop.run(resume=False)
    row = callbacks.rows[0]
    assert {"loss": loss, **means} == {name: row[name] for name in ("loss", *means)}


def test_a_term_without_a_micro_batch_is_zero_and_a_new_term_is_added():
    totals = TermTotals(["known"], {"known": 2, "new": 4})
    totals.add(torch.tensor(1.0), Loss.of(torch.tensor(6.0), 4, "new"))
    assert totals.read(torch.tensor(3.0)) == (1.0, {"known": 0.0, "new": 1.5}, 3.0)


def test_sums_are_taken_in_double_precision():
    totals = TermTotals(["loss"], {"loss": 1})
    for value in (2.0**24, 1.0, 1.0):  # in float32 the ones would be rounded away
        totals.add(torch.tensor(value), Loss.of(torch.tensor(value), 1))
    assert totals.read(torch.tensor(0.0))[0] == 2.0**24 + 2


def test_values_are_read_in_double_precision():
    exact = 2.0**24 + 1  # the first integer that float32 cannot represent
    assert to_floats([torch.tensor(exact, dtype=torch.float64), torch.tensor(0.1)])[0] == exact
