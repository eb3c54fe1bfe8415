"""Checkpoint policy: which checkpoints are kept, resumed from, and become the final weights."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest
import torch

from weft.core.io import read_lines
from weft.learning import Gradient, Progress
from weft.training.display import Display
from weft.training.run_folder import FolderError, RunFolder
from weft.training.saving import CheckpointPolicy


class Messages(Display):
    def __init__(self) -> None:
        self.lines: list[str] = []

    def message(self, text: str) -> None:
        self.lines.append(text)


def make_policy(path: Path, **options: Any) -> CheckpointPolicy:
    learning = Gradient(**{"steps": 100, "save_every": 10, "keep": 2, **options})
    path.mkdir(exist_ok=True)
    return CheckpointPolicy(RunFolder(path), path / "checkpoints", learning, 0, Messages())


def save(policy: CheckpointPolicy, step: int, **progress: Any) -> None:
    """Save a checkpoint whose only weight is the number of the step."""
    now = Progress(step=step, **progress)
    tensors = {"model.safetensors": {"w": torch.tensor([float(step)])}}
    policy.save(tensors, {"state.json": {"progress": asdict(now), "optimizers": {}}}, now)


def saved(policy: CheckpointPolicy) -> list[int]:
    return [int(path.name.removeprefix("step-")) for path in sorted(policy.checkpoints.folder.glob("step-*"))]


def damage(policy: CheckpointPolicy, step: int) -> None:
    (policy.checkpoints.folder / f"step-{step:08d}" / "model.safetensors").write_bytes(b"damaged")


def test_the_last_checkpoints_and_the_best_are_kept(tmp_path):
    policy = make_policy(tmp_path)
    for step in (0, 10, 20, 30, 40):
        save(policy, step, best_step=10 if step >= 10 else None)
    assert saved(policy) == [10, 30, 40]


def test_a_checkpoint_of_an_interruption_displaces_no_other_and_goes_with_the_next(tmp_path):
    policy = make_policy(tmp_path)
    for step in (0, 10, 20):
        save(policy, step)
    save(policy, 23)
    assert saved(policy) == [10, 20, 23]
    save(policy, 30)
    assert saved(policy) == [20, 30], "as without the interruption"


def test_every_save_is_logged_before_and_after(tmp_path):
    policy = make_policy(tmp_path)
    save(policy, 10)
    assert [(row["event"], row["stage"], row["step"]) for row in read_lines(tmp_path / "log.jsonl")] == [
        ("saving", 0, 10),
        ("saved", 0, 10),
    ]


def test_without_checkpoints_there_is_nothing_to_resume(tmp_path):
    policy = make_policy(tmp_path)
    assert not policy.can_resume()
    with pytest.raises(FolderError, match="no intact checkpoint is left"):
        policy.restore()


def test_resuming_uses_the_latest_intact_checkpoint_and_reports_damaged_ones(tmp_path):
    policy = make_policy(tmp_path)
    for step in (10, 20):
        save(policy, step)
    damage(policy, 20)
    assert policy.can_resume()
    tensors, documents = policy.restore()
    assert tensors["model.safetensors"]["w"].tolist() == [10.0]
    assert documents["state.json"]["progress"]["step"] == 10
    assert isinstance(policy.display, Messages)
    assert "step-00000020 is damaged" in policy.display.lines[0]
    damage(policy, 10)
    with pytest.raises(FolderError, match=r"no intact checkpoint is left .*step-00000010.*; start a new run"):
        policy.can_resume()


def test_resuming_removes_later_updates_from_the_log_and_keeps_events(tmp_path):
    policy = make_policy(tmp_path)
    for step in (5, 10, 15):
        policy.folder.write_log({"stage": 0, "step": step, "loss": 1.0})
    save(policy, 10)
    policy.folder.write_log({"event": "valid", "stage": 0, "step": 15})
    policy.restore()
    rows = read_lines(tmp_path / "log.jsonl")
    assert [(row["event"], row["step"]) for row in rows] == [
        ("train", 5),
        ("train", 10),
        ("saving", 10),
        ("saved", 10),
        ("resumed", 10),
    ]


def test_a_process_killed_before_it_could_mark_the_best_checkpoint_marks_it_when_resumed(tmp_path):
    policy = make_policy(tmp_path)
    save(policy, 10, best_step=10)
    (policy.checkpoints.folder / "best.json").unlink()
    policy.restore()
    best = policy.checkpoints.best()
    assert best is not None and best.name == "step-00000010"


def test_final_weights_are_the_last_ones_by_default(tmp_path):
    policy = make_policy(tmp_path)
    save(policy, 10)
    assert policy.chosen_weights(Progress(step=10)) is None


def test_final_best_loads_the_best_checkpoint(tmp_path):
    policy = make_policy(tmp_path, final="best")
    for step in (10, 20, 30):
        save(policy, step, best_step=10)
    weights = policy.chosen_weights(Progress(step=30, best_step=10))
    assert weights is not None and weights["w"].tolist() == [10.0]


@pytest.mark.parametrize("content", [None, "{", '{"format": 1, "step": 30}'])
@pytest.mark.parametrize("resumed", [False, True])
def test_the_best_checkpoint_is_found_and_kept_without_its_mark(content, resumed, tmp_path):
    policy = make_policy(tmp_path, final="best", keep=1)
    for step in (10, 20, 30):
        save(policy, step, best_step=10)
    mark = policy.checkpoints.folder / "best.json"
    mark.unlink() if content is None else mark.write_text(content)
    again = make_policy(tmp_path, final="best", keep=1) if resumed else policy
    if resumed:
        again.restore()
    for step in (40, 50):
        save(again, step, best_step=10)
    assert saved(again) == [10, 50]
    weights = again.chosen_weights(Progress(step=50, best_step=10))
    assert weights is not None and weights["w"].tolist() == [10.0]


@pytest.mark.parametrize("missing", [False, True])
def test_without_the_best_checkpoint_the_error_names_the_way_to_finish(missing, tmp_path):
    policy = make_policy(tmp_path, final="best")
    for step in (10, 20):
        save(policy, step, best_step=10)
    policy.checkpoints.remove(10) if missing else damage(policy, 10)
    with pytest.raises(FolderError, match=r"best evaluation cannot be used: .*step-00000010 .*--resume learning\.final=last"):
        policy.chosen_weights(Progress(step=20, best_step=10))
    policy.stage = 2
    with pytest.raises(FolderError, match=r"--resume stages\.1\.learning\.final=last"):
        policy.chosen_weights(Progress(step=20, best_step=10))


def test_final_best_without_a_finite_score_is_remarked(tmp_path):
    policy = make_policy(tmp_path, final="best")
    save(policy, 10)
    assert policy.chosen_weights(Progress(step=10)) is None
    assert policy.remarks == [
        "final: best: no evaluation in training, or none with a finite score; the weights are the last ones"
    ]


def test_average_is_the_mean_of_the_planned_checkpoints_without_those_of_interruptions(tmp_path):
    policy = make_policy(tmp_path, average=2, keep=2)
    for step in (10, 20, 30, 33):
        save(policy, step)
    weights = policy.chosen_weights(Progress(step=33))
    assert weights is not None and weights["w"].tolist() == [25.0]


def test_average_of_a_short_run_uses_the_checkpoints_there_are(tmp_path):
    policy = make_policy(tmp_path, average=3, keep=3, steps=10)
    for step in (0, 10):
        save(policy, step)
    weights = policy.chosen_weights(Progress(step=10))
    assert weights is not None and weights["w"].tolist() == [5.0]


def test_average_refuses_a_missing_or_damaged_checkpoint(tmp_path):
    policy = make_policy(tmp_path, average=2, keep=2)
    for step in (90, 100):
        save(policy, step)
    damage(policy, 90)
    with pytest.raises(FolderError, match=r"cannot average the last 2 checkpoints: .*damaged.*--resume learning\.average=0"):
        policy.chosen_weights(Progress(step=100))
    policy.checkpoints.remove(90)
    with pytest.raises(FolderError, match="found 1 of 2"):
        policy.chosen_weights(Progress(step=100))
