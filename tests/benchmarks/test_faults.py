"""A small share of the campaigns: faults of the disk, and damaged files. In full: benchmarks.faults and benchmarks.damage."""

from __future__ import annotations

import errno
import random
from pathlib import Path

import pytest
from benchmarks.damage import Subject, subjects
from benchmarks.faults import Disk, targets
from benchmarks.small_runs import SmallRun, without_pictures


@pytest.fixture(scope="module", autouse=True)
def _no_pictures():
    with without_pictures():
        yield


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> SmallRun:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("WEFT_CACHE", "")  # set by the run; restored here
        small = SmallRun(tmp_path_factory.mktemp("small"))
        small.train(small.home / "whole")
        yield small


@pytest.mark.parametrize(
    ("name", "at", "code"),
    [
        ("create", 4, errno.EROFS),
        ("save", 9, errno.ENOSPC),
        ("save", 25, errno.EIO),
        ("log", 2, errno.EDQUOT),
        ("final", 5, errno.ENOSPC),
        ("artifacts", 6, errno.EROFS),
        ("cache", 7, errno.EIO),
        ("convert", 11, errno.ENOSPC),
    ],
)
def test_a_fault_is_reported_and_the_command_can_be_repeated(name, at, code, small):
    assert targets(small)[name]().case(at, code) == "reported"


def test_a_write_that_fails_has_written_half(tmp_path):
    from weft.core.io import append_line

    append_line(tmp_path / "log", {"a": 1})
    disk = Disk(2, errno.ENOSPC)
    disk.watched = True
    with disk.attached(), pytest.raises(OSError, match="No space"):
        append_line(tmp_path / "log", {"b": 2})
    assert disk.struck and (tmp_path / "log").read_text() == '{"a": 1}\n'


@pytest.fixture(scope="module")
def damaged(tmp_path_factory: pytest.TempPathFactory):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("WEFT_CACHE", "")
        yield subjects(SmallRun(tmp_path_factory.mktemp("damaged")))


@pytest.mark.parametrize("name", ["checkpoints", "run", "trained", "cache", "cache on disk", "published"])
def test_damage_is_detected_or_changes_no_result(name, damaged):
    subject: Subject = damaged[name]()
    kinds = [subject.case(random.Random(f"{name} {number}")) for number in range(3)]
    assert {kind for _, kind in kinds} <= {"detected", "harmless"}, kinds


def test_another_result_is_noticed(tmp_path: Path):
    """The campaign itself can fail."""
    (tmp_path / "original").mkdir()
    (tmp_path / "original" / "a.txt").write_text("1")
    subject = Subject(tmp_path / "original", "*", lambda copy: (copy / "a.txt").read_bytes(), tmp_path / "original")
    assert {subject.case(random.Random(seed))[1] for seed in range(9)} >= {"another result"}
