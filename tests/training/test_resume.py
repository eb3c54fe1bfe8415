"""Which options of a run may differ when it is resumed."""

from __future__ import annotations

from pathlib import Path

import pytest

from weft.core.io import read_lines
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
        ("learning.batch_tokens=9", r"learning\.batch_tokens: was 2000, now 9"),
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
