"""``weft train --processes``: the processes of one run, their errors, and the same command under torchrun."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import psutil
import pytest
import typer.main
from tests.commands import weft
from torch.distributed.run import parse_args

from weft.cli.app import app
from weft.cli.launch import Group, _report

ROOT = Path(__file__).parents[2]
RECIPE = ["dates", "data.train=60", "data.valid=4", "data.test=4", "structure.dim=8", "device=cpu", "evaluate.every=0"]
LEARNING = ["learning.log_every=10", "learning.save_every=10", "learning.batch_tokens=400"]
STEPS = 200
PATIENCE = 120.0


@contextmanager
def started(folder: Path, *arguments: str) -> Iterator[tuple[subprocess.Popen[str], Path]]:
    """``weft train`` in a process group of its own, and the file of its messages."""
    messages = folder / "messages.txt"
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src"), "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-m", "weft", "train", *arguments]
    with messages.open("w") as stream:
        process = subprocess.Popen(command, cwd=folder, env=environment, stderr=stream, text=True, start_new_session=True)
    try:
        yield process, messages
    finally:
        for one in [*psutil.Process(process.pid).children(recursive=True)] if process.poll() is None else []:
            one.kill()
        process.kill()
        process.wait()


def wait_for_checkpoint(run_folder: Path, process: subprocess.Popen[str], messages: Path) -> None:
    deadline = time.monotonic() + PATIENCE
    while not (run_folder / "checkpoints" / "step-00000010").exists():
        assert process.poll() is None and time.monotonic() < deadline, messages.read_text()
        time.sleep(0.01)


def losses(run_folder: Path) -> dict[int, float]:
    rows = map(json.loads, (run_folder / "log.jsonl").read_text().splitlines())
    return {row["step"]: row["loss"] for row in rows if "loss" in row}


def test_a_killed_process_ends_the_command_and_the_resumed_run_has_the_curve_of_one_process(tmp_path):
    steps = f"learning.steps={STEPS}"
    with started(tmp_path, *RECIPE, *LEARNING, steps, "--run", "two", "--processes", "2") as (process, messages):
        wait_for_checkpoint(tmp_path / "two", process, messages)
        workers = psutil.Process(process.pid).children()
        assert sorted(worker.environ()["RANK"] for worker in workers) == ["0", "1"]
        next(worker for worker in workers if worker.environ()["RANK"] == "1").kill()
        assert process.wait(PATIENCE) == 1, messages.read_text()
        found = messages.read_text()
        assert "process 1 was killed by SIGKILL" in found
        assert "weft train two --resume --processes 2" in found
        assert "Traceback" not in found and not any(worker.is_running() for worker in workers)
    with started(tmp_path, "two", "--resume", "--processes", "2", "--quiet") as (process, messages):
        assert process.wait(PATIENCE) == 0, messages.read_text()
    weft("train", *RECIPE, *LEARNING, steps, "--run", tmp_path / "one", "--quiet")
    one, two = losses(tmp_path / "one"), losses(tmp_path / "two")
    assert one[STEPS] < 0.9 * one[10]
    assert one.keys() == two.keys()
    assert two == pytest.approx(one, rel=1e-3)


def test_an_interruption_saves_a_checkpoint_and_tells_how_to_resume(tmp_path):
    with started(tmp_path, *RECIPE, *LEARNING, "learning.steps=100000", "--run", "run", "--processes=2") as (process, messages):
        wait_for_checkpoint(tmp_path / "run", process, messages)
        os.killpg(process.pid, signal.SIGINT)
        assert process.wait(PATIENCE) == 130, messages.read_text()
    found = messages.read_text()
    assert found.count("interrupted; the checkpoint is in run. Resume with: weft train run --resume --processes 2") == 1
    saved = [row for row in map(json.loads, (tmp_path / "run" / "log.jsonl").read_text().splitlines()) if row["event"] == "saved"]
    assert (tmp_path / "run" / "checkpoints" / f"step-{saved[-1]['step']:08d}").exists()
    assert "Traceback" not in found


def test_an_error_is_reported_once_with_its_exit_code(tmp_path):
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "mine.txt").touch()
    with started(tmp_path, *RECIPE, "--run", "run", "--processes", "2") as (process, messages):
        assert process.wait(PATIENCE) == 2
    assert messages.read_text().count("is not empty and not a run folder") == 1
    assert "Traceback" not in messages.read_text() and "failed" not in messages.read_text()


def options() -> list[str]:
    """Every option of ``weft train``."""
    train: Any = typer.main.get_command(app).commands["train"]  # pyright: ignore[reportAttributeAccessIssue]
    return sorted(name for parameter in train.params for name in parameter.opts if name.startswith("-"))


@pytest.mark.parametrize("option", options())
def test_torchrun_leaves_every_option_behind_the_dashes_to_weft(option):
    found = parse_args(["--nproc-per-node", "2", "-m", "--", "weft", "train", "dates", option, "value"])
    assert (found.training_script, found.training_script_args) == ("weft", ["train", "dates", option, "value"])


def test_options_that_do_not_fit_together(monkeypatch):
    monkeypatch.delenv("WORLD_SIZE", raising=False)
    assert not Group().needs_launcher()
    assert Group(2).needs_launcher() and Group(1, 2, "host:1").needs_launcher()
    for group, problem in (
        (Group(1, 2), "--nodes 2 needs --rendezvous"),
        (Group(1, 1, "host:1"), "add --nodes"),
        (Group(1, 2, "host"), "HOST:PORT"),
    ):
        with pytest.raises(ValueError, match=problem):
            group.needs_launcher()
    monkeypatch.setenv("WORLD_SIZE", "2")
    assert not Group().needs_launcher() and not Group(2).needs_launcher()
    with pytest.raises(ValueError, match=r"torchrun has started 2 processes, but .* ask for 3"):
        Group(3).needs_launcher()


def failure(rank: int, code: int) -> Any:
    return SimpleNamespace(local_rank=rank, exitcode=code)


@pytest.mark.parametrize(
    ("codes", "code", "reported"),
    [
        ({0: 2, 1: 1}, 2, ""),
        ({0: -signal.SIGTERM, 1: -signal.SIGKILL}, 1, "process 1 was killed by SIGKILL"),
        ({0: -signal.SIGTERM, 1: 3}, 3, "process 1 has failed with exit code 3"),
        ({0: 1, 1: -signal.SIGSEGV}, 1, "process 1 was killed by SIGSEGV"),
    ],
)
def test_the_process_that_failed_first_is_reported(tmp_path, capsys, codes, code, reported):
    (tmp_path / "1").mkdir()
    (tmp_path / "1" / "stderr.log").write_text("RuntimeError: its last words\n")
    failures = {rank: failure(rank, number) for rank, number in codes.items()}
    assert _report(failures, tmp_path, tmp_path / "run", "weft ...") == code
    found = capsys.readouterr().err
    assert reported in found and ("its last words" in found) == bool(reported)
