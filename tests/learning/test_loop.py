"""The loop: sums over counts, phases that leave the rest alone, exact resumption, what is not finite."""

from __future__ import annotations

import json
import math
from functools import partial
from pathlib import Path
from typing import Any

import benchmarks.gan  # noqa: F401  (registers the GAN)
import numpy as np
import pytest
import torch
from benchmarks.gan import GAN, Fool, Judge, Ring
from safetensors.torch import load_file
from torch import nn

from weft.blocks import LSTM, AttentionLSTM
from weft.core.batch import Batch, Clock
from weft.core.contracts import Objective, Structure
from weft.core.fields import Info
from weft.core.loss import Loss, Term
from weft.core.registry import block, unregister
from weft.data import Dates
from weft.evaluate import Evaluation
from weft.inference.load import load
from weft.learning import (
    SGD,
    ClipWeights,
    ConstantSchedule,
    Gradient,
    LinearSchedule,
    Network,
    NonFiniteError,
    Phase,
    TrainingLoop,
    digest,
)
from weft.learning.progress import Interrupted
from weft.models import Seq2Seq
from weft.objectives import CyclicalAnnealing, NextToken
from weft.training.callbacks import StageCallbacks
from weft.training.run import Run
from weft.training.stages import Stage
from weft.training.trainer import train


class Quiet:
    """A watcher that keeps the last checkpoint in memory."""

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
        self.round = progress.round

    def restore(self) -> Any:
        return self.saved

    def should_stop(self) -> bool:
        return False


class Fixed:
    """A feed of given batches, over and over."""

    def __init__(self, batches: list[Batch]):
        self.batches = batches

    def __len__(self) -> int:
        return len(self.batches)

    def batch(self, draw: int, without: frozenset[int] = frozenset(), rank: int = 0, world: int = 1) -> Batch | None:
        batch = self.batches[draw % len(self.batches)]
        return None if set(batch.rows) <= without else batch


class Line_(Structure):
    def __init__(self, info: Info):
        super().__init__(info)
        self.dim = 3
        self.map = nn.Linear(3, 1)
        self.other = nn.Linear(3, 1)


class TwoTerms(Objective):
    """Squared errors of all rows, and of the marked ones only: two denominators."""

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


def rows(sizes: list[int], seed: int = 0) -> list[Batch]:
    g = torch.Generator().manual_seed(seed)
    found, first = [], 0
    for n in sizes:
        fields = {"x": torch.randn(n, 3, generator=g), "y": torch.randn(n, generator=g), "mark": torch.zeros(n)}
        fields["mark"][: n // 2] = 1
        found.append(Batch(fields, n, tuple(range(first, first + n))))
        first += n
    return found


def loop_over(batches: list[Batch], objective: type[Objective] = TwoTerms, callbacks: Any = None, **choices: Any) -> TrainingLoop:
    torch.manual_seed(0)
    info = Info({})
    network = Network(Line_(info), {"": objective(info, 3)})
    learning = Gradient(**{"steps": 1, "optimizer": partial(SGD, lr=0.5), "clip": 0.0, **choices})
    callbacks = callbacks or Quiet()
    return TrainingLoop(
        network, learning, lambda *_: Fixed(batches), callbacks, seed=1, stage=0, device=torch.device("cpu"), precision="fp32"
    )


def test_uneven_micro_batches_are_divided_by_the_counts_of_the_whole_update():
    batches = rows([5, 1, 3, 8])
    loop = loop_over(batches, accumulate=4)
    model = loop.network.model
    before = model.map.weight.detach().clone().requires_grad_()
    bias = model.map.bias.detach().clone()
    x, y, mark = (torch.cat([b[k] for b in batches]) for k in ("x", "y", "mark"))
    error = ((x @ before.T + bias)[:, 0] - y) ** 2
    (error.mean() + 0.3 * (error * mark).sum() / mark.sum()).backward()
    loop.run(resume=False)
    torch.testing.assert_close(model.map.weight, before - 0.5 * before.grad)


def test_clipping_bounds_the_step():
    loop = loop_over(rows([6]), clip=0.01)
    before = {n: p.detach().clone() for n, p in loop.network.parameters().items()}
    loop.run(resume=False)
    step = math.sqrt(sum(float(((p.detach() - before[n]) ** 2).sum()) for n, p in loop.network.parameters().items()))
    assert step == pytest.approx(0.5 * 0.01, rel=1e-3)


def test_the_schedule_sets_the_rate_of_every_update():
    callbacks = Quiet()
    schedule = partial(LinearSchedule, warmup=2)
    loop_over(rows([4]), callbacks=callbacks, steps=6, log_every=1, schedule=schedule).run(resume=False)
    assert [r["lr"] for r in callbacks.rows] == pytest.approx([0.5 * schedule().factor(i, 6) for i in range(6)])


# -------------------------------------------------------------------------------------------------------------- phases


def gan_loop(phases: list[Phase], steps: int = 3, callbacks: Any = None, **choices: Any) -> TrainingLoop:
    info = Ring().declare()
    torch.manual_seed(3)
    model = GAN(info, dim=8)
    data = Ring(rows=64).open().splits["train"]

    def feed(split: str, objective: Objective, name: str) -> Any:
        from weft.data import Feed

        return Feed(data, objective, key=(1, name), budget=16)

    network = Network(model, {"judge": Judge(info, 8), "fool": Fool(info, 8)})
    learning = Gradient(steps=steps, phases=[lambda p=p: p for p in phases], **choices)
    callbacks = callbacks or Quiet()
    return TrainingLoop(network, learning, feed, callbacks, seed=1, stage=0, device=torch.device("cpu"), precision="fp32")


@pytest.mark.parametrize(("objective", "trains", "keeps"), [("judge", "critic", "generator"), ("fool", "generator", "critic")])
def test_what_a_phase_does_not_train_stays_bit_identical_buffers_too(objective, trains, keeps):
    loop = gan_loop([Phase(objective=objective, train=[f"{trains}.*"], repeat=2)])
    before = {n: t.clone() for n, t in loop.network.tensors().items()}
    loop.run(resume=False)
    after = loop.network.tensors()
    same = {n: torch.equal(before[n], after[n]) for n in before}
    assert all(v for n, v in same.items() if n.startswith(keeps)), same
    assert any(not v for n, v in same.items() if n.startswith(trains) and "running_mean" in n)
    assert all(not v for n, v in same.items() if n.startswith(trains) and n.endswith("weight"))


def test_every_start_and_repeat_decide_when_a_phase_runs():
    loop = gan_loop(
        [
            Phase(objective="judge", train=["critic.*"], repeat=3),
            Phase(objective="fool", train=["generator.*"], every=2, start=1),
        ],
        steps=6,
    )
    loop.run(resume=False)
    assert loop.progress.updates == {"judge": 18, "fool": 3}
    assert [p.total for p in loop.phases] == [18, 3]


def test_the_log_has_the_last_update_of_every_phase_since_its_last_line():
    callbacks = Quiet()
    phases = [Phase(objective="judge", train=["critic.*"]), Phase(objective="fool", train=["generator.*"], every=2)]
    loop = gan_loop(phases, steps=8, log_every=4, callbacks=callbacks)
    loop.run(resume=False)
    assert [row["round"] for row in callbacks.rows] == [4, 8]
    assert all({"judge/loss", "fool/loss"} <= row.keys() for row in callbacks.rows), "fool is not due in rounds 4 and 8"
    once = Quiet()
    gan_loop(
        [phases[0], Phase(objective="fool", train=["generator.*"], start=6, every=9)], steps=8, log_every=4, callbacks=once
    ).run(resume=False)
    assert ["fool/loss" in row for row in once.rows] == [False, True], "a line has what came after the line before"


@pytest.mark.parametrize(("cycles", "fits"), [(1, True), (2, True), (3, False)])
def test_a_weight_that_changes_must_fit_the_updates(cycles, fits):
    class Weighed(TwoTerms):
        def __init__(self, info: Info, dim: int):
            super().__init__(info, dim)
            self.beta = CyclicalAnnealing(cycles=cycles)

    if fits:
        loop_over(rows([4]), Weighed, steps=8)
        return
    with pytest.raises(
        ValueError, match=r"phase main: beta: 3 cycles of cyclical annealing in 8 updates; .*set cycles to at most 2"
    ):
        loop_over(rows([4]), Weighed, steps=8)


def test_a_weight_that_never_rises_is_refused():
    class Weighed(TwoTerms):
        def __init__(self, info: Info, dim: int, top: float = 1.0):
            super().__init__(info, dim)
            self.beta = CyclicalAnnealing(zero_fraction=0.75, rise_fraction=0.25, weight=top)

    loop_over(rows([4]), Weighed, steps=5)
    with pytest.raises(ValueError, match="phase main: beta: the weight is still 0 in the last of 4 updates; use more"):
        loop_over(rows([4]), Weighed, steps=4)
    loop_over(rows([4]), Weighed, steps=3)  # only to see whether it runs
    loop_over(rows([4]), partial(Weighed, top=0), steps=4)  # as it was asked for
    with pytest.raises(ValueError, match="zero_fraction is 1, so the weight is 0 throughout"):
        CyclicalAnnealing(zero_fraction=1, rise_fraction=0)


def test_start_in_epochs():
    loop = gan_loop(
        [Phase(objective="judge", train=["critic.*"]), Phase(objective="fool", train=["generator.*"], start={"epochs": 1})], 6
    )
    loop.run(resume=False)
    per_epoch = len(loop.phases[0].feed)
    assert loop.progress.updates["fool"] == 6 - per_epoch


def test_constraints_hold_after_each_step():
    loop = gan_loop([Phase(objective="judge", train=["critic.*"], constrain=[partial(ClipWeights, limit=0.01)])])
    loop.run(resume=False)
    assert all(p.abs().max() <= 0.01 for n, p in loop.network.parameters().items() if n.startswith("critic"))


def test_a_glob_that_trains_nothing_is_refused():
    with pytest.raises(ValueError, match=r"'criticc\.\*' matches no parameter \(available: generator\.\*, critic\.\*\)"):
        gan_loop([Phase(objective="judge", train=["criticc.*"])])


def test_a_phase_whose_loss_does_not_depend_on_what_it_trains_is_refused():
    with pytest.raises(ValueError, match="does not depend on the trained parameters"):
        gan_loop([Phase(objective="judge", train=["generator.*"])]).run(resume=False)


def test_an_unknown_objective_of_a_phase_is_refused():
    with pytest.raises(ValueError, match=r"'rec', but the recipe has: judge, fool"):
        gan_loop([Phase(objective="rec")])


def test_what_collect_draws_does_not_depend_on_what_was_drawn_before():
    class Collects(TwoTerms):
        """Draws in collect, as a rollout does."""

        def collect(self, model: Any, batch: Batch) -> Batch:
            noise = torch.rand(len(batch), 3)
            return Batch({**batch.fields, "x": batch["x"] + noise}, len(batch), batch.rows)

    def weights(draws_before: int) -> torch.Tensor:
        loop = loop_over(rows([4, 3]), Collects, steps=2)
        torch.rand(draws_before)
        loop.run(resume=False)
        return loop.network.model.map.weight.detach()

    assert torch.equal(weights(0), weights(7))


def test_collect_leaves_the_buffers_of_what_is_not_trained_alone(monkeypatch):
    def collect(self: Any, model: Any, batch: Batch) -> Batch:
        model.sample(8)  # in training mode: moves the generator's batch statistics
        return batch

    monkeypatch.setattr(Fool, "collect", collect)
    monkeypatch.setattr(
        Fool, "forward", lambda self, model, batch, clock: Loss.of(model.critic(batch["point"]).sum(), len(batch))
    )
    loop = gan_loop([Phase(objective="fool", train=["critic.*"])])
    before = {n: t.clone() for n, t in loop.network.buffers().items()}
    loop.run(resume=False)
    assert all(torch.equal(t, before[n]) for n, t in loop.network.buffers().items() if n.startswith("generator"))


@pytest.mark.parametrize("when", [{}, {"epochs": 1, "rounds": 2}])
def test_odd_whens_are_refused(when):
    with pytest.raises(ValueError, match=r"start must be a number of rounds or \{epochs: n\}"):
        Phase(start=when)


def test_a_phase_that_never_runs_or_moves_nothing_is_refused():
    with pytest.raises(ValueError, match="its start is round 9, but steps is 3; set start below 3, or steps above 9"):
        gan_loop([Phase(objective="judge", train=["critic.*"], start=9)])
    with pytest.raises(ValueError, match="train is empty"):
        Phase(train=[])
    with pytest.raises(ValueError, match="several objectives"):
        gan_loop([Phase()])


@pytest.mark.parametrize("name", ["../../x", "a/b", "", ".hidden"])
def test_a_stage_name_cannot_leave_the_folder(name):
    with pytest.raises(ValueError, match="the name of a stage"):
        Stage(name=name, learning=partial(Gradient, steps=1))


# ------------------------------------------------------------------------------------------------- what is not finite


def test_a_bad_update_leaves_the_batch_statistics_as_they_were(monkeypatch):
    loop = gan_loop([Phase(objective="judge", train=["critic.*"])])
    before = {n: t.clone() for n, t in loop.network.tensors().items()}
    forward = Judge.forward

    def explode(self: Any, model: Any, batch: Batch, clock: Clock) -> Loss:
        loss = forward(self, model, batch, clock)
        return Loss({"loss": Term(loss["loss"].total * float("nan"), loss["loss"].count)})

    monkeypatch.setattr(Judge, "forward", explode)
    with pytest.raises(NonFiniteError):
        loop.run(resume=False)
    # the search for the first bad module runs the network once more: that must leave no trace either
    assert all(torch.equal(t, before[n]) for n, t in loop.network.tensors().items())


def test_every_row_of_the_log_tells_the_time_and_resuming_adds_to_it():
    callbacks = Quiet()
    loop_over(rows([4]), callbacks=callbacks, steps=3, log_every=1).run(resume=False)
    before = [row["elapsed"] for row in callbacks.rows]
    assert before == sorted(before)
    for row in callbacks.rows:
        assert set(row["seconds"]) == {"data", "forward", "backward", "optimizer"}
        assert all(value >= 0 for value in row["seconds"].values())
        assert sum(row["seconds"].values()) <= row["elapsed"] + 0.004  # rounded to milliseconds
    assert callbacks.saved
    callbacks.saved[1]["state.json"]["progress"]["elapsed"] = 1000.0
    callbacks.saved[1]["state.json"]["progress"]["spent"]["forward"] = 700.0
    loop_over(rows([4]), callbacks=callbacks, steps=5, log_every=1).run(resume=True)
    assert 1000 <= callbacks.rows[-1]["elapsed"] < 1100
    assert 700 <= callbacks.rows[-1]["seconds"]["forward"] < 800  # two tiny updates may take less than the millisecond shown


def test_a_checkpoint_from_before_times_were_kept_can_be_resumed():
    callbacks = Quiet()
    loop_over(rows([4]), callbacks=callbacks, steps=2).run(resume=False)
    assert callbacks.saved
    for name in ("elapsed", "spent"):
        del callbacks.saved[1]["state.json"]["progress"][name]
    loop_over(rows([4]), callbacks=callbacks, steps=3).run(resume=True)
    assert callbacks.round == 3


def test_training_that_could_make_no_update_says_so():
    class Always(Explodes):
        def forward(self, model: Any, batch: Batch, clock: Clock) -> Loss:
            loss = TwoTerms.forward(self, model, batch, clock)
            return Loss({**loss, "all": Term(loss["all"].total * float("nan"), loss["all"].count)})

    for policy in ("skip", "rollback"):
        with pytest.raises(ValueError, match="no optimizer step was taken in 3 rounds"):
            loop_over(rows([5, 2, 3]), Always, steps=3, on_nonfinite=policy).run(resume=False)


def test_rows_without_anything_to_learn_are_counted_when_there_is_no_update():
    class Empty(Fixed):
        skipped = 0

        def batch(self, draw: int, without: frozenset[int] = frozenset(), rank: int = 0, world: int = 1) -> Batch | None:
            self.skipped += 4

    loop = loop_over(rows([4]), steps=3)
    loop.phases[0].feed = Empty(rows([4]))
    with pytest.raises(ValueError, match="excluded, 12 times the objective skipped an example"):
        loop.run(resume=False)


def test_a_figure_that_is_not_a_number_is_never_the_best():
    class Odd(Quiet):
        metric_values = iter([float("nan"), 0.1, float("nan")])

        def should_evaluate(self, progress: Any, last: bool) -> bool:
            return True

        def evaluate(self, progress: Any, last: bool) -> float | None:
            return next(self.metric_values)

    loop = loop_over(rows([4]), callbacks=Odd(), steps=3)
    loop.run(resume=False)
    assert (loop.progress.best, loop.progress.best_round) == (0.1, 2)


class Explodes(TwoTerms):
    """Not finite for the batch whose first row is 5."""

    def __init__(self, info: Info, dim: int):
        super().__init__(info, dim)
        self.inner = nn.Identity()

    def forward(self, model: Any, batch: Batch, clock: Clock) -> Loss:
        loss = super().forward(model, batch, clock)
        if batch.rows[0] == 5:
            loss["all"] = Term(self.inner(loss["all"].total * float("nan")), loss["all"].count)
        return loss


def test_not_finite_stops_names_everything_and_keeps_the_last_checkpoint():
    callbacks = Quiet()
    loop = loop_over(rows([5, 2, 3]), Explodes, callbacks, steps=5, save_every=1)
    with pytest.raises(NonFiniteError) as error:
        loop.run(resume=False)
    assert (error.value.update, error.value.rows) == (1, [5, 6])
    assert "inner (Identity)" in error.value.module
    assert callbacks.round == 1


def test_a_gradient_that_is_not_finite_names_its_parameter():
    class Root(TwoTerms):
        def forward(self, model: Any, batch: Batch, clock: Clock) -> Loss:
            return Loss({"all": Term((model.map.weight * 0).abs().sqrt().sum(), 1), "marked": Term(model.map.bias.sum(), 1)})

    with pytest.raises(NonFiniteError, match=r"the gradient norm is nan.*the gradient of map\.weight"):
        loop_over(rows([4]), Root).run(resume=False)


def test_skip_leaves_the_update_out_and_is_bounded():
    callbacks = Quiet()
    loop = loop_over(rows([5, 2, 3]), Explodes, callbacks, steps=3, on_nonfinite="skip")
    loop.run(resume=False)
    assert loop.progress.skips == 1
    assert loop.progress.updates["main"] == 2
    assert all(torch.isfinite(t).all() for t in loop.network.tensors().values())
    assert [r["event"] for r in callbacks.rows if "event" in r] == ["skip"]
    with pytest.raises(NonFiniteError):
        loop_over(rows([5, 2, 3]), Explodes, steps=9, on_nonfinite="skip", max_skips=2).run(resume=False)


def test_rollback_goes_on_from_the_checkpoint_as_if_those_rows_had_never_been_there():
    good = rows([5, 2, 3])
    loop = loop_over(good, Explodes, steps=4, on_nonfinite="rollback", save_every=1)
    loop.run(resume=False)
    assert loop.progress.left_out == {"train": [5, 6]}
    without = loop_over(good, steps=4)
    without.progress.left_out = {"train": [5, 6]}
    without.run(resume=False)
    assert all(
        torch.equal(a, b) for a, b in zip(loop.network.tensors().values(), without.network.tensors().values(), strict=True)
    )


# ------------------------------------------------------------------------------------------------------------ whole runs


def small_run(**choices: Any) -> Run:
    learning = {"steps": 6, "batch_tokens": 200, "save_every": 2, "log_every": 1, "keep": 20, **choices.pop("learning", {})}
    structure = {"dim": 8, "encoder": partial(LSTM, bidirectional=True, layers=2, dropout=0.2), "decoder": AttentionLSTM}
    return Run(
        data=partial(Dates, train=100, valid=20, test=20),
        structure=partial(Seq2Seq, **structure),
        objective=NextToken,
        learning=partial(Gradient, **learning),
        **choices,
    )


def test_rates_are_factors_by_glob_and_the_first_that_fits_counts(tmp_path):
    """With plain gradient steps, how far a parameter goes is its rate times its gradient."""
    plain = {"steps": 1, "optimizer": partial(SGD, lr=0.5), "clip": 0.0}
    moved: dict[str, dict[str, torch.Tensor]] = {}
    for name, rates in (("one", None), ("other", {"encoder.*": 0.25, "embedder.*": 0.0, "*er.*": 3.0})):
        run = small_run(learning={**plain, "lr_factors": rates}).checked()
        run.train(tmp_path / name, quiet=True)
        before = load_file(tmp_path / name / "checkpoints" / "update-00000000" / "model.safetensors")
        after = load_file(tmp_path / name / "model.safetensors")
        moved[name] = {n: after[n] - before[n] for n in after}
    factors = {"encoder": 0.25, "embedder": 0.0, "decoder": 3.0}
    seen = set()
    for name, step in moved["one"].items():
        factor = factors.get(name.split(".")[0], 1.0)
        torch.testing.assert_close(moved["other"][name], factor * step, rtol=1e-4, atol=1e-7)
        seen |= {factor} if step.any() else set()
    assert seen == {0.25, 0.0, 3.0, 1.0}


def test_rates_of_the_learning_hold_in_every_phase_that_trains_such_a_part(tmp_path):
    phases = [partial(Phase, train=["decoder.*"]), partial(Phase, train=["encoder.*"])]
    small_run(learning={"lr_factors": {"encoder.*": 0.1}, "phases": phases}).train(tmp_path / "run", quiet=True)
    with pytest.raises(ValueError, match="lr_factors freezes all parameters of the phase"):
        small_run(learning={"lr_factors": {"encoder.*": 0.0}, "phases": phases}).train(tmp_path / "none", quiet=True)


def test_a_rate_for_nothing_is_refused(tmp_path):
    with pytest.raises(ValueError, match=r"lr_factors: 'encodr\.\*' matches no trained parameter"):
        small_run(learning={"lr_factors": {"encodr.*": 0.1}}).train(tmp_path / "run", quiet=True)


def final_digest(folder: Path) -> str:
    return digest(sorted((folder / "checkpoints").glob("**/update-*"))[-1])


VARIANTS = {
    "plain": {},
    "accumulate": {"learning": {"accumulate": 3}},
    "rates": {"learning": {"lr_factors": {"encoder.*": 0.1, "embedder.*": 0.0}}},
    "ema": {"learning": {"ema": partial(__import__("weft.learning", fromlist=["EMA"]).EMA, decay=0.5)}},
    "bf16": {"precision": "bf16"},
    "phases": {
        "learning": {
            "phases": [
                partial(Phase, train=["encoder.*", "embedder.*"]),
                partial(Phase, train=["decoder.*"], repeat=2, optimizer=partial(SGD, lr=0.1, momentum=0.9), every=2),
            ]
        }
    },
    "stages": {"stages": [partial(Stage, name="polish", learning=partial(Gradient, steps=4, batch_tokens=300, save_every=1))]},
}


@pytest.mark.parametrize("name", VARIANTS)
def test_a_run_stopped_after_any_save_and_resumed_ends_bit_identical(name, tmp_path, monkeypatch):
    small_run(**VARIANTS[name]).train(tmp_path / "whole", quiet=True)
    expected = final_digest(tmp_path / "whole")
    weights = digest(tmp_path / "whole" / "model.safetensors")
    saves = sum(json.loads(line)["event"] == "saved" for line in (tmp_path / "whole" / "log.jsonl").open())
    assert saves >= 4
    for stop in range(1, saves, 2):
        folder = tmp_path / f"stop-{stop}"
        real, count = StageCallbacks.save, [0]

        def save(self: StageCallbacks, *args: Any, real: Any = real, count: list[int] = count, stop: int = stop) -> None:
            real(self, *args)
            count[0] += 1
            if count[0] == stop:
                raise KeyboardInterrupt

        monkeypatch.setattr(StageCallbacks, "save", save)
        with pytest.raises(KeyboardInterrupt):
            small_run(**VARIANTS[name]).train(folder, quiet=True)
        monkeypatch.setattr(StageCallbacks, "save", real)
        small_run(**VARIANTS[name]).train(folder, resume=True, quiet=True)
        assert final_digest(folder) == expected
        assert digest(folder / "model.safetensors") == weights
        rounds = [(r["stage"], r["round"]) for r in map(json.loads, (folder / "log.jsonl").open()) if r["event"] == "update"]
        assert rounds == sorted(set(rounds)), "the log has every round once"


def test_the_same_seed_gives_the_same_bits_and_another_does_not(tmp_path):
    for name, seed in (("a", 1), ("b", 1), ("c", 2)):
        small_run(seed=seed).train(tmp_path / name, quiet=True)
    a, b, c = (digest(tmp_path / n / "model.safetensors") for n in "abc")
    assert a == b != c


def test_evaluation_disturbs_nothing(tmp_path):
    small_run().train(tmp_path / "without", quiet=True)
    small_run(evaluate=partial(Evaluation, every=1)).train(tmp_path / "with", quiet=True)
    assert digest(tmp_path / "without" / "model.safetensors") == digest(tmp_path / "with" / "model.safetensors")


def test_a_stop_that_was_asked_for_saves_and_can_be_resumed(tmp_path, monkeypatch):
    small_run(learning={"save_every": 0}).train(tmp_path / "whole", quiet=True)
    monkeypatch.setattr(StageCallbacks, "should_stop", lambda self: self.loop.progress.round == 3)
    with pytest.raises(Interrupted):
        small_run(learning={"save_every": 0}).train(tmp_path / "stopped", quiet=True)
    monkeypatch.undo()
    small_run(learning={"save_every": 0}).train(tmp_path / "stopped", resume=True, quiet=True)
    assert final_digest(tmp_path / "stopped") == final_digest(tmp_path / "whole")


def test_more_steps_may_be_asked_for_on_resume(tmp_path):
    small_run(learning={"steps": 8, "schedule": ConstantSchedule}).train(tmp_path / "whole", quiet=True)
    small_run(learning={"steps": 5, "schedule": ConstantSchedule}).train(tmp_path / "more", quiet=True)
    small_run(learning={"steps": 8, "schedule": ConstantSchedule}).train(tmp_path / "more", resume=True, quiet=True)
    assert final_digest(tmp_path / "more") == final_digest(tmp_path / "whole")


def test_other_changes_are_refused_on_resume_with_the_difference(tmp_path):
    small_run().train(tmp_path / "run", quiet=True)
    with pytest.raises(ValueError, match=r"seed: was 1, now 2"):
        small_run(seed=2).train(tmp_path / "run", resume=True, quiet=True)
    with pytest.raises(ValueError, match=r"learning\.steps: was 6, now 3; it can only be raised"):
        small_run(learning={"steps": 3}).train(tmp_path / "run", resume=True, quiet=True)
    with pytest.raises(ValueError, match="already contains a run"):
        small_run().train(tmp_path / "run", quiet=True)


def test_a_damaged_newest_checkpoint_is_reported_and_the_one_before_is_used(tmp_path, capsys):
    small_run().train(tmp_path / "whole", quiet=True)
    folder = tmp_path / "hurt"
    small_run().train(folder, quiet=True)
    newest = sorted((folder / "checkpoints").glob("update-*"))[-1]
    file = newest / "model.safetensors"
    data = bytearray(file.read_bytes())
    data[-1] ^= 1
    file.write_bytes(data)
    (folder / "model.safetensors").unlink()
    small_run().train(folder, resume=True)
    assert f"{newest} is damaged" in capsys.readouterr().err
    assert digest(folder / "model.safetensors") == digest(tmp_path / "whole" / "model.safetensors")


def test_the_final_weights_can_be_the_mean_of_the_last_checkpoints(tmp_path):
    from weft.learning import load_checkpoint, read_weights

    small_run(learning={"average": 3}).train(tmp_path / "run", quiet=True)
    paths = sorted((tmp_path / "run" / "checkpoints").glob("update-*"))[-3:]
    states = [load_checkpoint(p).tensors["model.safetensors"] for p in paths]
    final = read_weights(tmp_path / "run" / "model.safetensors")
    for name, tensor in final.items():
        torch.testing.assert_close(tensor, torch.stack([s[name] for s in states]).mean(0))


def test_patience_stops_early_and_best_keeps_the_best(tmp_path, monkeypatch):
    metric_values = iter([1.0, 0.5, 0.7, 0.8, 0.9, 0.9, 0.9])

    def judge(self: Any, *args: Any, **keywords: Any) -> Any:
        from weft.evaluate import EvaluationResult

        return EvaluationResult({"loss": next(metric_values, 0.9)}, higher_is_better={"loss": False})

    monkeypatch.setattr(Evaluation, "evaluate", judge)
    run = small_run(learning={"steps": 40, "patience": 2, "final": "best", "keep": 1}, evaluate=partial(Evaluation, every=1))
    run.train(tmp_path / "run", quiet=True)
    log = [json.loads(line) for line in (tmp_path / "run" / "log.jsonl").open()]
    assert max(r["round"] for r in log if r["event"] == "update") == 4
    best = tmp_path / "run" / "checkpoints" / "update-00000002"
    assert best.is_dir()
    from weft.learning import load_checkpoint, read_weights

    final = read_weights(tmp_path / "run" / "model.safetensors")
    kept = load_checkpoint(best).tensors["model.safetensors"]
    assert all(torch.equal(final[n], kept[n]) for n in final)


def test_a_stage_takes_weights_by_globs(tmp_path):
    from weft.learning import read_weights

    polish = partial(Gradient, steps=1, batch_tokens=200, optimizer=partial(SGD, lr=1e-9))
    run = small_run(stages=[partial(Stage, name="polish", learning=polish, start={"encoder.*": "encoder.*"})])
    run.train(tmp_path / "run", quiet=True)
    before = read_weights(tmp_path / "run" / "model-main.safetensors")
    after = read_weights(tmp_path / "run" / "model.safetensors")
    near = {n: torch.allclose(before[n], after[n], atol=1e-6) for n in before}
    assert all(v for n, v in near.items() if n.startswith("encoder."))
    assert not any(v for n, v in near.items() if n.startswith("decoder.") and n.endswith("weight"))
    assert load(tmp_path / "run").generate(["3 March 1999"])


def test_every_file_of_a_run_is_there_and_says_its_format(tmp_path):
    small_run(evaluate=partial(Evaluation, every=3)).train(tmp_path / "run", quiet=True)
    for name, version in {"metrics.json": 1, "ledger.json": 1, "environment.json": 1, "fields.json": 2}.items():
        assert json.loads((tmp_path / "run" / name).read_text())["format"] == version, name
    assert json.loads((tmp_path / "run" / "log.jsonl").open().readline())["format"] == 1
    assert "format: 1" in (tmp_path / "run" / "recipe.yaml").read_text()
    assert json.loads((next((tmp_path / "run" / "checkpoints").iterdir()) / "manifest.json").read_text())["format"] == 1
    assert (tmp_path / "run" / "curve.png").read_bytes()[:4] == b"\x89PNG"


def test_a_run_repeated_from_its_own_recipe_is_bit_identical(tmp_path):
    from weft.training.recipes import read_run

    small_run(precision="bf16").train(tmp_path / "first", quiet=True)
    train(read_run(tmp_path / "first" / "recipe.yaml"), tmp_path / "second")
    assert final_digest(tmp_path / "first") == final_digest(tmp_path / "second")
    assert (tmp_path / "first" / "metrics.json").read_text() == (tmp_path / "second" / "metrics.json").read_text()


def test_an_objective_that_is_not_in_the_catalog_cannot_be_trained(tmp_path):
    class Mine(NextToken):
        pass

    run = small_run()
    run.objective = Mine
    with pytest.raises(ValueError, match=r"Mine.*not in the catalog"):
        run.train(tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_rows_left_out_by_prepare_are_counted(tmp_path):
    @block("picky")
    class Picky(NextToken):
        """Learns from every second row only."""

        def prepare(self, example: Any, rng: np.random.Generator, pool: Any) -> Any:
            return super().prepare(example, rng, pool) if len(example["source"]) % 2 else None

    try:
        run = small_run()
        run.objective = Picky
        run.train(tmp_path / "run", quiet=True)
    finally:
        unregister(Picky)
    assert json.loads((tmp_path / "run" / "ledger.json").read_text())["nothing_to_learn"]["picky"] > 0
