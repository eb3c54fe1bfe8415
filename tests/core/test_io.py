"""Files are old or new, never half; logs lose a torn end and nothing else."""

from __future__ import annotations

import ast
import errno
import hashlib
import io
import json
import math
import os
import pathlib
import shutil
import stat
import subprocess

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import weft
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


# -------------------------------------------------------------------------------------------------- documents of somebody else


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("[" * 100_000, r"nested more than 100 levels deep \(line 1, column 101\)"),
        ("[" * 101 + "]" * 101, r"nested more than 100 levels deep \(line 1, column 101\)"),
        ('{"a":\n ' * 50_000, r"nested more than 100 levels deep \(line 101, column 2\)"),
        (
            '{"1": "' + "1" * 400 + '",\n "n": ' + "9" * 5000 + "}",
            r"a number has 5,000 digits, more than 300 \(line 2, column 7\)",
        ),
        ('["' + "[" * 300 + '", 1', r"Expecting ',' delimiter \(line 1, column 307\)"),
    ],
)
def test_a_document_beyond_the_limits_is_refused_with_its_position(tmp_path, text, problem):
    (tmp_path / "a.json").write_text(text)
    with pytest.raises(ValueError, match=r"a\.json: not valid JSON: " + problem):
        files.read_json(tmp_path / "a.json")


def test_a_document_within_the_limits_is_read(tmp_path):
    for text in ("[" * 100 + "]" * 100, json.dumps(["[{" * 300, [[1]] * 300]), "9" * 300):
        (tmp_path / "a.json").write_text(text)
        assert files.read_json(tmp_path / "a.json") == json.loads(text)


def test_a_log_with_a_line_beyond_the_limits_is_refused_with_its_line(tmp_path):
    """Such a line is complete: it must not be dropped as the torn end of a log."""
    path = tmp_path / "log.jsonl"
    for line, problem in (("[" * 5000 + "]" * 5000, "nested more than 100 levels"), ("9" * 5000, "a number has 5,000 digits")):
        path.write_text(f'{{"a": 1}}\n{line}\n')
        before = path.read_bytes()
        for read in (files.read_lines, lambda p: files.truncate_lines(p, bool)):
            with pytest.raises(ValueError, match=rf"log\.jsonl:2: not valid JSON: {problem}"):
                read(path)
        assert files.repair_lines(path) == 0 and path.read_bytes() == before


def test_the_size_is_checked_before_a_file_is_read(tmp_path):
    path = tmp_path / "a.json"
    with path.open("wb") as file:
        file.truncate(files.MAX_LOG_BYTES + 1)  # a hole: it takes no space, and would take minutes to read
    for read in (files.read_json, files.read_lines, files.repair_lines):
        with pytest.raises(ValueError, match=r"a\.json: has 1,073,741,825 bytes; at most [\d,]+ are allowed"):
            read(path)


def test_only_regular_files_are_read(tmp_path):
    os.mkfifo(tmp_path / "a.json")  # opening it would block
    with pytest.raises(ValueError, match=r"a\.json: must be a regular file"):
        files.read_json(tmp_path / "a.json")
    with pytest.raises(ValueError, match="must be a regular file"):
        files.read_json("/dev/zero")


OWN_TEXT = {
    "core/io.py": "reads JSON for all others",
    "data/tokenizers/bpe.py": "the text of a tokenizer in memory",
    "learning/processes.py": "messages between the processes of one run",
}


def test_only_one_module_reads_json():
    """A module that calls a JSON parser of its own must be exempt for a reason."""
    source, found = pathlib.Path(weft.__file__).parent, set()
    for file in source.rglob("*.py"):
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            parses = isinstance(node, ast.Attribute) and node.attr in ("load", "loads", "JSONDecoder", "raw_decode")
            if parses and ast.unparse(node.value) in ("json", "orjson", "ujson", "yaml"):
                found.add(str(file.relative_to(source)))
            if isinstance(node, ast.ImportFrom) and node.module in ("json", "json.decoder"):
                found.add(str(file.relative_to(source)))
    assert found == set(OWN_TEXT)
