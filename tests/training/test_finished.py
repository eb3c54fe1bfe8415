"""A finished run has no checkpoints, unless they are kept: what is removed, when, and what still works."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from tests.commands import TINY, weft

import weft as package
from weft.core import files
from weft.core.io import read_json
from weft.learning import digest
from weft.training.run_folder import RunFolder

STAGES = TINY + "stages: [{name: more, learning: {type: gradient, steps: 3, batch_tokens: 300}}]\n"


class Killed(BaseException):
    """Ends a process in place of SIGKILL."""


@pytest.fixture(scope="module")
def recipes(tmp_path_factory):
    home = tmp_path_factory.mktemp("finished")
    for name, text in (("one", TINY), ("two", STAGES)):
        (home / f"{name}.yaml").write_text(text)
        for run, more in ((name, []), (f"{name}-kept", ["--keep"])):
            answer = weft("train", home / f"{name}.yaml", "--run", home / run, *more)
            assert answer.code == 0, answer.err
            assert ("removed the checkpoints (" in answer.err and "--keep" in answer.err) == (not more)
    return home


def weights(folder: Path) -> list[str]:
    return [digest(file) for file in sorted(folder.glob("model*.safetensors"))]


def size(folder: Path) -> int:
    return sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())


@pytest.mark.parametrize("name", ["one", "two"])
def test_only_kept_checkpoints_stay(recipes, name):
    finished, kept = recipes / name, recipes / f"{name}-kept"
    assert not list(finished.rglob("*step-*")) and not list(finished.glob(".checkpoints*"))
    assert list(kept.rglob("step-*")) and not (kept / "finished.json").exists()
    assert weights(finished) == weights(kept)
    assert 2 * size(finished) < size(kept)
    assert package.load(finished).metrics == package.load(kept).metrics


@pytest.mark.parametrize("name", ["one", "two"])
def test_a_finished_run_is_resumed_without_training(recipes, tmp_path, name):
    run = shutil.copytree(recipes / name, tmp_path / "run")
    ledger = (run / "ledger.json").read_bytes()
    (run / "metrics.json").unlink()
    answer = weft("train", run, "--resume", "evaluate.metrics=[exact-match, chrf]")
    assert answer.code == 0, answer.err
    assert "the run is finished" in answer.err and "gone" not in answer.err
    assert weights(run) == weights(recipes / name)
    assert (run / "ledger.json").read_bytes() == ledger
    assert "chrf" in str(read_json(run / "metrics.json"))
    assert read_json(run / "usage.json")["tokens"] == read_json(recipes / name / "usage.json")["tokens"]


def test_more_steps_need_checkpoints(recipes, tmp_path):
    run, kept = (shutil.copytree(recipes / name, tmp_path / name) for name in ("one", "one-kept"))
    answer = weft("train", run, "--resume", "learning.steps=6")
    assert answer.code == 2
    assert f"weft train {run} --run DIR --keep learning.steps=6" in answer.err
    assert weights(run) == weights(recipes / "one")
    assert weft("train", kept, "--resume", "learning.steps=6", "--quiet").code == 0
    assert weft("train", run, "--run", tmp_path / "again", "learning.steps=6", "--quiet").code == 0
    assert weights(kept) == weights(tmp_path / "again")
    assert not list(kept.rglob("step-*"))


def test_an_edited_recipe_of_a_finished_run_is_refused_with_the_difference(recipes, tmp_path):
    run = shutil.copytree(recipes / "one", tmp_path / "run")
    recipe = run / "recipe.yaml"
    recipe.write_text(recipe.read_text().replace("seed: 3", "seed: 4", 1))
    answer = weft("train", run, "--resume")
    assert answer.code == 2
    assert "seed: trained with 3, recipe.yaml has 4" in answer.err


@pytest.mark.parametrize("name", ["one", "two"])
@pytest.mark.parametrize("operation", ["write_json", "rename", "sync_folder", "remove_tree"])
def test_a_run_killed_during_the_removal_opens_and_is_finished_by_the_next_command(
    recipes, tmp_path, monkeypatch, name, operation
):
    run = shutil.copytree(recipes / f"{name}-kept", tmp_path / "run")
    target = "weft.training.run_folder.write_json" if operation == "write_json" else f"weft.core.files.{operation}"
    original = files.remove_tree

    def killed(path: Path, *_: object) -> None:
        if operation == "remove_tree":
            original(next(Path(path).rglob("step-*")))  # in the middle
        raise Killed

    with monkeypatch.context() as patch:
        patch.setattr(target, killed)
        with pytest.raises(Killed):
            RunFolder(run).remove_checkpoints({}, {})
    assert package.load(run).metrics == package.load(recipes / name).metrics
    answer = weft("train", run, "--resume", "--quiet")
    assert answer.code == 0, answer.err
    assert RunFolder(run).is_finished()
    assert not list(run.rglob("*step-*")) and not list(run.glob(".checkpoints*"))
    assert weights(run) == weights(recipes / name)


@pytest.mark.parametrize(
    "text", ["", "[]", '{"progress": {"main": 3}, "record": {}}', '{"progress": 3}', '{"progress": {"main": {"x": 1}}}']
)
def test_a_damaged_record_costs_only_counts(recipes, tmp_path, text):
    run = shutil.copytree(recipes / "one", tmp_path / "run")
    (run / "finished.json").write_text(text)
    answer = weft("train", run, "--resume")
    assert answer.code == 0, answer.err
    assert "ledger.json lacks its counts" in answer.err
    assert weights(run) == weights(recipes / "one")
