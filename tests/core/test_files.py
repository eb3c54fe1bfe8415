"""Writes stay inside a protected folder: no link is followed, no name leads out, no other name of a file changes."""

from __future__ import annotations

import ast
import os
from collections.abc import Callable
from pathlib import Path

import pytest

import weft
from weft.core import files
from weft.core.files import LinkError

CHANGES: dict[str, Callable[[Path], object]] = {
    "write_bytes": lambda path: files.write_bytes(path, b"new"),
    "append_bytes": lambda path: files.append_bytes(path, b"new"),
    "open_lock": lambda path: files.open_lock(path).close(),
    "new_file": files.new_file,
    "sync_file": files.sync_file,
    "make_folder": lambda path: files.make_folder(path / "inner"),
    "rename from": lambda path: files.rename(path, path.with_name("other")),
    "rename to": lambda path: files.rename(_touched(path.with_name("other")), path),
    "remove": files.remove,
    "remove_tree": files.remove_tree,
}


def _touched(path: Path) -> Path:
    path.touch()
    return path


@pytest.fixture
def victim(tmp_path: Path) -> Path:
    folder = tmp_path / "victim"
    (folder / "inner").mkdir(parents=True)
    for name in ("notes.txt", "other", "inner/deep.txt"):
        (folder / name).write_text("precious")
    return folder


def content(folder: Path) -> dict[str, str]:
    return {str(path.relative_to(folder)): path.read_text() if path.is_file() else "folder" for path in folder.rglob("*")}


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("planted", ["the file", "its folder"])
def test_no_change_goes_through_a_link_that_appears_later(tmp_path: Path, victim: Path, change: str, planted: str) -> None:
    run, before = tmp_path / "run", content(victim)
    run.mkdir()
    files.protect(run)
    if planted == "the file":
        (run / "file").symlink_to(victim / ("inner" if change in ("make_folder", "remove_tree") else "notes.txt"))
        path = run / "file"
    else:
        (run / "checkpoints").symlink_to(victim)
        path = run / "checkpoints" / ("inner" if change in ("make_folder", "remove_tree") else "notes.txt")
    try:
        CHANGES[change](path)
    except (LinkError, OSError) as error:
        assert planted == "its folder" or change in ("append_bytes", "open_lock", "sync_file", "make_folder", "remove_tree"), (
            error
        )
    else:
        assert planted == "the file", "the folder is a link, so nothing may happen"
    assert content(victim) == before


@pytest.mark.parametrize("change", sorted(set(CHANGES) - {"rename to"}))
def test_no_path_leads_out_of_a_protected_folder(tmp_path: Path, victim: Path, change: str) -> None:
    run, before = tmp_path / "run", content(victim)
    (run / "inner").mkdir(parents=True)
    files.protect(run)
    with pytest.raises(LinkError, match="leads out of"):
        CHANGES[change](run / "inner" / ".." / ".." / "victim" / "notes.txt")
    assert content(victim) == before


@pytest.mark.parametrize(
    ("plant", "message"),
    [
        (lambda path, victim: path.symlink_to(victim), "is a link"),
        (lambda path, victim: path.symlink_to("nowhere"), "is a link"),
        (lambda path, victim: os.mkfifo(path), "pipe or socket"),
    ],
    ids=["link", "broken link", "pipe"],
)
def test_a_folder_with_links_or_special_files_is_refused(tmp_path: Path, victim: Path, plant: Callable, message: str) -> None:
    (tmp_path / "run" / "a" / "b").mkdir(parents=True)
    plant(tmp_path / "run" / "a" / "b" / "x", victim)
    with pytest.raises(LinkError, match=f"b/x .*{message}"):
        files.protect(tmp_path / "run")


def test_a_link_to_the_protected_folder_itself_is_the_users_own(tmp_path: Path) -> None:
    (tmp_path / "disk").mkdir()
    (tmp_path / "run").symlink_to("disk")
    files.protect(tmp_path / "run")
    files.write_bytes(tmp_path / "run" / "a", b"1")
    files.append_bytes(tmp_path / "run" / "a", b"2")
    assert (tmp_path / "disk" / "a").read_bytes() == b"12"


def test_the_number_of_entries_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "MAX_ENTRIES", 2)
    for name in "abc":
        (tmp_path / name).touch()
    with pytest.raises(LinkError, match="more than 2 files"):
        files.protect(tmp_path)


def test_a_file_with_another_name_is_not_changed_in_place(tmp_path: Path) -> None:
    (tmp_path / "backup").write_text("old\n")
    os.link(tmp_path / "backup", tmp_path / "log")
    files.append_bytes(tmp_path / "log", b"new\n")
    assert (tmp_path / "log").read_text() == "old\nnew\n" and (tmp_path / "backup").read_text() == "old\n"


def test_a_pipe_does_not_block(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "log")
    with pytest.raises((LinkError, OSError), match=r"regular file|No such device"):
        files.append_bytes(tmp_path / "log", b"x")


def test_folders_above_are_created_and_a_file_in_the_way_is_an_error(tmp_path: Path) -> None:
    files.make_folder(tmp_path / "a" / "b")
    files.make_folder(tmp_path / "a" / "b")
    assert (tmp_path / "a" / "b").is_dir()
    (tmp_path / "a" / "c").touch()
    with pytest.raises(OSError, match="Not a directory"):
        files.make_folder(tmp_path / "a" / "c")


WRITES = {
    *("write_text", "write_bytes", "mkdir", "touch", "unlink", "rmdir", "rename", "replace", "symlink_to", "hardlink_to"),
    *("rmtree", "copyfile", "copytree", "copy", "copy2", "move", "savefig", "save_file", "save", "tofile", "makedirs", "remove"),
}
"""Names of functions and methods of pathlib, os, shutil, matplotlib, safetensors and NumPy that change files."""
EXEMPT = {
    "core/files.py": "does all writing",
    "data/": "writes into the cache, which belongs to the user",
    "cli/commands/embed.py: np.save(buffer": "into memory",
    "inspect/plotting.py: figure.savefig(image": "into memory",
    "learning/checkpoint.py: safetensors.torch.save_file(distinct": "into a file that new_file has created",
    "pretrained/saving.py: save_file(": "into the new folder of complete_folder",
    "training/tensorboard.py: SummaryWriter(": "a new file in a folder that make_folder has checked",
}


def test_only_one_module_changes_files() -> None:
    """A module that opens files for writing, or calls a function that changes files, must be exempt for a reason."""
    source, found = Path(weft.__file__).parent, set()
    for file in source.rglob("*.py"):
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and _changes_files(node):
                found.add(f"{file.relative_to(source)}: {ast.unparse(node)}")
    assert sorted(line for line in found if not line.startswith(tuple(EXEMPT))) == []
    assert [name for name in EXEMPT if not any(line.startswith(name) for line in found)] == [], "unused exemptions"


def _changes_files(call: ast.Call) -> bool:
    function = call.func
    if getattr(function, "attr", getattr(function, "id", "")) == "open":
        values = [*call.args, *(keyword.value for keyword in call.keywords)]
        modes = [v.value for v in values if isinstance(v, ast.Constant) and isinstance(v.value, str)]
        return any(set(mode) <= set("rwaxbt+") and set(mode) & set("wax+") for mode in modes)
    if isinstance(function, ast.Name):
        return function.id in ("rmtree", "copyfile", "copytree", "save_file", "SummaryWriter")
    if not isinstance(function, ast.Attribute) or function.attr not in WRITES:
        return False
    owner = ast.unparse(function.value)
    if function.attr in ("replace", "remove", "save", "copy"):  # also of strings, lists and our own classes
        return owner in ("os", "shutil", "np", "numpy", "torch") or (function.attr == "replace" and len(call.args) == 1)
    return owner not in ("files", "weft.core.files")
