"""What must be unchanged when a run is resumed, and which options may differ."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from weft.core.io import read_lines
from weft.inference.load import load
from weft.learning import Checkpoints
from weft.training.callbacks import StageCallbacks
from weft.training.recipes import read_run, read_run_text
from weft.training.resume import update_recipe
from weft.training.run_folder import FolderError, RunFolder

TEXT = """
data: {type: dates, train: 40, valid: 8, test: 8}
structure: {type: seq2seq, dim: 8}
objective: next-token
learning: {type: gradient, steps: 10}
stages:
  - {name: second, learning: {type: gradient, steps: 5}}
"""


@pytest.fixture
def folder(tmp_path: Path) -> RunFolder:
    folder = RunFolder(tmp_path / "run")
    folder.create(read_run_text(TEXT, "r.yaml", tmp_path).dump(hashes=True), [])
    return folder


def resume(folder: RunFolder, *overrides: str) -> None:
    run = read_run_text(TEXT, "r.yaml", folder.path.parent, overrides)
    update_recipe(folder, run, run.dump(hashes=True))


def events(folder: RunFolder) -> list[str]:
    return [row["event"] for row in read_lines(folder.log)]


def test_an_unchanged_recipe_changes_no_file(folder):
    before = {path: path.read_bytes() for path in folder.path.iterdir()}
    resume(folder)
    assert {path: path.read_bytes() for path in folder.path.iterdir()} == before


@pytest.mark.parametrize(
    "override",
    [
        "learning.steps=20",
        "learning.log_every=3",
        "learning.sync=ddp",
        "evaluate.every=2",
        "evaluate.metrics=[exact-match]",
        "stages.0.learning.steps=6",
        "stages.0.learning.log_every=3",
    ],
)
def test_an_allowed_change_is_written_to_the_recipe_and_the_log(folder, override):
    resume(folder, override)
    assert read_run(folder.recipe).dump() == read_run_text(TEXT, "r.yaml", folder.path.parent, [override]).dump()
    assert events(folder)[-1] == "changed"
    choices = read_lines(folder.log)[-1]["choices"]
    assert choices and all(path.startswith(override.split("=")[0]) for path in choices)


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("seed=2", "seed: was 1, now 2"),
        ("structure.dim=16", r"structure\.dim: was 8, now 16"),
        ("learning.batch_tokens=9", r"learning\.batch_tokens: was None, now 9"),
        ("learning.steps=9", r"learning\.steps: was 10, now 9; it can only be raised"),
        ("stages.0.learning.steps=4", r"stages\.0\.learning\.steps: was 5, now 4; it can only be raised"),
    ],
)
def test_any_other_change_is_refused_with_both_values_and_changes_no_file(folder, override, message):
    before = {path: path.read_bytes() for path in folder.path.iterdir()}
    with pytest.raises(FolderError, match=message) as error:
        resume(folder, override, "evaluate.every=2")
    assert "start a new run" in str(error.value) and "evaluate" not in str(error.value).split("\nWith --resume")[0]
    assert {path: path.read_bytes() for path in folder.path.iterdir()} == before


def test_all_refused_options_are_listed(folder):
    with pytest.raises(FolderError, match=r"(?s)seed: was 1, now 2.*structure\.dim: was 8, now 16"):
        resume(folder, "seed=2", "structure.dim=16")


def test_steps_of_a_finished_stage_are_fixed_because_later_stages_start_from_its_weights(folder):
    folder.stage_model("main").touch()
    with pytest.raises(FolderError, match=r"learning\.steps: was 10, now 20; the stage main is finished"):
        resume(folder, "learning.steps=20")
    resume(folder, "stages.0.learning.steps=9")
    assert read_run(folder.recipe).dump()["stages"][0]["learning"]["steps"] == 9


# ----------------------------------------------------------------------------------------------------- a changed run folder


SMALL = """
data: {type: dates, train: 40, valid: 8, test: 8}
structure: {type: seq2seq, dim: 8}
objective: next-token
learning: {type: gradient, steps: 3, save_every: 1, keep: 9, final: best, optimizer: {type: adam, lr: 0.5}}
evaluate: {every: 1}
"""


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run whose first step was the best."""
    home = tmp_path_factory.mktemp("trained")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(StageCallbacks, "evaluate", lambda self, progress, last: -float(progress.step))
        read_run_text(SMALL, "r.yaml", home).train(home / "run", quiet=True, keep=True)
    return home / "run"


@pytest.fixture
def copy(trained: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(trained, tmp_path / "run"))


def replace(file: Path, old: str, new: str) -> None:
    text = file.read_text()
    assert old in text
    file.write_text(text.replace(old, new, 1))


def continue_run(folder: Path, *overrides: str) -> None:
    read_run(folder, overrides).train(folder, resume=True, quiet=True, keep=True)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("seed: 1\n", "seed: 2\n", "seed: trained with 1, recipe.yaml has 2"),
        ("lr: 0.5", "lr: 0.6", "learning.optimizer.lr: trained with 0.5, recipe.yaml has 0.6"),
        ("accumulate: 1", "accumulate: 2", "learning.accumulate: trained with 1, recipe.yaml has 2"),
        ("steps: 3", "steps: 4", "learning.steps: trained with 3, recipe.yaml has 4"),
        ("split: valid", "split: test", "evaluate.split: trained with 'valid', recipe.yaml has 'test'"),
    ],
)
def test_an_edited_recipe_is_refused_with_the_differences(old, new, message, copy):
    replace(copy / "recipe.yaml", old, new)
    before = (copy / "recipe.yaml").read_text()
    with pytest.raises(FolderError, match=re.escape(message)) as error:
        continue_run(copy)
    assert "--resume learning.steps=..." in str(error.value)
    assert (copy / "recipe.yaml").read_text() == before
    with pytest.raises(ValueError, match=r"recipe\.yaml was edited"):
        load(copy)


def test_a_recipe_with_a_valid_hash_that_was_not_trained_is_refused(copy):
    """As if it were the recipe of another run."""
    RunFolder(copy).write_recipe({**read_run(copy).dump(hashes=True), "seed": 7})
    with pytest.raises(FolderError, match="seed: was 1, now 7"):
        continue_run(copy)


def test_an_edit_of_comments_only_is_accepted(copy):
    replace(copy / "recipe.yaml", "seed: 1\n", "seed: 1  # mine\n")
    continue_run(copy)
    assert "mine" not in (copy / "recipe.yaml").read_text()
    load(copy)


def test_an_edit_before_the_first_checkpoint_is_refused(folder):
    replace(folder.recipe, "seed: 1\n", "seed: 2\n")
    with pytest.raises(FolderError, match=r"recipe\.yaml was edited\nUndo the edit"):
        update_recipe(folder, run := read_run(folder.recipe), run.dump(hashes=True))


def test_steps_that_were_raised_stay_raised_after_a_kill_before_the_next_checkpoint(copy):
    run = read_run(copy, ["learning.steps=5"])
    update_recipe(RunFolder(copy), run, run.dump(hashes=True))
    continue_run(copy)
    assert (copy / "checkpoints" / "step-00000005").is_dir()
    with pytest.raises(FolderError, match="was 5, now 4; it can only be raised"):
        continue_run(copy, "learning.steps=4")


@pytest.mark.parametrize("pattern", ["fields.json", "tokenizer-*.json"])
def test_a_changed_vocabulary_is_refused_on_resume_and_by_load(pattern, copy):
    name = next(copy.glob(pattern)).name
    (copy / name).write_bytes((copy / name).read_bytes() + b" ")
    with pytest.raises(FolderError, match=rf"{name} is damaged or was changed since training started.*remove fields\.json"):
        continue_run(copy)
    with pytest.raises(ValueError, match=rf"{name} is damaged or was changed"):
        load(copy)
    for file in [copy / "fields.json", *copy.glob("tokenizer-*.json")]:
        file.unlink()
    continue_run(copy)
    load(copy)


def test_a_run_whose_best_checkpoint_is_damaged_finishes_with_the_last_weights_on_request(copy):
    best = Checkpoints(copy / "checkpoints").best()
    assert best is not None
    last = copy / "checkpoints" / "step-00000003"
    assert best != last
    with pytest.raises(FolderError, match="can change to last only where those checkpoints are damaged"):
        continue_run(copy, "learning.final=last")
    (best / "model.safetensors").write_bytes(b"")
    with pytest.raises(FolderError, match=r"--resume learning\.final=last"):
        continue_run(copy)
    continue_run(copy, "learning.final=last")
    assert load_file(copy / "model.safetensors").keys() == load_file(last / "model.safetensors").keys()
    for name, tensor in load_file(last / "model.safetensors").items():
        assert torch.equal(load_file(copy / "model.safetensors")[name], tensor)
    assert "final: last" in (copy / "recipe.yaml").read_text()
    continue_run(copy)
