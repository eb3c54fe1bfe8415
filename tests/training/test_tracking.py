"""Functions of the user during training, and experiment trackers. The packages of the trackers are replaced by stubs."""

from __future__ import annotations

import sys
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import weft
from weft.core.io import read_lines
from weft.data import Dates
from weft.evaluate import Evaluation
from weft.learning import Gradient
from weft.models import Seq2Seq
from weft.objectives import NextToken
from weft.training.callbacks import CallbackError

RUN = weft.Run(
    data=partial(Dates, train=40, valid=4, test=4),
    structure=partial(Seq2Seq, dim=4),
    objective=NextToken,
    learning=partial(Gradient, batch_tokens=200, steps=6, save_every=2, keep=9, log_every=1),
    evaluate=partial(Evaluation, every=3),
)


def rows(folder: Path, event: str) -> dict[int, Any]:
    return {row["step"]: row for row in read_lines(folder / "log.jsonl") if row["event"] == event}


def test_functions_see_every_step_evaluation_and_checkpoint(tmp_path: Path) -> None:
    steps, evaluations, saved = dict[int, Any](), dict[int, Any](), dict[int, bool]()

    def on_save(step: int, path: Path) -> None:
        saved[step] = (path / "state.json").is_file()

    folder = tmp_path / "run"
    RUN.train(folder, quiet=True, on_step=steps.__setitem__, on_evaluate=evaluations.__setitem__, on_save=on_save)
    assert {step: row["loss"] for step, row in steps.items()} == {s: row["loss"] for s, row in rows(folder, "train").items()}
    assert evaluations == {step: row["valid"] for step, row in rows(folder, "valid").items()} and list(evaluations) == [3, 6]
    assert set(saved) >= {0, 2, 4, 6} and all(saved.values())


@pytest.mark.parametrize("error", [ZeroDivisionError("x"), OSError("no space"), ValueError("y")])
def test_an_exception_ends_the_run_which_resumes_to_the_same_weights(error: Exception, tmp_path: Path) -> None:
    def fail(step: int, values: Any) -> None:
        if step == 5:
            raise error

    folder = tmp_path / "run"
    message = rf"on_step raised {type(error).__name__} at step 5: .*run.train\(folder, resume=True"
    with pytest.raises(CallbackError, match=message):
        RUN.train(folder, quiet=True, on_step=fail)
    resumed = RUN.train(folder, quiet=True, resume=True)
    whole = RUN.train(tmp_path / "whole", quiet=True)
    assert resumed.metrics == whole.metrics
    assert list(rows(folder, "train")) == [1, 2, 3, 4, 5, 6]


class Wandb:
    """The part of wandb that is used."""

    def __init__(self) -> None:
        self.started: list[dict[str, Any]] = []
        self.logged: dict[int, dict[str, float]] = {}
        self.finished = 0

    def init(self, **options: Any) -> Any:
        self.started.append(options)
        return SimpleNamespace(id=options["id"] or "run-1", log=self.log, finish=self.finish)

    def log(self, values: dict[str, float], step: int) -> None:
        self.logged[step] = {**self.logged.get(step, {}), **values}

    def finish(self) -> None:
        self.finished += 1


class Mlflow:
    """The part of mlflow that is used."""

    def __init__(self) -> None:
        self.started: list[dict[str, Any]] = []
        self.logged: dict[int, dict[str, float]] = {}
        self.parameters: dict[str, str] = {}
        self.finished = 0

    def start_run(self, **options: Any) -> Any:
        self.started.append(options)
        return SimpleNamespace(info=SimpleNamespace(run_id=options["run_id"] or "run-1"))

    def log_params(self, parameters: dict[str, str]) -> None:
        assert all(len(value) <= 500 for value in parameters.values())
        self.parameters = parameters

    def log_metrics(self, values: dict[str, float], step: int, run_id: str) -> None:
        assert run_id == "run-1"
        self.logged[step] = {**self.logged.get(step, {}), **values}

    def end_run(self) -> None:
        self.finished += 1


@pytest.mark.parametrize(("name", "stub"), [("wandb", Wandb()), ("mlflow", Mlflow())])
def test_trackers_receive_the_log_and_continue_a_resumed_run(
    name: Any, stub: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, name, stub)
    folder = tmp_path / "run"

    def fail(step: int, values: Any) -> None:
        if step == 5:
            raise KeyError

    with pytest.raises(CallbackError):
        RUN.train(folder, quiet=True, track=name, on_step=fail)
    RUN.train(folder, quiet=True, track=name, resume=True)
    assert stub.finished == 2 and len(stub.started) == 2
    assert [options.get("id", options.get("run_id")) for options in stub.started] == [None, "run-1"]
    for step, row in rows(folder, "train").items():
        assert stub.logged[step]["loss"] == row["loss"] and "seconds" not in stub.logged[step]
    assert stub.logged[6]["valid/loss"] == rows(folder, "valid")[6]["valid"]["loss"]
    config = stub.parameters if name == "mlflow" else stub.started[0]["config"]
    assert (config["learning.steps"] if name == "mlflow" else str(config["learning"]["steps"])) == "6"


@pytest.mark.parametrize("name", ["wandb", "mlflow"])
def test_a_missing_package_is_named_with_the_command_that_installs_it(
    name: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(ValueError, match=rf"needs the package {name}; install it with: pip install 'weft\[{name}\]'"):
        RUN.train(tmp_path / "run", quiet=True, track=name)
    assert not (tmp_path / "run").exists()


def test_an_unknown_tracker(tmp_path: Path) -> None:
    tracker: Any = "comet"
    with pytest.raises(ValueError, match="unknown tracker 'comet'; choose one of: tensorboard, wandb, mlflow"):
        RUN.train(tmp_path / "run", quiet=True, track=tracker)
