"""Files are old or new, never half; logs lose a torn end and nothing else."""

from __future__ import annotations

import errno
import hashlib
import io
import json
import math
import os
import shutil
import stat
import subprocess

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import weft.core.files
from weft.core import io as files

json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(st.characters(exclude_categories=["Cs"])),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(st.characters(exclude_categories=["Cs"])), inner, max_size=3)
    ),
    max_leaves=8,
)


@settings(deadline=None, max_examples=40)
@given(json_values)
def test_json_comes_back_as_it_was(tmp_path_factory, document):
    path = tmp_path_factory.mktemp("json") / "a.json"
    files.write_json(path, document)
    assert files.read_json(path) == document
    assert [p.name for p in path.parent.iterdir()] == ["a.json"]


def test_json_keeps_what_is_not_finite(tmp_path):
    files.write_json(tmp_path / "a.json", [math.nan, math.inf, -math.inf])
    nan, plus, minus = files.read_json(tmp_path / "a.json")
    assert math.isnan(nan) and plus == math.inf and minus == -math.inf


def test_json_that_would_come_back_otherwise_is_refused(tmp_path):
    path = tmp_path / "a.json"
    files.write_json(path, "old")
    with pytest.raises(ValueError, match=r"a\.json: cannot be written as JSON: key 1 is not a string"):
        files.write_json(path, {"a": [{1: 2}]})
    with pytest.raises(ValueError, match=r"a\.json: cannot be written as JSON: .*set"):
        files.write_json(path, {"a": {1, 2}})
    assert files.read_json(path) == "old"


def test_broken_json_is_reported_with_its_position(tmp_path):
    path = tmp_path / "a.json"
    path.write_text('{"a": 1,\n "b" 2}')
    with pytest.raises(ValueError, match=r"a\.json: not valid JSON: .* \(line 2, column 6\)"):
        files.read_json(path)
    path.write_bytes(b'{"a": "\xff"}')
    with pytest.raises(ValueError, match=r"a\.json: not valid JSON: byte 7 is not UTF-8"):
        files.read_json(path)


def test_sha256_and_text(tmp_path):
    files.write_text(tmp_path / "a.txt", "Zürich\r\n")
    assert (tmp_path / "a.txt").read_bytes() == "Zürich\r\n".encode()
    assert files.sha256(tmp_path / "a.txt") == hashlib.sha256("Zürich\r\n".encode()).hexdigest()


def test_a_new_file_has_the_mode_of_the_umask(tmp_path):
    files.write_json(tmp_path / "a.json", 2)
    (tmp_path / "plain").touch()
    assert stat.S_IMODE((tmp_path / "a.json").stat().st_mode) == stat.S_IMODE((tmp_path / "plain").stat().st_mode)


@pytest.mark.parametrize("broken", ["fsync", "write", "replace"])
def test_a_failed_write_leaves_the_old_file_alone(tmp_path, monkeypatch, broken):
    path = tmp_path / "a.json"
    files.write_json(path, "old")

    def fail(*args, **kwargs):
        raise OSError(errno.ENOSPC, "No space left on device")

    if broken == "fsync":
        monkeypatch.setattr(os, "fsync", fail)
    elif broken == "replace":
        monkeypatch.setattr(os, "replace", fail)
    else:
        monkeypatch.setattr(weft.core.files, "FileIO", FullDisk)
    with pytest.raises(OSError, match="No space left"):
        files.write_json(path, "new")
    monkeypatch.undo()
    assert files.read_json(path) == "old"
    assert [p.name for p in tmp_path.iterdir()] == ["a.json"]


class FullDisk(io.FileIO):
    """A file that takes half of what is written to it."""

    def write(self, data):
        super().write(data[: len(data) // 2])
        raise OSError(errno.ENOSPC, "No space left on device")


def test_the_content_is_on_the_disk_before_the_rename(tmp_path, monkeypatch):
    calls = []
    fsync, replace = os.fsync, os.replace
    monkeypatch.setattr(os, "fsync", lambda handle: calls.append(stat.S_ISDIR(os.fstat(handle).st_mode)) or fsync(handle))
    monkeypatch.setattr(os, "replace", lambda *args, **options: calls.append("rename") or replace(*args, **options))
    files.write_json(tmp_path / "a.json", 1)
    assert calls == [False, "rename", True]  # the file, the name, the folder


# ------------------------------------------------------------------------------------------------------------- JSON lines


@settings(deadline=None, max_examples=40)
@given(st.lists(json_values, max_size=5), st.data())
def test_a_log_cut_anywhere_keeps_all_whole_lines(tmp_path_factory, documents, data):
    path = tmp_path_factory.mktemp("log") / "log.jsonl"
    for document in documents:
        files.append_line(path, document)
    whole = path.read_bytes() if documents else b""
    cut = data.draw(st.integers(0, len(whole)))
    path.write_bytes(whole[:cut])
    kept = documents[: whole[:cut].count(b"\n")]
    assert files.read_lines(path) == kept
    dropped = files.repair_lines(path)
    assert dropped == cut - path.stat().st_size
    assert files.repair_lines(path) == 0
    files.append_line(path, "next")
    assert files.read_lines(path) == [*kept, "next"]


def test_zeros_after_a_power_cut_are_cut_off(tmp_path):
    path = tmp_path / "log.jsonl"
    files.append_line(path, {"a": 1}, sync=True)
    good = path.read_bytes()
    path.write_bytes(good + b"\0" * 100 + b"\n" + b"\0" * 50)
    assert files.read_lines(path) == [{"a": 1}]
    assert files.repair_lines(path) == 151
    assert path.read_bytes() == good


def test_a_broken_line_in_the_middle_is_named(tmp_path):
    path = tmp_path / "log.jsonl"
    path.write_text('{"a": 1}\n{"a"\n{"a": 3}\n')
    for read in (files.read_lines, lambda p: files.truncate_lines(p, bool)):
        with pytest.raises(ValueError, match=r"log\.jsonl:2: not valid JSON; remove the line"):
            read(path)
    assert files.repair_lines(path) == 0


def test_truncate_drops_what_is_not_wanted_and_keeps_the_bytes_of_the_rest(tmp_path):
    path = tmp_path / "log.jsonl"
    path.write_text('{"update":  1}\n{"update": 2}\n{"update": 3, "text": "\u2028"}\n{"upd')
    assert files.truncate_lines(path, lambda row: row["update"] != 2) == 1
    assert path.read_text() == '{"update":  1}\n{"update": 3, "text": "\u2028"}\n'
    assert files.truncate_lines(path, lambda row: True) == 0


def test_no_log_is_an_empty_log(tmp_path):
    path = tmp_path / "log.jsonl"
    assert files.read_lines(path) == [] and files.repair_lines(path) == 0 and files.truncate_lines(path, bool) == 0
    assert not path.exists()


def test_a_failed_line_leaves_the_log_as_it_was(tmp_path, monkeypatch):
    path = tmp_path / "log.jsonl"
    files.append_line(path, {"a": 1})
    monkeypatch.setattr(weft.core.files, "FileIO", FullDisk)
    with pytest.raises(OSError, match="No space left"):
        files.append_line(path, {"a": "x" * 1000})
    assert path.read_text() == json.dumps({"a": 1}) + "\n"
    with pytest.raises(ValueError, match="cannot be written as JSON"):
        files.append_line(path, object())
    assert files.read_lines(path) == [{"a": 1}]


@pytest.fixture
def small_disk(tmp_path):
    """A file system of 64 kB."""
    folder = tmp_path / "small"
    folder.mkdir()
    done = (
        subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", folder], capture_output=True)
        if shutil.which("mount")
        else None
    )
    if done is None or done.returncode:
        pytest.skip("mounting a small file system needs rights that this user does not have")
    yield folder
    subprocess.run(["umount", folder], check=True)


def test_a_full_disk_for_real(small_disk):
    log, document = small_disk / "log.jsonl", small_disk / "a.json"
    files.write_json(document, "old")
    files.append_line(log, {"a": 1})
    with pytest.raises(OSError) as caught:
        files.append_line(log, {"a": "x" * 100_000})
    assert caught.value.errno == errno.ENOSPC
    with pytest.raises(OSError) as caught:
        files.write_json(document, "x" * 100_000)
    assert caught.value.errno == errno.ENOSPC
    assert files.read_json(document) == "old" and log.read_text() == '{"a": 1}\n'
    files.append_line(log, {"a": 2})
    assert sorted(p.name for p in small_disk.iterdir()) == ["a.json", "log.jsonl"]


def test_a_file_that_cannot_be_written_is_named_as_requested(tmp_path):
    with pytest.raises(OSError, match=r"absent/figure\.svg") as caught:
        files.write_text(tmp_path / "absent" / "figure.svg", "text")
    assert "tmp-" not in str(caught.value)
    (tmp_path / "folder").mkdir()
    with pytest.raises(OSError, match=r"folder") as caught:
        files.write_text(tmp_path / "folder", "text")
    assert "tmp-" not in str(caught.value) and not list(tmp_path.glob(".*"))
