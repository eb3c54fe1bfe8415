"""The training loop: gradient accumulation, phases, non-finite updates."""

from __future__ import annotations

import json
import math
from functools import partial
from typing import Any

import benchmarks.gan  # noqa: F401  (registers the GAN)
import pytest
import torch
from benchmarks.gan import GAN, DiscriminatorObjective, GeneratorObjective, Ring
from torch import nn

from weft.core.batch import Batch, Clock
from weft.core.contracts import Objective, Structure
from weft.core.fields import Info
from weft.core.loss import Loss, Term
from weft.learning import (
    SGD,
    ClipWeights,
    Gradient,
    LinearSchedule,
    Network,
    NonFiniteError,
    Phase,
    TrainingLoop,
)
from weft.objectives import CyclicalAnnealing
from weft.training.stages import Stage


class InMemoryCallbacks:
    """Callbacks that keep the log and the last checkpoint in memory."""

    def __init__(self, stop_after: int | None = None):
        self.rows: list[dict[str, Any]] = []
        self.saved: tuple[Any, Any] | None = None
        self.stop_after, self.saves = stop_after, 0

    def on_log(self, row: dict[str, Any]) -> None:
        self.rows.append(row)

    def should_evaluate(self, progress: Any, last: bool) -> bool:
        return False

    def evaluate(self, progress: Any, last: bool) -> float | None:
        return None

    def save(self, tensors: Any, documents: Any, progress: Any) -> None:
        copies = {f: {n: t.clone() for n, t in named.items()} for f, named in tensors.items()}
        self.saved, self.saves = (copies, json.loads(json.dumps(documents))), self.saves + 1
        self.step = progress.step

    def restore(self) -> Any:
        return self.saved

    def should_stop(self) -> bool:
        return False


class FixedBatches:
    """The same batches in every epoch."""

    def __init__(self, batches: list[Batch]):
        self.batches, self.name = batches, "fixed"

    def counts(self) -> dict[str, int]:
        return {}

    def __len__(self) -> int:
        return len(self.batches)

    def batch(self, draw: int, without: frozenset[int] = frozenset(), rank: int = 0, world: int = 1) -> Batch | None:
        batch = self.batches[draw % len(self.batches)]
        return None if set(batch.rows) <= without else batch


class LinearModel(Structure):
    def __init__(self, info: Info):
        super().__init__(info)
        self.dim = 3
        self.map = nn.Linear(3, 1)
        self.other = nn.Linear(3, 1)


class TwoTerms(Objective):
    """Squared errors of all examples, and of the marked ones: two terms with different counts."""

    def prepare(self, example: Any, rng: Any, pool: Any) -> None:
        raise AssertionError("the batches are built by hand")

    def counts(self, batch: Batch) -> dict[str, int]:
        return {"all": len(batch), "marked": int(batch["mark"].sum())}

    def forward(self, model: Any, batch: Batch, clock: Clock) -> Loss:
        error = (model.map(batch["x"])[:, 0] - batch["y"]) ** 2
        counts = self.counts(batch)
        return Loss(
            {"all": Term(error.sum(), counts["all"]), "marked": Term((error * batch["mark"]).sum(), counts["marked"], 0.3)}
        )


def make_batches(sizes: list[int], seed: int = 0) -> list[Batch]:
    g = torch.Generator().manual_seed(seed)
    found, first = [], 0
    for n in sizes:
        fields = {"x": torch.randn(n, 3, generator=g), "y": torch.randn(n, generator=g), "mark": torch.zeros(n)}
        fields["mark"][: n // 2] = 1
        found.append(Batch(fields, n, tuple(range(first, first + n))))
        first += n
    return found


def make_loop(batches: list[Batch], objective: type[Objective] = TwoTerms, callbacks: Any = None, **choices: Any) -> TrainingLoop:
    torch.manual_seed(0)
    info = Info({})
    network = Network(LinearModel(info), {"": objective(info, 3)})
    learning = Gradient(**{"steps": 1, "optimizer": partial(SGD, lr=0.5), "clip": 0.0, **choices})
    callbacks = callbacks or InMemoryCallbacks()
    return TrainingLoop(
        network,
        learning,
        lambda *_: FixedBatches(batches),
        callbacks,
        seed=1,
        stage=0,
        device=torch.device("cpu"),
        precision="fp32",
    )


def test_uneven_micro_batches_are_divided_by_the_counts_of_the_full_update():
    batches = make_batches([5, 1, 3, 8])
    loop = make_loop(batches, accumulate=4)
    model = loop.network.model
    before = model.map.weight.detach().clone().requires_grad_()
    bias = model.map.bias.detach().clone()
    x, y, mark = (torch.cat([b[k] for b in batches]) for k in ("x", "y", "mark"))
    error = ((x @ before.T + bias)[:, 0] - y) ** 2
    (error.mean() + 0.3 * (error * mark).sum() / mark.sum()).backward()
    loop.run(resume=False)
    torch.testing.assert_close(model.map.weight, before - 0.5 * before.grad)


def test_gradient_clipping_bounds_the_step():
    loop = make_loop(make_batches([6]), clip=0.01)
    before = {n: p.detach().clone() for n, p in loop.network.parameters().items()}
    loop.run(resume=False)
    step = math.sqrt(sum(float(((p.detach() - before[n]) ** 2).sum()) for n, p in loop.network.parameters().items()))
    assert step == pytest.approx(0.5 * 0.01, rel=1e-3)


def test_the_schedule_sets_the_learning_rate_of_every_update():
    callbacks = InMemoryCallbacks()
    schedule = partial(LinearSchedule, warmup=2)
    make_loop(make_batches([4]), callbacks=callbacks, steps=6, log_every=1, schedule=schedule).run(resume=False)
    assert [r["lr"] for r in callbacks.rows if "lr" in r] == pytest.approx([0.5 * schedule().factor(i, 6) for i in range(6)])


# -------------------------------------------------------------------------------------------------------------- phases


def gan_loop(phases: list[Phase], steps: int = 3, callbacks: Any = None, **choices: Any) -> TrainingLoop:
    info = Ring().declare()
    torch.manual_seed(3)
    model = GAN(info, dim=8)
    data = Ring(rows=64).open().splits["train"]

    def feed(split: str, objective: Objective, name: str) -> Any:
        from weft.data import Feed

        return Feed(data, objective, key=(1, name), budget=16)

    network = Network(model, {"discriminator": DiscriminatorObjective(info, 8), "generator": GeneratorObjective(info, 8)})
    learning = Gradient(steps=steps, phases=[lambda p=p: p for p in phases], **choices)
    callbacks = callbacks or InMemoryCallbacks()
    return TrainingLoop(network, learning, feed, callbacks, seed=1, stage=0, device=torch.device("cpu"), precision="fp32")


@pytest.mark.parametrize(
    ("objective", "trains", "keeps"),
    [("discriminator", "discriminator", "generator"), ("generator", "generator", "discriminator")],
)
def test_parameters_and_buffers_that_a_phase_does_not_train_stay_bit_identical(objective, trains, keeps):
    loop = gan_loop([Phase(objective=objective, train=[f"{trains}.*"], repeat=2)])
    before = {n: t.clone() for n, t in loop.network.tensors().items()}
    loop.run(resume=False)
    after = loop.network.tensors()
    same = {n: torch.equal(before[n], after[n]) for n in before}
    assert all(v for n, v in same.items() if n.startswith(keeps)), same
    assert any(not v for n, v in same.items() if n.startswith(trains) and "running_mean" in n)
    assert all(not v for n, v in same.items() if n.startswith(trains) and n.endswith("weight"))


def test_every_start_and_repeat_select_the_rounds_of_a_phase():
    loop = gan_loop(
        [
            Phase(objective="discriminator", train=["discriminator.*"], repeat=3),
            Phase(objective="generator", train=["generator.*"], every=2, start=1),
        ],
        steps=6,
    )
    loop.run(resume=False)
    assert loop.progress.updates == {"discriminator": 18, "generator": 3}
    assert [p.total for p in loop.phases] == [18, 3]


def test_a_log_entry_has_the_last_update_of_every_phase_since_the_previous_entry():
    callbacks = InMemoryCallbacks()
    phases = [
        Phase(objective="discriminator", train=["discriminator.*"]),
        Phase(objective="generator", train=["generator.*"], every=2),
    ]
    loop = gan_loop(phases, steps=8, log_every=4, callbacks=callbacks)
    loop.run(resume=False)
    assert [row["step"] for row in callbacks.rows] == [4, 8]
    assert all({"discriminator/loss", "generator/loss"} <= row.keys() for row in callbacks.rows), (
        "generator does not run in steps 4, 8"
    )
    once = InMemoryCallbacks()
    gan_loop(
        [phases[0], Phase(objective="generator", train=["generator.*"], start=6, every=9)], steps=8, log_every=4, callbacks=once
    ).run(resume=False)
    assert ["generator/loss" in row for row in once.rows] == [False, True], "an entry covers the steps since the previous entry"


@pytest.mark.parametrize(("cycles", "fits"), [(1, True), (2, True), (3, False)])
def test_cycles_of_annealing_must_fit_the_number_of_updates(cycles, fits):
    class Weighed(TwoTerms):
        def __init__(self, info: Info, dim: int):
            super().__init__(info, dim)
            self.beta = CyclicalAnnealing(cycles=cycles)

    if fits:
        make_loop(make_batches([4]), Weighed, steps=8)
        return
    with pytest.raises(
        ValueError, match=r"phase main: beta: 3 cycles of cyclical annealing in 8 updates; .*set cycles to at most 2"
    ):
        make_loop(make_batches([4]), Weighed, steps=8)


def test_an_annealed_weight_that_stays_zero_is_refused():
    class Weighed(TwoTerms):
        def __init__(self, info: Info, dim: int, top: float = 1.0):
            super().__init__(info, dim)
            self.beta = CyclicalAnnealing(zero_fraction=0.75, rise_fraction=0.25, weight=top)

    make_loop(make_batches([4]), Weighed, steps=5)
    with pytest.raises(ValueError, match="phase main: beta: the weight is still 0 in the last of 4 updates; use more"):
        make_loop(make_batches([4]), Weighed, steps=4)
    make_loop(make_batches([4]), Weighed, steps=3)  # short runs are smoke tests
    make_loop(make_batches([4]), partial(Weighed, top=0), steps=4)  # a weight of 0 on purpose
    with pytest.raises(ValueError, match="zero_fraction is 1, so the weight is 0 throughout"):
        CyclicalAnnealing(zero_fraction=1, rise_fraction=0)


def test_start_can_be_given_in_epochs():
    loop = gan_loop(
        [
            Phase(objective="discriminator", train=["discriminator.*"]),
            Phase(objective="generator", train=["generator.*"], start={"epochs": 1}),
        ],
        6,
    )
    loop.run(resume=False)
    per_epoch = len(loop.phases[0].feed)
    assert loop.progress.updates["generator"] == 6 - per_epoch


def test_constraints_hold_after_each_step():
    loop = gan_loop([Phase(objective="discriminator", train=["discriminator.*"], constrain=[partial(ClipWeights, limit=0.01)])])
    loop.run(resume=False)
    assert all(p.abs().max() <= 0.01 for n, p in loop.network.parameters().items() if n.startswith("discriminator"))


def test_a_glob_that_matches_no_parameter_is_refused():
    with pytest.raises(
        ValueError, match=r"'discriminatorr\.\*' matches no parameter \(available: generator\.\*, discriminator\.\*\)"
    ):
        gan_loop([Phase(objective="discriminator", train=["discriminatorr.*"])])


def test_a_loss_that_does_not_depend_on_the_trained_parameters_is_refused():
    with pytest.raises(ValueError, match="does not depend on the trained parameters"):
        gan_loop([Phase(objective="discriminator", train=["generator.*"])]).run(resume=False)


def test_an_unknown_objective_of_a_phase_is_refused():
    with pytest.raises(ValueError, match=r"'rec', but the recipe has: discriminator, generator"):
        gan_loop([Phase(objective="rec")])


def test_random_numbers_of_collect_do_not_depend_on_earlier_ones():
    class Collects(TwoTerms):
        """Samples in collect, as a rollout does."""

        def collect(self, model: Any, batch: Batch) -> Batch:
            noise = torch.rand(len(batch), 3)
            return Batch({**batch.fields, "x": batch["x"] + noise}, len(batch), batch.rows)

    def weights(draws_before: int) -> torch.Tensor:
        loop = make_loop(make_batches([4, 3]), Collects, steps=2)
        torch.rand(draws_before)
        loop.run(resume=False)
        return loop.network.model.map.weight.detach()

    assert torch.equal(weights(0), weights(7))


def test_collect_does_not_change_buffers_of_modules_that_are_not_trained(monkeypatch):
    def collect(self: Any, model: Any, batch: Batch) -> Batch:
        model.sample(8)  # in training mode: changes the batch statistics of the generator
        return batch

    monkeypatch.setattr(GeneratorObjective, "collect", collect)
    monkeypatch.setattr(
        GeneratorObjective,
        "forward",
        lambda self, model, batch, clock: Loss.of(model.discriminator(batch["point"]).sum(), len(batch)),
    )
    loop = gan_loop([Phase(objective="generator", train=["discriminator.*"])])
    before = {n: t.clone() for n, t in loop.network.buffers().items()}
    loop.run(resume=False)
    assert all(torch.equal(t, before[n]) for n, t in loop.network.buffers().items() if n.startswith("generator"))


@pytest.mark.parametrize("when", [{}, {"epochs": 1, "steps": 2}])
def test_a_start_that_is_not_a_number_of_rounds_or_epochs_is_refused(when):
    with pytest.raises(ValueError, match=r"start must be a number of steps or \{epochs: n\}"):
        Phase(start=when)


def test_a_phase_that_never_runs_or_trains_nothing_is_refused():
    with pytest.raises(ValueError, match="its start is step 9, but steps is 3; set start below 3, or steps above 9"):
        gan_loop([Phase(objective="discriminator", train=["discriminator.*"], start=9)])
    with pytest.raises(ValueError, match="train is empty"):
        Phase(train=[])
    with pytest.raises(ValueError, match="several objectives"):
        gan_loop([Phase()])


@pytest.mark.parametrize("name", ["../../x", "a/b", "", ".hidden"])
def test_a_stage_name_cannot_leave_the_folder(name):
    with pytest.raises(ValueError, match="the name of a stage"):
        Stage(name=name, learning=partial(Gradient, steps=1))


# ------------------------------------------------------------------------------------------------- non-finite updates


def test_a_non_finite_update_restores_the_batch_statistics(monkeypatch):
    loop = gan_loop([Phase(objective="discriminator", train=["discriminator.*"])])
    before = {n: t.clone() for n, t in loop.network.tensors().items()}
    forward = DiscriminatorObjective.forward

    def explode(self: Any, model: Any, batch: Batch, clock: Clock) -> Loss:
        loss = forward(self, model, batch, clock)
        return Loss({"loss": Term(loss["loss"].total * float("nan"), loss["loss"].count)})

    monkeypatch.setattr(DiscriminatorObjective, "forward", explode)
    with pytest.raises(NonFiniteError):
        loop.run(resume=False)
    # finding the first non-finite module runs the network again, which must not change the buffers either
    assert all(torch.equal(t, before[n]) for n, t in loop.network.tensors().items())


def test_log_entries_have_the_training_time_and_resuming_adds_to_it():
    callbacks = InMemoryCallbacks()
    make_loop(make_batches([4]), callbacks=callbacks, steps=3, log_every=1).run(resume=False)
    before = [row["elapsed"] for row in callbacks.rows]
    assert before == sorted(before)
    for row in callbacks.rows:
        assert set(row["seconds"]) == {"data", "forward", "backward", "optimizer"}
        assert all(value >= 0 for value in row["seconds"].values())
        assert sum(row["seconds"].values()) <= row["elapsed"] + 0.004  # rounded to milliseconds
    assert callbacks.saved
    callbacks.saved[1]["state.json"]["progress"]["elapsed"] = 1000.0
    callbacks.saved[1]["state.json"]["progress"]["spent"]["forward"] = 700.0
    make_loop(make_batches([4]), callbacks=callbacks, steps=5, log_every=1).run(resume=True)
    assert 1000 <= callbacks.rows[-1]["elapsed"] < 1100
    assert 700 <= callbacks.rows[-1]["seconds"]["forward"] < 800  # two small updates may take less than a millisecond


def test_a_checkpoint_without_training_times_can_be_resumed():
    callbacks = InMemoryCallbacks()
    make_loop(make_batches([4]), callbacks=callbacks, steps=2).run(resume=False)
    assert callbacks.saved
    for name in ("elapsed", "spent"):
        del callbacks.saved[1]["state.json"]["progress"][name]
    make_loop(make_batches([4]), callbacks=callbacks, steps=3).run(resume=True)
    assert callbacks.step == 3


def test_training_without_any_optimizer_step_is_an_error():
    class Always(Explodes):
        def forward(self, model: Any, batch: Batch, clock: Clock) -> Loss:
            loss = TwoTerms.forward(self, model, batch, clock)
            return Loss({**loss, "all": Term(loss["all"].total * float("nan"), loss["all"].count)})

    for policy in ("skip", "rollback"):
        with pytest.raises(ValueError, match="no optimizer step was taken in 3 steps"):
            make_loop(make_batches([5, 2, 3]), Always, steps=3, on_nonfinite=policy).run(resume=False)


def test_the_error_without_any_optimizer_step_counts_skipped_examples():
    class Empty(FixedBatches):
        skipped = 0

        def counts(self) -> dict[str, int]:
            return {"skipped": self.skipped}

        def batch(self, draw: int, without: frozenset[int] = frozenset(), rank: int = 0, world: int = 1) -> Batch | None:
            self.skipped += 4

    loop = make_loop(make_batches([4]), steps=3)
    loop.phases[0].feed = Empty(make_batches([4]))
    with pytest.raises(ValueError, match="excluded, 12 times the objective skipped an example"):
        loop.run(resume=False)


def test_a_score_that_is_nan_is_never_the_best():
    class Odd(InMemoryCallbacks):
        metric_values = iter([float("nan"), 0.1, float("nan")])

        def should_evaluate(self, progress: Any, last: bool) -> bool:
            return True

        def evaluate(self, progress: Any, last: bool) -> float | None:
            return next(self.metric_values)

    loop = make_loop(make_batches([4]), callbacks=Odd(), steps=3)
    loop.run(resume=False)
    assert (loop.progress.best, loop.progress.best_step) == (0.1, 2)


class Explodes(TwoTerms):
    """Non-finite for the batch whose first example is 5."""

    def __init__(self, info: Info, dim: int):
        super().__init__(info, dim)
        self.inner = nn.Identity()

    def forward(self, model: Any, batch: Batch, clock: Clock) -> Loss:
        loss = super().forward(model, batch, clock)
        if batch.rows[0] == 5:
            loss["all"] = Term(self.inner(loss["all"].total * float("nan")), loss["all"].count)
        return loss


def test_a_non_finite_loss_stops_training_and_keeps_the_last_checkpoint():
    callbacks = InMemoryCallbacks()
    loop = make_loop(make_batches([5, 2, 3]), Explodes, callbacks, steps=5, save_every=1)
    with pytest.raises(NonFiniteError) as error:
        loop.run(resume=False)
    assert (error.value.update, error.value.rows) == (1, [5, 6])
    assert "inner (Identity)" in error.value.module
    assert callbacks.step == 1


def test_a_non_finite_gradient_is_reported_with_its_parameter():
    class Root(TwoTerms):
        def forward(self, model: Any, batch: Batch, clock: Clock) -> Loss:
            return Loss({"all": Term((model.map.weight * 0).abs().sqrt().sum(), 1), "marked": Term(model.map.bias.sum(), 1)})

    with pytest.raises(NonFiniteError, match=r"the gradient norm is nan.*the gradient of map\.weight"):
        make_loop(make_batches([4]), Root).run(resume=False)


def test_skip_skips_at_most_max_skips_updates():
    callbacks = InMemoryCallbacks()
    loop = make_loop(make_batches([5, 2, 3]), Explodes, callbacks, steps=3, on_nonfinite="skip")
    loop.run(resume=False)
    assert loop.progress.skips == 1
    assert loop.progress.updates["main"] == 2
    assert all(torch.isfinite(t).all() for t in loop.network.tensors().values())
    assert [r["event"] for r in callbacks.rows if "event" in r] == ["skip"]
    with pytest.raises(NonFiniteError):
        make_loop(make_batches([5, 2, 3]), Explodes, steps=9, on_nonfinite="skip", max_skips=2).run(resume=False)


def test_rollback_equals_training_without_the_excluded_examples():
    good = make_batches([5, 2, 3])
    loop = make_loop(good, Explodes, steps=4, on_nonfinite="rollback", save_every=1)
    loop.run(resume=False)
    assert loop.progress.left_out == {"train": [5, 6]}
    without = make_loop(good, steps=4)
    without.progress.left_out = {"train": [5, 6]}
    without.run(resume=False)
    assert all(
        torch.equal(a, b) for a, b in zip(loop.network.tensors().values(), without.network.tensors().values(), strict=True)
    )
