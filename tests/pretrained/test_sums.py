"""SHA256SUMS of models that weft has written: damage is reported, and a folder without it is loaded as before."""

from __future__ import annotations

from pathlib import Path

import pytest

from weft.pretrained.sums import SUMS, check_sums, write_sums


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "1_Pooling").mkdir()
    for name in ("config.json", "model.safetensors", "1_Pooling/config.json"):
        (tmp_path / name).write_text(name)
    write_sums(tmp_path)
    return tmp_path


def test_an_intact_folder_and_one_without_hashes_are_accepted(folder):
    check_sums(folder)
    (folder / "more.txt").write_text("a file that was added")
    check_sums(folder)
    (folder / SUMS).unlink()
    (folder / "config.json").write_text("other")
    check_sums(folder)


@pytest.mark.parametrize("name", ["config.json", "model.safetensors", "1_Pooling/config.json"])
def test_a_changed_or_missing_file_is_named_with_the_way_out(name, folder):
    (folder / name).write_text("other")
    with pytest.raises(ValueError, match=rf"{name} is damaged or was changed: .*if the change is intended, remove .*{SUMS}"):
        check_sums(folder)
    (folder / name).unlink()
    with pytest.raises(ValueError, match=rf"{name} is missing; restore it"):
        check_sums(folder)


@pytest.mark.parametrize("line", ["garbage", "00  ../outside", "00  /etc/passwd"])
def test_a_damaged_list_is_reported(line, folder):
    (folder / SUMS).write_text(line + "\n")
    with pytest.raises(ValueError, match=rf"{SUMS}:1: not a line of sha256sum"):
        check_sums(folder)
