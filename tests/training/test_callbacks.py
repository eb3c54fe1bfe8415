"""Callbacks of the training loop: what is logged, when a run is evaluated, when it stops."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from weft.core.contracts import Objective
from weft.core.io import read_lines
from weft.data import Dates
from weft.evaluate import Evaluation, EvaluationResult
from weft.evaluate.parts import EvaluationPart
from weft.learning import Gradient, Network, Progress
from weft.models import Seq2Seq
from weft.objectives import NextToken
from weft.training.callbacks import RunLog, StageCallbacks
from weft.training.display import Display
from weft.training.interrupt import StopRequest
from weft.training.resources import ResourceMeter
from weft.training.run_folder import RunFolder
from weft.training.saving import CheckpointPolicy


class Shown(Display):
    def __init__(self) -> None:
        self.calls: list[tuple[Any, ...]] = []

    def message(self, text: str) -> None:
        self.calls.append(("message", text))

    def update(self, row: Any, padding: float) -> None:
        self.calls.append(("update", row["step"], padding))

    def show_evaluation(self, step: int, metric_values: Any, remarks: Any = ()) -> None:
        self.calls.append(("evaluation", step, dict(metric_values)))


class Board:
    def __init__(self) -> None:
        self.rows: list[Any] = []

    def add(self, row: Any) -> None:
        self.rows.append(row)

    def close(self) -> None:
        self.rows.append("closed")


def make_callbacks(path: Path, **evaluation: Any) -> StageCallbacks:
    torch.manual_seed(0)
    corpus = Dates(train=8, valid=6, test=4).open()
    info = corpus.codec.info
    network = Network(Seq2Seq(info, dim=8), {"": NextToken(info, 8)})
    chosen = Evaluation(**evaluation)
    folder, display = RunFolder(path), Shown()
    return StageCallbacks(
        seed=1,
        stage=2,
        network=network,
        parts={"": EvaluationPart(chosen, network.objectives[""], corpus.codec, corpus.splits)},
        evaluation=chosen,
        policy=CheckpointPolicy(folder, path / "checkpoints", Gradient(steps=4), 2, display),
        log=RunLog(folder),
        display=display,
        meter=ResourceMeter(),
        stop=StopRequest(display),
        feeds=[],
        device=torch.device("cpu"),
    )


def test_a_log_entry_has_the_stage_and_reaches_file_and_display(tmp_path):
    callbacks = make_callbacks(tmp_path)
    callbacks.on_log({"step": 3, "loss": 0.5})
    assert read_lines(tmp_path / "log.jsonl") == [{"event": "train", "stage": 2, "step": 3, "loss": 0.5}]
    assert isinstance(callbacks.display, Shown) and callbacks.display.calls == [("update", 3, 0.0)]


def test_tensorboard_receives_values_but_no_problems(tmp_path):
    log = RunLog(RunFolder(tmp_path))
    board: Any = Board()
    log.tracker = board
    log.write({"step": 1, "loss": 0.5})
    log.write({"event": "skip", "step": 2, "problem": "the loss is nan"})
    log.close()
    assert board.rows == [{"step": 1, "loss": 0.5}, "closed"]
    assert len(read_lines(tmp_path / "log.jsonl")) == 2


@pytest.mark.parametrize(("every", "due"), [(0, []), (1, [1, 2, 3, 4]), (2, [2, 4]), (5, [])])
def test_evaluation_is_due_every_n_rounds(tmp_path, every, due):
    callbacks = make_callbacks(tmp_path, every=every)
    assert [n for n in range(1, 5) if callbacks.should_evaluate(Progress(step=n), last=n == 4)] == due


def test_a_split_that_does_not_exist_is_never_evaluated(tmp_path):
    assert not make_callbacks(tmp_path, every=1, split="dev").should_evaluate(Progress(step=1), last=False)


def test_evaluation_logs_the_metrics_and_returns_a_score_that_is_higher_for_a_lower_loss(tmp_path):
    callbacks = make_callbacks(tmp_path, every=1)
    score = callbacks.evaluate(Progress(step=4), last=False)
    row = read_lines(tmp_path / "log.jsonl")[0]
    assert (row["event"], row["stage"], row["step"]) == ("valid", 2, 4)
    assert score == -row["valid"]["loss"] < 0
    assert isinstance(callbacks.display, Shown) and callbacks.display.calls == [("evaluation", 4, row["valid"])]


@pytest.mark.parametrize(("higher", "best"), [(True, 0.5), (False, -0.5)])
def test_early_stopping_is_logged_and_shown(tmp_path, monkeypatch, higher, best):
    callbacks = make_callbacks(tmp_path, every=1, monitor="accuracy")
    progress = Progress(step=1500, best=0.5, best_step=1200, stale=3, stopped=True)
    callbacks.report_early_stop(progress, 3)
    assert not (tmp_path / "log.jsonl").exists(), "the session that has stopped has reported it"
    result = EvaluationResult({"accuracy": 0.1}, higher_is_better={"accuracy": higher})
    monkeypatch.setattr(Evaluation, "evaluate", lambda *args, **options: result)
    callbacks.evaluate(progress, last=False)
    callbacks.log.board = Board()
    callbacks.report_early_stop(progress, 3)
    assert read_lines(tmp_path / "log.jsonl")[-1] == {
        "event": "stopped",
        "stage": 2,
        "step": 1500,
        "monitor": "accuracy",
        "patience": 3,
        "best": best,
        "best_step": 1200,
    }
    text = "early stopping at step 1,500: accuracy has not improved in 3 evaluations (patience 3); best {:.4f} at step 1,200"
    assert callbacks.display.calls[-1] == ("message", text.format(best))
    assert callbacks.log.board.rows == []
    callbacks.report_early_stop(Progress(step=2, stale=2, stopped=True), 2)
    assert callbacks.display.calls[-1][1].endswith("(patience 2); it was never finite")


def test_evaluation_uses_the_first_objective_and_at_most_max_examples(tmp_path, monkeypatch):
    seen: list[Any] = []

    def evaluate(
        self: Any, model: Any, objective: Objective, dataset: Any, codec: Any, device: Any, limit: int, last: bool, key: Any
    ) -> Any:
        seen.append((objective, len(dataset), limit, last))
        return EvaluationResult({"loss": 1.0}, higher_is_better={"loss": False}, remarks=["too few examples"])

    monkeypatch.setattr(Evaluation, "evaluate", evaluate)
    callbacks = make_callbacks(tmp_path, every=1, max_examples=3)
    callbacks.evaluate(Progress(step=1), last=True)
    assert seen == [(callbacks.network.objectives[""], 6, 3, False)]
    assert read_lines(tmp_path / "log.jsonl")[0]["remarks"] == ["too few examples"]


def test_a_saved_checkpoint_can_be_restored_and_marks_the_stage_as_saved(tmp_path):
    callbacks = make_callbacks(tmp_path)
    assert not callbacks.saved
    state = {"progress": {"step": 2, "best_step": None}, "optimizers": {}}
    callbacks.save({"model.safetensors": {"w": torch.ones(2)}}, {"state.json": state}, Progress(step=2))
    tensors, documents = callbacks.restore()
    assert callbacks.saved and documents["state.json"] == state
    assert torch.equal(tensors["model.safetensors"]["w"], torch.ones(2))


def test_the_loop_stops_once_a_stop_is_requested(tmp_path):
    callbacks = make_callbacks(tmp_path)
    assert not callbacks.should_stop()
    callbacks.stop.requested = True
    assert callbacks.should_stop()
