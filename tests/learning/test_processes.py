"""Several processes compute what one does: the same loss curve, the same decisions, and exact resume after kills."""

from __future__ import annotations

import contextlib
import json
import math
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
from tests.commands import FORKS
from torch import nn

from weft.blocks import LSTM, AttentionLSTM
from weft.core.batch import Batch, Clock
from weft.core.contracts import Objective, Structure
from weft.core.fields import Info
from weft.core.io import read_json, read_lines
from weft.core.loss import Loss, Term
from weft.data import Dates
from weft.evaluate import Evaluation
from weft.generate import GreedySearch
from weft.learning import (
    DDP,
    EMA,
    FSDP,
    SGD,
    Adam,
    AllReduce,
    Gradient,
    Interrupted,
    Network,
    NonFiniteError,
    Phase,
    Processes,
    TrainingLoop,
    digest,
    join_processes,
)
from weft.learning.checkpoint import load
from weft.models import Seq2Seq
from weft.objectives import NextToken
from weft.training import artifacts
from weft.training.callbacks import StageCallbacks
from weft.training.run import Run
from weft.training.saving import CheckpointPolicy

ROOT = Path(__file__).parent.parent.parent


# ------------------------------------------------------------------------------------------------------------- processes


def _port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return free.getsockname()[1]


def _work(act: Callable[..., Any], rank: int, world: int, port: int, folder: Path, given: dict[str, Any]) -> None:
    os.environ |= {"RANK": str(rank), "LOCAL_RANK": str(rank), "WORLD_SIZE": str(world)}
    os.environ |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
    torch.set_num_threads(1)
    error = os.open(folder / f"{rank}.txt", os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    os.dup2(error, 2)
    found = act(folder=folder, **given)
    (folder / f"{rank}.json").write_text(json.dumps(found))


def start(world: int, act: Callable[..., Any], folder: Path, **given: Any) -> list[Any]:
    """Processes as torchrun would start them, each running ``act``."""
    folder.mkdir(exist_ok=True)
    port = _port()
    started = [FORKS.Process(target=_work, args=(act, rank, world, port, folder, given), daemon=True) for rank in range(world)]
    for process in started:
        process.start()
    return started


def wait(started: list[Any]) -> list[int]:
    for process in started:
        process.join(60)
    codes = [process.exitcode for process in started]
    for process in started:
        process.kill()
    assert None not in codes, f"a process hangs: {codes}"
    return codes


def run_processes(world: int, act: Callable[..., Any], folder: Path, **given: Any) -> list[Any]:
    """What ``act`` gives in each process."""
    codes = wait(start(world, act, folder, **given))
    assert codes == [0] * world, "\n".join((folder / f"{rank}.txt").read_text() for rank in range(world))
    return [json.loads((folder / f"{rank}.json").read_text()) for rank in range(world)]


# ------------------------------------------------------------------------------------------------------------------ a run


def dates(learning: dict[str, Any], **more: Any) -> Run:
    """Short examples in small batches: in some a second process has no examples, others are split unevenly."""
    choices = {
        "steps": 100,
        "batch_tokens": 90,
        "accumulate": 2,
        "save_every": 10,
        "keep": 20,
        "log_every": 1,
        "optimizer": partial(Adam, lr=0.008),
    }
    return Run(
        data=partial(Dates, train=60, valid=6, test=6),
        structure=partial(Seq2Seq, dim=32, encoder=LSTM, decoder=AttentionLSTM),
        objective=NextToken,
        learning=partial(Gradient, **{**choices, **learning}),
        **{"device": "cpu", "evaluate": partial(Evaluation, search=partial(GreedySearch, max_length=12)), **more},
    )


def train_dates(folder: Path, run: str = "run", resume: bool = False, slow: float = 0.0, **learning: Any) -> dict[str, Any]:
    """Train. Return the examples of this process by epoch, and the sizes of its batches."""
    seen: dict[int, list[int]] = {}
    sizes: list[int] = []
    update = TrainingLoop.update

    def recording_update(self: TrainingLoop, phase: Any, micro_batches: Any, *where: Any) -> Any:
        first = self.progress.batches[phase.name] - phase.accumulate
        for draw, micro in enumerate(micro_batches, first):
            if micro.real:
                seen.setdefault(draw // len(phase.feed), []).extend(micro.batch.rows)
            sizes.append(len(micro.batch) * micro.real)
        time.sleep(slow)
        return update(self, phase, micro_batches, *where)

    TrainingLoop.update, artifacts.draw_curve = recording_update, lambda *args: None
    stopped = False
    try:
        dates(learning).train(folder / run, resume=resume, quiet=True, keep=True)
    except Interrupted:
        stopped = True
    finally:
        TrainingLoop.update = update
    return {"seen": seen, "sizes": sizes, "stopped": stopped}


def updates(run: Path) -> list[dict[str, Any]]:
    return [row for row in read_lines(run / "log.jsonl") if row["event"] == "train"]


def assert_same_curve(one: Path, other: Path, tolerance: float = 1e-6, steps: int = 100) -> None:
    """Assert that two runs have the same loss curve."""
    ours, theirs = updates(one)[:steps], updates(other)[:steps]
    assert [row["step"] for row in ours] == [row["step"] for row in theirs]
    for a, b in zip(ours, theirs, strict=True):
        for name in ("loss", "tokens", "epoch", "lr"):
            assert a[name] == pytest.approx(b[name], rel=tolerance), (a["step"], name)
        assert a["grad_norm"] == pytest.approx(b["grad_norm"], rel=100 * tolerance)


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of a single process."""
    folder = tmp_path_factory.mktemp("alone")
    run_processes(1, train_dates, folder)
    return folder / "run"


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[Any]]:
    """A run of two processes, and the examples of each."""
    folder = tmp_path_factory.mktemp("both")
    results = run_processes(2, train_dates, folder)
    return folder / "run", results


def test_two_processes_have_the_loss_curve_of_one(alone, both):
    run, results = both
    assert_same_curve(alone, run)
    losses = [row["loss"] for row in updates(run)]
    assert losses[-1] < losses[0] / 2
    sizes = list(zip(*(one["sizes"] for one in results), strict=True))
    assert any(0 in pair for pair in sizes), "every process has examples of every batch"
    assert any(a != b for a, b in sizes if a and b), "every batch is split evenly"


def test_each_example_is_seen_once_per_epoch(both):
    _, results = both
    full_epochs = [epoch for epoch in results[0]["seen"] if str(int(epoch) + 1) in results[0]["seen"]]
    assert len(full_epochs) >= 2
    for epoch in full_epochs:
        parts = [one["seen"].get(epoch, []) for one in results]
        assert sorted(row for part in parts for row in part) == list(range(60))
        assert all(len(part) > 15 for part in parts), "one process has most of the examples"


def test_only_the_first_process_writes_and_its_files_cover_all(alone, both):
    run, _ = both
    assert sorted(p.name for p in run.iterdir()) == sorted(p.name for p in alone.iterdir())
    ours, theirs = read_json(run / "ledger.json"), read_json(alone / "ledger.json")
    assert ours["nothing_to_learn"] == theirs["nothing_to_learn"]
    assert len([row for row in read_lines(run / "log.jsonl") if row["event"] == "begun"]) == 1
    metric_values = [read_json(r / "metrics.json")["loss"] for r in (run, alone)]
    assert metric_values[0] == pytest.approx(metric_values[1], rel=1e-4)


# ------------------------------------------------------------------------------------------------------- killed, stopped


def at_step(run: Path, step: int) -> None:
    """Wait until the log has reached a step."""
    until = time.monotonic() + 60
    while not (run / "log.jsonl").exists() or not any(row["step"] >= step for row in updates(run)):
        assert time.monotonic() < until, "the run did not reach the step"
        time.sleep(0.005)


@pytest.mark.parametrize("victims", [[1], [0, 1]])
def test_killed_processes_resume_bit_identically(victims, both, tmp_path):
    started = start(2, train_dates, tmp_path, slow=0.01, steps=30)
    at_step(tmp_path / "run", 12)
    for victim in victims:
        started[victim].kill()
    assert all(wait(started))
    for rank in {0, 1} - set(victims):
        output = (tmp_path / f"{rank}.txt").read_text()
        assert "another process has exited" in output
        assert "Traceback" not in output
    run_processes(2, train_dates, tmp_path, resume=True, steps=30)
    ours, theirs = (run / "checkpoints" / "step-00000030" for run in (tmp_path / "run", both[0]))
    assert digest(ours) == digest(theirs)
    assert [row["loss"] for row in updates(tmp_path / "run")] == [row["loss"] for row in updates(both[0])][:30]


def test_a_signal_to_one_process_stops_all_and_another_number_of_processes_can_resume(alone, tmp_path):
    started = start(2, train_dates, tmp_path, slow=0.01, steps=30)
    at_step(tmp_path / "run", 12)
    os.kill(started[1].pid, signal.SIGTERM)
    assert wait(started) == [0, 0]
    results = [json.loads((tmp_path / f"{rank}.json").read_text()) for rank in range(2)]
    assert [one["stopped"] for one in results] == [True, True]
    assert len(results[0]["sizes"]) == len(results[1]["sizes"]) < 60
    stopped = updates(tmp_path / "run")[-1]["step"]
    saved = sorted((tmp_path / "run" / "checkpoints").glob("step-*"))[-1]
    assert saved.name == f"step-{stopped:08}"
    run_processes(3, train_dates, tmp_path, resume=True, steps=30)
    assert_same_curve(alone, tmp_path / "run", steps=30)


# --------------------------------------------------------------------------------------------------- phases, uneven batches


class Heads(Structure):
    def __init__(self, info: Info):
        super().__init__(info)
        self.dim = 3
        self.body, self.head, self.second_head, self.idle = nn.Linear(3, 3), nn.Linear(3, 1), nn.Linear(3, 1), nn.Linear(3, 1)
        self.norm = nn.BatchNorm1d(3)


class TwoHeads(Objective):
    """Errors of all examples, and those of marked ones by a second head, which a batch without marked examples does not use."""

    def __init__(self, info: Info, dim: int, normed: bool = False):
        super().__init__(info, dim)
        self.normed = normed

    def prepare(self, example: Any, rng: Any, pool: Any) -> None:
        raise AssertionError("the batches are built by hand")

    def counts(self, batch: Batch) -> dict[str, int]:
        marked = int(batch["mark"].sum())
        return {"all": len(batch)} | ({"marked": marked} if marked else {})

    def forward(self, model: Any, batch: Batch, clock: Clock) -> Loss:
        hidden = model.body(batch["x"])
        hidden = torch.tanh(model.norm(hidden) if self.normed else hidden)
        loss = Loss({"all": Term(((model.head(hidden)[:, 0] - batch["y"]) ** 2).sum(), len(batch))})
        if self.counts(batch).get("marked"):
            error = (model.second_head(hidden)[:, 0] + batch["y"]) ** 2
            loss["marked"] = Term((error * batch["mark"]).sum(), self.counts(batch)["marked"], 0.3)
        return loss


class OnlyMarked(TwoHeads):
    """The loss of a batch without marked examples does not depend on the trained parameters."""

    def forward(self, model: Any, batch: Batch, clock: Clock) -> Loss:
        loss = super().forward(model, batch, clock)
        loss["all"] = Term(loss["all"].total.detach(), len(batch))
        return loss


class SplitBatches:
    """Batches of fixed sizes, split over the processes."""

    def __init__(self, sizes: list[int], bad: int | None):
        g = torch.Generator().manual_seed(0)
        self.x, self.y = torch.randn(sum(sizes), 3, generator=g), torch.randn(sum(sizes), generator=g)
        self.mark, self.name = (torch.arange(sum(sizes)) % 4 == 1).float(), "fixed"
        if bad is not None:
            self.x[bad] = math.nan
        firsts = [sum(sizes[:i]) for i in range(len(sizes))]
        self.rows = [list(range(first, first + size)) for first, size in zip(firsts, sizes, strict=True)]

    def counts(self) -> dict[str, int]:
        return {}

    def __len__(self) -> int:
        return len(self.rows)

    def batch(self, draw: int, without: frozenset[int] = frozenset(), rank: int = 0, world: int = 1) -> Batch | None:
        rows = [row for row in self.rows[draw % len(self.rows)] if row not in without][rank::world]
        if not rows:
            return None
        return Batch({name: getattr(self, name)[rows] for name in ("x", "y", "mark")}, len(rows), tuple(rows))


class InMemoryCallbacks:
    """Keeps the last checkpoint in memory; the score improves until step 4."""

    def __init__(self, every: int = 0):
        self.logs: list[dict[str, Any]] = []
        self.saved: Any = None
        self.every = every

    def on_log(self, row: dict[str, Any]) -> None:
        self.logs.append(row)

    def should_evaluate(self, progress: Any, last: bool) -> bool:
        return bool(self.every) and progress.step % self.every == 0

    def evaluate(self, progress: Any, last: bool) -> float | None:
        return float(min(progress.step, 4))

    def save(self, tensors: Any, documents: Any, progress: Any) -> None:
        copies = {f: {n: t.clone() for n, t in named.items()} for f, named in tensors.items()}
        self.saved = (copies, json.loads(json.dumps(documents)))

    def restore(self) -> Any:
        return self.saved

    def should_stop(self) -> bool:
        return False


PHASES = [
    partial(Phase, train=["body.*", "head.*", "second_head.*", "norm.*", "idle.*"], accumulate=2),
    partial(Phase, train=["second_head.*"], repeat=2),
]


def run_loop(
    folder: Path,
    kind: str = "some",
    sizes: tuple[int, ...] = (5, 1, 4, 4, 7),
    bad: int | None = None,
    every: int = 0,
    **choices: Any,
) -> dict[str, Any]:
    """Return weights, parameters with an optimizer state, log and progress after some steps of two phases, uneven batches."""
    info = Info({})
    with join_processes() as processes:
        torch.manual_seed(processes.rank)  # initial weights differ and must be synchronized
        objective = OnlyMarked(info, 3) if kind == "only" else TwoHeads(info, 3, kind == "normed")
        objective.couples = kind == "couples"
        network, callbacks = Network(Heads(info), {"": objective}), InMemoryCallbacks(every)
        learning = Gradient(**{"steps": 12, "log_every": 1, "phases": PHASES, "optimizer": partial(Adam, lr=0.02), **choices})
        feed, cpu = SplitBatches(list(sizes), bad), torch.device("cpu")
        message = ""
        try:
            loop = TrainingLoop(
                network, learning, lambda *_: feed, callbacks, seed=1, stage=0, device=cpu, precision="fp32", processes=processes
            )
            loop.run(resume=False)
        except (NonFiniteError, ValueError) as error:
            message = str(error)
            return {"error": message, "rows": getattr(error, "rows", [])}
        return {
            "weights": {name: tensor.tolist() for name, tensor in network.tensors().items()},
            "moved": [sorted(n for n, p in a.parameters.items() if a.optimizer.state.get(p)) for a in loop.phases],
            "logs": callbacks.logs,
            "progress": {"step": loop.progress.step, "skipped": loop.progress.skipped, "left_out": loop.progress.left_out},
        }


def assert_same_result(ours: Any, theirs: Any) -> None:
    for name, value in theirs["weights"].items():
        torch.testing.assert_close(torch.tensor(ours["weights"][name]), torch.tensor(value), rtol=1e-5, atol=1e-6)
    assert ours["moved"] == theirs["moved"]
    assert {k: sorted(v) if isinstance(v, list) else v for k, v in ours["progress"].items()} == theirs["progress"]


@pytest.mark.parametrize("world", [2, 3])
def test_unused_heads_and_processes_without_examples_equal_one_process(world, tmp_path):
    """Updates equal those of one process; parameters that no process used have no gradient and no optimizer state."""
    one, *many = run_processes(1, run_loop, tmp_path) + run_processes(world, run_loop, tmp_path)
    for results in many:
        assert_same_result(results, one)
    assert many[0]["weights"] == many[1]["weights"]
    assert not any("idle" in name for name in many[0]["moved"][0])
    for ours, theirs in zip(many[0]["logs"], one["logs"], strict=True):
        for name in ("phase-0/loss", "phase-0/all", "phase-1/loss", "phase-0/grad_norm"):
            assert ours[name] == pytest.approx(theirs[name], rel=1e-5)
    assert many[1]["logs"] == [], "only the first process logs"


@pytest.mark.parametrize("sync", [DDP, AllReduce])
def test_a_process_whose_examples_reach_no_trained_parameter(sync, tmp_path):
    """All marked examples belong to the second process."""
    given = {"kind": "only", "sizes": (8, 4, 4), "phases": PHASES[:1], "sync": sync}
    one, *both = run_processes(1, run_loop, tmp_path, **given) + run_processes(2, run_loop, tmp_path, **given)
    for results in both:
        for name, value in one["weights"].items():
            torch.testing.assert_close(torch.tensor(results["weights"][name]), torch.tensor(value), rtol=1e-5, atol=1e-6)
    assert both[0]["weights"] == both[1]["weights"]


@pytest.mark.parametrize("sync", [DDP, AllReduce])
def test_unused_heads_in_a_single_phase(sync, tmp_path):
    given = {"phases": PHASES[:1], "sync": sync}
    one, *both = run_processes(1, run_loop, tmp_path, **given) + run_processes(2, run_loop, tmp_path, **given)
    for results in both:
        assert_same_result(results, one)
    assert not any("idle" in name for name in both[0]["moved"][0])


def test_batch_statistics_are_equal_in_all_processes(tmp_path):
    first, second = run_processes(2, run_loop, tmp_path, kind="normed", sizes=(8, 5, 4))
    assert first["weights"] == second["weights"]
    assert first["weights"]["norm.running_mean"] != [0.0] * 3


def test_phases_that_share_parameters_are_refused_by_ddp_and_fsdp(tmp_path):
    for results in run_processes(2, run_loop, tmp_path, sync=DDP):
        assert "2 are trained by several phases (second_head.bias, ...); use sync: all-reduce" in results["error"]
    for results in run_processes(2, run_loop, tmp_path, sync=FSDP):
        assert "sync: fsdp does not support several phases" in results["error"]


@pytest.mark.parametrize("policy", ["skip", "rollback", "stop"])
def test_a_non_finite_loss_in_one_process_is_handled_by_all(policy, tmp_path):
    given = {"on_nonfinite": policy, "bad": 7, "max_skips": 50}  # example 7 is the second of its batch, so process 1 has it
    one, *many = run_processes(1, run_loop, tmp_path, **given) + run_processes(2, run_loop, tmp_path, **given)
    if policy == "stop":
        assert {results["error"].partition("; examples")[0] for results in [one, *many]} == {
            one["error"].partition("; examples")[0]
        }
        assert "first non-finite value in body (Linear)" in one["error"]
        assert sorted(many[0]["rows"]) == sorted(many[1]["rows"]) == sorted(one["rows"])
        return
    for results in many:
        results["progress"]["skipped"] = {k: sorted(v) for k, v in results["progress"]["skipped"].items()}
    one["progress"]["skipped"] = {k: sorted(v) for k, v in one["progress"]["skipped"].items()}
    for results in many:
        assert_same_result(results, one)


def test_early_stopping_stops_all_processes(tmp_path):
    results = run_processes(2, run_loop, tmp_path, every=1, patience=2)
    assert [one["progress"]["step"] for one in results] == [6, 6]


def train_to_the_best(folder: Path) -> list[str]:
    """Train a run whose last evaluation is the best, while the first process is slow to save."""
    save = CheckpointPolicy.save

    def save_late(self: CheckpointPolicy, *given: Any, **named: Any) -> Path:
        time.sleep(0.5)
        return save(self, *given, **named)

    CheckpointPolicy.save, artifacts.draw_curve = save_late, lambda *args: None
    evaluate = partial(Evaluation, every=4, search=partial(GreedySearch, max_length=12))
    learning = {"steps": 4, "save_every": 4, "keep": 1, "final": "best"}
    trained = dates(learning, evaluate=evaluate).train(folder / "run", quiet=True)
    return [f"{name} {weight.sum().item()!r}" for name, weight in trained.model.named_parameters()]


def test_the_best_weights_are_those_of_the_first_process(tmp_path):
    first, second = run_processes(2, train_to_the_best, tmp_path)
    assert first == second


def test_objectives_whose_examples_interact_are_refused(tmp_path):
    for results in run_processes(2, run_loop, tmp_path, kind="couples"):
        assert "a batch cannot be split over 2 processes; train with a single process" in results["error"]


# ------------------------------------------------------------------------------------------------------------------ fsdp


def train_sharded(folder: Path, stop: int = 0, resume: bool = False) -> dict[str, Any]:
    """Train with sharded weights, a moving average and evaluation. Return the fraction of the weights in this process."""
    fractions: list[float] = []
    original_run, wants = TrainingLoop.run, StageCallbacks.should_stop

    def run(self: TrainingLoop, resume: bool) -> None:
        parameters: list[Any] = list(self.network.parameters().values())
        fractions.append(sum(p.to_local().numel() for p in parameters) / sum(p.numel() for p in parameters))
        original_run(self, resume)

    TrainingLoop.run, artifacts.draw_curve = run, lambda *args: None
    StageCallbacks.should_stop = lambda self: wants(self) or (bool(stop) and self.loop.progress.step == stop)
    choices = {"steps": 8, "sync": FSDP, "save_every": 4, "ema": partial(EMA, decay=0.5)}
    with contextlib.suppress(Interrupted):
        dates(choices, evaluate=quick()).train(folder / "sharded", resume=resume, quiet=True, keep=True)
    return {"fraction": fractions[0]}


def quick() -> Any:
    return partial(Evaluation, every=2, search=partial(GreedySearch, max_length=12))


def test_sharded_weights_have_the_same_updates_and_full_checkpoints(tmp_path):
    dates({"steps": 8, "save_every": 4, "ema": partial(EMA, decay=0.5)}, evaluate=quick()).train(
        tmp_path / "plain", quiet=True, keep=True
    )
    results = run_processes(2, train_sharded, tmp_path, stop=3)
    assert sorted(p.name for p in (tmp_path / "sharded" / "checkpoints").glob("step-*"))[-1] == "step-00000003"
    assert all(0.3 < one["fraction"] < 0.7 for one in results)
    run_processes(2, train_sharded, tmp_path, resume=True)
    assert_same_curve(tmp_path / "plain", tmp_path / "sharded", 1e-5)
    ours, theirs = (load(sorted((tmp_path / n / "checkpoints").glob("step-*"))[-1]).tensors for n in ("sharded", "plain"))
    assert ours.keys() == theirs.keys()
    for file in theirs:
        for name, tensor in theirs[file].items():
            torch.testing.assert_close(ours[file][name], tensor, rtol=1e-4, atol=1e-5)
    valid = [
        [r["valid"]["loss"] for r in read_lines(tmp_path / n / "log.jsonl") if r["event"] == "valid"]
        for n in ("sharded", "plain")
    ]
    assert len(valid[0]) == 4
    assert valid[0] == pytest.approx(valid[1], rel=1e-5)


MOMENTUM = {"steps": 3, "optimizer": partial(SGD, lr=0.1, momentum=0.9)}


def train_sharded_with_momentum(folder: Path) -> None:
    artifacts.draw_curve = lambda *args: None
    dates(MOMENTUM | {"sync": FSDP}).train(folder / "sharded", quiet=True, keep=True)


def test_sharded_weights_have_the_same_updates_with_sgd(tmp_path):
    dates(MOMENTUM).train(tmp_path / "plain", quiet=True, keep=True)
    run_processes(2, train_sharded_with_momentum, tmp_path)
    assert_same_curve(tmp_path / "plain", tmp_path / "sharded", 1e-5)


# ----------------------------------------------------------------------------------------------------- communication


def run_collectives(folder: Path) -> dict[str, Any]:
    with join_processes() as processes:
        rank = processes.rank
        long = processes.gather({"rank": rank, "text": "x" * 5000 * rank})
        tensors = {"a": torch.full((2, 3), 1.5 + rank, dtype=torch.bfloat16), "b": torch.tensor(rank), "c": torch.empty(0)}
        shared = processes.broadcast_tensors(tensors if processes.is_main else None)
        with processes.main_first():
            there = (folder / "marker").exists()
            (folder / "marker").touch()
        return {
            "long": [len(one["text"]) for one in long],
            "sum": processes.sum({"both": 0.5, f"only-{rank}": rank}),
            "any": [processes.any(rank == 1), processes.any(False)],
            "broadcast": processes.broadcast({"from": rank}),
            "on_main": processes.on_main(lambda: f"by {rank}"),
            "tensors": {name: [tensor.float().tolist(), str(tensor.dtype)] for name, tensor in shared.items()},
            "there": there,
        }


def test_collective_operations_of_two_processes(tmp_path):
    first, second = run_processes(2, run_collectives, tmp_path)
    assert (first.pop("there"), second.pop("there")) == (False, True)
    assert first == second
    assert first["long"] == [0, 5000]
    assert first["sum"] == {"both": 1.0, "only-0": 0, "only-1": 1}
    assert first["any"] == [True, False]
    assert (first["broadcast"], first["on_main"]) == ({"from": 0}, "by 0")
    assert first["tensors"]["a"] == [[[1.5] * 3] * 2, "torch.bfloat16"]
    assert first["tensors"]["b"] == [0.0, "torch.int64"]


def test_collective_operations_of_a_single_process():
    alone = Processes()
    assert alone.gather(3) == [3]
    assert alone.sum({"a": 1}) == {"a": 1}
    assert alone.is_main


def train_into_a_used_folder(folder: Path) -> None:
    (folder / "run").mkdir(exist_ok=True)
    (folder / "run" / "mine.txt").touch()
    dates({}).train(folder / "run", quiet=True, keep=True)


def test_all_processes_exit_if_the_first_fails(tmp_path):
    assert wait(start(2, train_into_a_used_folder, tmp_path)) == [1, 1]
    assert "is not empty and not a run folder" in (tmp_path / "0.txt").read_text()
    assert "Traceback" not in (tmp_path / "1.txt").read_text()


def test_torchrun(tmp_path):
    """The command line with torchrun: the default run folder, and all options behind ``--``."""
    recipe = ["dates", "data.train=40", "data.valid=4", "data.test=4", "structure.dim=8", "learning.steps=3", "device=cpu"]
    command = ["torch.distributed.run", "--standalone", "--nproc-per-node", "2", "-m", "weft", "train", *recipe, "--quiet"]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT / "src")}
    done = subprocess.run(
        [sys.executable, "-m", *command, "learning.log_every=1"], cwd=tmp_path, env=environment, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    assert [p.name for p in (tmp_path / "runs").iterdir()] == ["dates-1"]
    assert [row["step"] for row in updates(tmp_path / "runs" / "dates-1")] == [1, 2, 3]
    command = [*command[:4], "-m", "--", "weft", "train", "runs/dates-1", "--run", "again", "--processes", "2", "--quiet"]
    again = subprocess.run([sys.executable, "-m", *command], cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert again.returncode == 0, again.stderr
    assert digest(tmp_path / "again" / "model.safetensors") == digest(tmp_path / "runs" / "dates-1" / "model.safetensors")
