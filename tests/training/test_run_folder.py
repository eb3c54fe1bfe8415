"""The run folder: creation, locking, and recovery from a killed process."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import weft.training.run_folder
from weft.core.io import append_line
from weft.training.run_folder import FolderError, RunFolder, compare_recipes, latest_folder, next_folder

RECIPE = {"format": 1, "seed": 3}


class Killed(BaseException):
    """As good as SIGKILL: nothing catches it."""


def names(path: Path) -> list[str]:
    return sorted(p.name for p in path.iterdir())


# ----------------------------------------------------------------------------------------------------------------- making


def test_a_new_folder_has_recipe_log_and_environment(tmp_path):
    folder = RunFolder(tmp_path / "a" / "b")
    folder.create(RECIPE, ["some.plugin"])
    assert folder.is_run() and not folder.is_incomplete()
    assert names(folder.path) == [".lock", "environment.json", "log.jsonl", "recipe.yaml"]
    assert "seed: 3" in folder.recipe.read_text() and f"weft train {folder.recipe}" in folder.recipe.read_text()
    assert folder.plugins() == ["some.plugin"]
    assert [row["event"] for row in folder.read_log()] == ["begun"]


def test_a_folder_with_other_files_is_refused_and_unchanged(tmp_path):
    file = tmp_path / "file"
    file.write_text("mine")
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "notes.txt").write_text("mine")
    with pytest.raises(FolderError, match="is a file"):
        RunFolder(file).create(RECIPE, [])
    with pytest.raises(FolderError, match="cannot create the run folder"):
        RunFolder(file / "below").create(RECIPE, [])
    with pytest.raises(FolderError, match="not empty and not a run folder"):
        RunFolder(tmp_path / "other").create(RECIPE, [])
    with pytest.raises(FolderError, match="not a run folder"):
        RunFolder(tmp_path / "other").open()
    assert file.read_text() == "mine" and names(tmp_path / "other") == ["notes.txt"]


@pytest.mark.parametrize("step", ["lock", "write_json", "append_line", "write_text"])
@pytest.mark.parametrize("torn", [False, True])
def test_a_folder_whose_creation_was_interrupted_can_be_created_again(step, torn, tmp_path, monkeypatch):
    path = tmp_path / "run"

    def die(*args: Any, **keywords: Any) -> None:
        if torn:  # as a file that was being written when the process was killed
            (path / ".recipe.yaml.tmp-0123abcd").write_text("form")
        raise Killed

    with monkeypatch.context() as patch:
        if step == "lock":
            real = RunFolder.lock
            patch.setattr(RunFolder, "lock", lambda self: (real(self), die()))
        else:
            patch.setattr(weft.training.run_folder, step, die)
        folder = RunFolder(path)
        with pytest.raises(Killed):
            folder.create(RECIPE, [])
        folder.close()
    assert RunFolder(path).is_incomplete() and not RunFolder(path).is_run()
    again = RunFolder(path)
    again.create(RECIPE, [])
    assert names(path) == [".lock", "environment.json", "log.jsonl", "recipe.yaml"]
    assert len(again.read_log()) == 1


def test_a_folder_with_a_lock_and_other_files_is_not_incomplete(tmp_path):
    (tmp_path / ".lock").touch()
    assert RunFolder(tmp_path).is_incomplete()
    (tmp_path / "checkpoints").mkdir()
    assert not RunFolder(tmp_path).is_incomplete()


def test_a_process_that_loses_the_race_for_a_folder_changes_nothing(tmp_path, monkeypatch):
    real = RunFolder.lock

    def late(self: RunFolder) -> None:
        monkeypatch.setattr(RunFolder, "lock", real)
        winner = RunFolder(self.path)
        winner.create({"seed": 1}, [])
        winner.close()
        real(self)

    monkeypatch.setattr(RunFolder, "lock", late)
    loser = RunFolder(tmp_path / "run")
    with pytest.raises(FolderError, match="already contains a run"):
        loser.create({"seed": 2}, [])
    assert not loser.created
    assert "seed: 1" in loser.recipe.read_text()


# ----------------------------------------------------------------------------------------------------------- taking back


def test_remove_created_removes_a_folder_that_did_not_exist(tmp_path):
    folder = RunFolder(tmp_path / "run")
    folder.create(RECIPE, [])
    (folder.path / "fields.json").write_text("{}")
    (folder.path / "tokenizer-text.json").write_text("{}")
    folder.remove_created()
    assert not folder.path.exists()


def test_remove_created_keeps_files_of_others(tmp_path):
    (tmp_path / "run").mkdir()
    folder = RunFolder(tmp_path / "run")
    folder.create(RECIPE, [])
    (folder.path / "notes.txt").write_text("mine")
    (folder.path / "checkpoints").mkdir()
    folder.remove_created()
    assert names(folder.path) == ["checkpoints", "notes.txt"]
    empty = RunFolder(tmp_path / "empty")
    empty.path.mkdir()
    empty.create(RECIPE, [])
    empty.remove_created()
    assert names(empty.path) == []


# ------------------------------------------------------------------------------------------------------ opening and lock


def test_only_one_process_can_lock_a_folder(tmp_path):
    first, second = RunFolder(tmp_path / "run"), RunFolder(tmp_path / "run")
    first.create(RECIPE, [])
    with pytest.raises(FolderError, match="another process is training into"):
        second.open()
    first.close()
    second.open()


def test_a_second_run_and_a_missing_one_are_refused(tmp_path):
    folder = RunFolder(tmp_path / "run")
    with pytest.raises(FolderError, match=r"no folder .*run to resume"):
        folder.open()
    folder.create(RECIPE, [])
    folder.close()
    with pytest.raises(FolderError, match="already contains a run; resume it with --resume"):
        RunFolder(tmp_path / "run").create(RECIPE, [])


def test_opening_removes_temporary_files_of_a_killed_process(tmp_path):
    folder = RunFolder(tmp_path / "run")
    folder.create(RECIPE, [])
    folder.close()
    with folder.log.open("ab") as stream:
        stream.write(b'{"event": "upd')
    (folder.path / ".log.jsonl.tmp-0123abcd").write_text("{}")
    (folder.path / "notes.txt").write_text("mine")
    (folder.path / ".hidden").write_text("mine")
    folder.open()
    folder.write_log({"step": 1})
    assert [row["event"] for row in folder.read_log()] == ["begun", "train"]
    assert names(folder.path) == [".hidden", ".lock", "environment.json", "log.jsonl", "notes.txt", "recipe.yaml"]


def test_truncating_the_log_removes_repeated_updates_and_keeps_events(tmp_path):
    folder = RunFolder(tmp_path)
    for stage in (0, 1):
        for step in (1, 2, 3):
            append_line(folder.log, {"event": "train", "stage": stage, "step": step})
            append_line(folder.log, {"event": "valid", "stage": stage, "step": step})
            append_line(folder.log, {"event": "saved", "stage": stage, "step": step})
    folder.truncate_log(1, 2)
    rows = [(row["event"], row["stage"], row["step"]) for row in folder.read_log()]
    assert [row for row in rows if row[0] == "saved"] == [("saved", s, r) for s in (0, 1) for r in (1, 2, 3)]
    for event in ("train", "valid"):
        expected = [(event, 0, r) for r in (1, 2, 3)] + [(event, 1, r) for r in (1, 2)]
        assert [row for row in rows if row[0] == event] == expected


@pytest.mark.parametrize("content", ["", "{", "[]", '{"plugins": 3}', "\xff"])
def test_a_damaged_environment_file_lists_no_plugins(content, tmp_path):
    (tmp_path / "environment.json").write_bytes(content.encode("latin-1"))
    assert RunFolder(tmp_path).plugins() == []


# ---------------------------------------------------------------------------------------------------------------- numbers


def test_runs_are_numbered(tmp_path):
    assert next_folder("dates", tmp_path / "runs") == tmp_path / "runs" / "dates-1"
    with pytest.raises(FolderError, match="no run"):
        latest_folder("dates", tmp_path)
    for name in ("dates-2", "dates-10", "dates-x", "dates-transformer-30", "my-dates-40"):
        (tmp_path / name).mkdir()
    assert next_folder("dates", tmp_path) == tmp_path / "dates-11"
    assert latest_folder("dates", tmp_path) == tmp_path / "dates-10"
    (tmp_path / "a[1]*-5").mkdir()
    assert next_folder("a[1]*", tmp_path) == tmp_path / "a[1]*-6"


# ---------------------------------------------------------------------------------------------------------------- compare


def test_recipes_are_compared_option_by_option():
    old = {"a": 1, "b": {"c": [1, {"d": 2}], "e": None}, "f": [1, 2]}
    assert compare_recipes(old, json.loads(json.dumps(old))) == {}
    new = {"a": 1, "b": {"c": [1, {"d": 3}], "e": 0}, "f": [1, 2, 3], "g": "x"}
    expected = {"b.c.1.d": (2, 3), "b.e": (None, 0), "f": ([1, 2], [1, 2, 3]), "g": (None, "x")}
    assert compare_recipes(old, new) == expected
    assert compare_recipes({"x": 1}, {"x": 1.0}) == {"x": (1, 1.0)}
    assert compare_recipes({"x": {"y": 1}}, {"x": 1}) == {"x": ({"y": 1}, 1)}


@pytest.mark.parametrize(
    "line", ["3", "[]", '{"event": "train"}', '{"event": "train", "step": null}', '{"event": "x", "stage": "y"}']
)
def test_an_invalid_log_is_reported_before_any_file_is_changed(line, tmp_path):
    folder = RunFolder(tmp_path / "run")
    folder.create({"seed": 1}, [])
    folder.close()
    before = folder.log.read_text()
    folder.log.write_text(before + line + "\n")
    with pytest.raises(FolderError, match=r"log\.jsonl:2: not a log entry of a run; remove the line to resume"):
        RunFolder(tmp_path / "run").open()
    assert folder.log.read_text() == before + line + "\n"
