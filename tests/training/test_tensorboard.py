"""TensorBoard files have every step of the log once, also after a resume."""

from __future__ import annotations

import shutil
from collections import Counter
from functools import partial
from pathlib import Path

import pytest

import weft
from weft.core.io import read_lines
from weft.data import Dates
from weft.evaluate import Evaluation
from weft.learning import Gradient
from weft.models import Seq2Seq
from weft.objectives import NextToken
from weft.training.stages import Stage
from weft.training.trainer import train

pytest.importorskip("tensorboard")


def scalars(folder: Path) -> Counter[tuple[str, int]]:
    """Tag and step of every value in the event files, without the purging that TensorBoard applies."""
    from tensorboard.backend.event_processing.event_file_loader import EventFileLoader

    events = [event for file in sorted((folder / "tensorboard").iterdir()) for event in EventFileLoader(str(file)).Load()]
    return Counter((value.tag, event.step) for event in events for value in event.summary.value)


def logged(folder: Path) -> set[tuple[str, int]]:
    """The same for loss and validation loss, by the log."""
    found: set[tuple[str, int]] = set()
    for row in read_lines(folder / "log.jsonl"):
        stage = f"stage-{row['stage']}/" if row.get("stage") else ""
        if row["event"] in ("train", "valid"):
            found.add((stage + ("valid/loss" if "valid" in row else "loss"), row["step"]))
    return found


def test_no_step_appears_twice_after_a_resume(tmp_path: Path) -> None:
    learning = partial(Gradient, batch_tokens=200, save_every=2, keep=9, log_every=1)
    run = weft.Run(
        data=partial(Dates, train=40, valid=4, test=4),
        structure=partial(Seq2Seq, dim=4),
        objective=NextToken,
        learning=partial(learning, steps=6),
        evaluate=partial(Evaluation, every=3),
        stages=[partial(Stage, name="second", learning=partial(learning, steps=6))],
    )
    folder = tmp_path / "run"
    train(run, folder, tensorboard=True, keep=True)
    complete = scalars(folder)
    assert set(complete.values()) == {1} and logged(folder) <= complete.keys()
    (folder / "model.safetensors").unlink()
    for checkpoint in ("step-00000004", "step-00000006"):  # killed after step 3 of the second stage
        shutil.rmtree(folder / "checkpoints" / "second" / checkpoint)
    train(run, folder, resume=True, tensorboard=True)
    assert scalars(folder) == complete
