"""Nothing is lost: SIGKILL at random moments from another process, and what is left between any two steps of a save."""

from __future__ import annotations

import json
import shutil
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from benchmarks.kills import Kills
from tests.commands import TINY, Forked, state

import weft.learning.checkpoint
import weft.training.run_folder
import weft.training.sources
import weft.training.trainer
from weft.core.io import read_lines
from weft.learning import Checkpoints, Gradient, Interrupted, digest
from weft.training import artifacts
from weft.training.callbacks import StageCallbacks
from weft.training.recipes import read_run
from weft.training.run import Run
from weft.training.stages import Stage


class Killed(BaseException):
    """As good as SIGKILL: nothing catches it."""


# ------------------------------------------------------------------------------------------------------- from another process


@pytest.fixture(scope="module", params=["dates", "gan", "cara", "stages"])
def killing(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Kills:
    return Kills(request.param, tmp_path_factory.mktemp("kills"), Forked, steps=14)


def test_runs_that_are_killed_once_end_bit_identical(killing: Kills):
    outcomes = list(killing.one_each(3))
    assert [outcome.equal for outcome in outcomes] == [True] * 3
    assert any(death.inside for outcome in outcomes for death in outcome.deaths)


def test_a_run_that_is_killed_again_and_again_ends_bit_identical(killing: Kills):
    outcome = killing.all_on_one(3)
    assert outcome.equal
    assert len(outcome.deaths) >= 2


# --------------------------------------------------------------------------------------------------------- between two steps


@pytest.fixture(autouse=True)
def _no_pictures(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(artifacts, "draw_curve", lambda *args: None)


@pytest.fixture
def recipe(tmp_path: Path) -> Path:
    (tmp_path / "tiny.yaml").write_text(TINY)
    return tmp_path / "tiny.yaml"


def train(recipe: Path, run: Path, *overrides: str, resume: bool = False, **changed: Any) -> None:
    composed = read_run(recipe, overrides)
    for name, value in changed.items():
        setattr(composed, name, value)
    weft.training.trainer.train(composed, run, resume=resume, keep=True)


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The run of TINY that nobody killed."""
    home = tmp_path_factory.mktemp("whole")
    (home / "tiny.yaml").write_text(TINY)
    train(home / "tiny.yaml", home / "run")
    return home / "run"


def final(run: Path) -> tuple[str, str]:
    return state(run), digest(run / "model.safetensors")


@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize(
    "step", ["folder.write_recipe", "save_codec", "mkdir", "_write_files", "_publish", "_prune", "write_weights"]
)
def test_killed_before_or_after_any_step(step, when, whole, recipe, tmp_path, monkeypatch):
    """Every step of making a folder, of the third save, and of the end."""
    functions = {
        "folder.write_recipe": (weft.training.run_folder.RunFolder, "write_recipe", 1),
        "save_codec": (weft.training.sources, "save_codec", 1),
        "mkdir": (Checkpoints, "clean", 3),
        "_write_files": (weft.learning.checkpoint, "_write_files", 3),
        "_publish": (Checkpoints, "_publish", 3),
        "_prune": (Checkpoints, "_prune", 3),
        "write_weights": (weft.training.trainer, "write_weights", 1),
    }
    owner, name, turn = functions[step]
    real, calls = getattr(owner, name), []

    def dies(*args: Any, **keywords: Any) -> Any:
        calls.append(0)
        if len(calls) == turn and when == "before":
            raise Killed
        result = real(*args, **keywords)
        if len(calls) == turn:
            raise Killed
        return result

    with monkeypatch.context() as patch:
        patch.setattr(owner, name, dies)
        patch.setattr(shutil, "rmtree", lambda *args, **keywords: None)  # who is killed tidies nothing up
        with pytest.raises(Killed):
            train(recipe, tmp_path / "run")
    train(recipe, tmp_path / "run", resume=True)
    assert final(tmp_path / "run") == final(whole)
    log = [row for row in read_lines(tmp_path / "run" / "log.jsonl") if row["event"] == "train"]
    assert [row["step"] for row in log] == [1, 2, 3, 4]
    left = sorted(p.name for p in (tmp_path / "run" / "checkpoints").iterdir())
    assert left == sorted(p.name for p in (whole / "checkpoints").iterdir())


def test_the_best_stays_the_best_when_killed_before_it_could_be_marked(recipe, tmp_path, monkeypatch):
    metric_values = {1: 1.0, 2: 2.0, 3: 9.0}
    monkeypatch.setattr(StageCallbacks, "evaluate", lambda self, progress, last: metric_values.get(progress.step, 0.0))
    choices = ["learning.steps=6", "learning.final=best", "learning.keep=1", "learning.save_every=1", "evaluate.every=1"]
    train(recipe, tmp_path / "whole", *choices)
    real = Checkpoints.mark_best

    def dies(self: Checkpoints, update: int) -> None:
        if update == 3:
            raise Killed
        real(self, update)

    with monkeypatch.context() as patch:
        patch.setattr(Checkpoints, "mark_best", dies)
        with pytest.raises(Killed):
            train(recipe, tmp_path / "run", *choices)
    train(recipe, tmp_path / "run", *choices, resume=True)
    assert Checkpoints(tmp_path / "run" / "checkpoints").best() == tmp_path / "run/checkpoints/step-00000003"
    assert final(tmp_path / "run") == final(tmp_path / "whole")


@pytest.mark.parametrize("stops", [[3, 5], [1, 4, 5]])
@pytest.mark.parametrize("orphan", [False, True])
def test_stops_that_were_asked_for_change_neither_the_mean_nor_what_is_kept(stops, orphan, recipe, tmp_path, monkeypatch):
    choices = ["learning.steps=8", "learning.average=3", "learning.keep=3"]  # saved every 2 steps
    train(recipe, tmp_path / "whole", *choices)
    for i, stop in enumerate(stops):
        monkeypatch.setattr(StageCallbacks, "should_stop", lambda self, stop=stop: self.loop.progress.step == stop)
        with pytest.raises(Interrupted):
            train(recipe, tmp_path / "run", *choices, resume=i > 0)
        assert (tmp_path / "run" / "checkpoints" / f"step-{stop:08d}").is_dir()
    monkeypatch.undo()
    monkeypatch.setattr(artifacts, "draw_curve", lambda *args: None)
    if orphan:  # killed after the next save, before the checkpoint of the stop was removed
        remove, patch = Checkpoints.remove, pytest.MonkeyPatch()
        patch.setattr(Checkpoints, "remove", lambda self, update: (_ for _ in ()).throw(Killed))
        with pytest.raises(Killed):
            train(recipe, tmp_path / "run", *choices, resume=True)
        patch.undo()
        assert Checkpoints.remove is remove
    train(recipe, tmp_path / "run", *choices, resume=True)
    assert final(tmp_path / "run") == final(tmp_path / "whole")
    kept = sorted(p.name for p in (tmp_path / "run" / "checkpoints").iterdir())
    assert kept == sorted(p.name for p in (tmp_path / "whole" / "checkpoints").iterdir())


def test_if_no_whole_checkpoint_is_left_training_does_not_begin_anew(recipe, tmp_path):
    train(recipe, tmp_path / "run")
    files = list((tmp_path / "run" / "checkpoints").glob("*/model.safetensors"))
    for file in files:
        file.write_bytes(b"")
    with pytest.raises(ValueError, match=r"no intact checkpoint is left in .*step-00000004: model.safetensors has 0 bytes"):
        train(recipe, tmp_path / "run", resume=True)
    assert list((tmp_path / "run" / "checkpoints").glob("*/model.safetensors")) == files


# ----------------------------------------------------------------------------------------------------------------- stages


def with_stage(recipe: Path, *overrides: str) -> Run:
    composed = read_run(recipe, overrides)
    composed.stages = [partial(Stage, name="polish", learning=partial(Gradient, steps=3, batch_tokens=300, save_every=1))]
    return composed.checked()


def test_a_run_killed_in_its_second_stage_resumes_there_with_the_same_vocabulary(recipe, tmp_path, monkeypatch):
    with_stage(recipe).train(tmp_path / "whole", quiet=True)
    real = StageCallbacks.save

    def dies(self: StageCallbacks, *args: Any) -> None:
        real(self, *args)
        if self.stage == 1 and args[-1].step == 1:
            raise Killed

    with monkeypatch.context() as patch:
        patch.setattr(StageCallbacks, "save", dies)
        with pytest.raises(Killed):
            with_stage(recipe).train(tmp_path / "run", quiet=True)
    monkeypatch.setattr(weft.training.sources, "save_codec", lambda *args: pytest.fail("the vocabulary was measured again"))
    with_stage(recipe).train(tmp_path / "run", resume=True, quiet=True)
    assert digest(tmp_path / "run" / "model.safetensors") == digest(tmp_path / "whole" / "model.safetensors")
    assert not (tmp_path / "run" / "polish").exists()


def test_a_stage_that_is_done_cannot_be_made_longer(recipe, tmp_path):
    with_stage(recipe).train(tmp_path / "run", quiet=True)
    before = json.dumps(read_run(tmp_path / "run").dump())
    with pytest.raises(
        ValueError, match=r"learning\.steps: was 4, now 9; the stage main is finished, and later stages start from its weights"
    ):
        with_stage(recipe, "learning.steps=9").train(tmp_path / "run", resume=True, quiet=True)
    assert json.dumps(read_run(tmp_path / "run").dump()) == before
