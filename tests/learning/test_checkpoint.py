"""Checkpoints survive crashes at every moment, kills, full disks and damaged files."""

from __future__ import annotations

import errno
import json
import os
import random
import re
import shutil
import signal
import stat
import subprocess
import time
import traceback
from pathlib import Path

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from weft.learning import checkpoint
from weft.learning.checkpoint import Checkpoint, CheckpointError, Checkpoints, digest, load, problems, read_tensors, write_tensors


def content(value):
    """Return tensors and documents that all contain the same number, to detect a mixture of two checkpoints."""
    tensors = {
        "model.safetensors": {f"layer{i}.weight": torch.full((50, 50), float(value)) for i in range(3)},
        "optimizer.safetensors": {"step": torch.tensor(float(value)), "ids": torch.full((10,), value)},
    }
    return tensors, {"state.json": {"value": value}, "more.json": [value] * 100}


def value_of(path):
    """Return the number of a checkpoint, after checking that all of its parts contain it."""
    found = load(path)
    values = {float(v) for named in found.tensors.values() for t in named.values() for v in t.reshape(-1).tolist()}
    values |= {float(v) for v in [found.documents["state.json"]["value"], *found.documents["more.json"]]}
    assert len(values) == 1 and len(found.tensors) == len(found.documents) == 2
    assert len(found.tensors["model.safetensors"]) == 3
    return int(values.pop())


def saved(folder, *steps, keep=3, **options):
    checkpoints = Checkpoints(folder, keep)
    for step in steps:
        checkpoints.save(step, *content(step), **options)
    return checkpoints


def names(folder):
    return sorted(path.name for path in Path(folder).iterdir())


# ------------------------------------------------------------------------------------------------------------ the plain way


def test_a_saved_checkpoint_loads_with_equal_tensors_and_documents(tmp_path):
    tensors, documents = content(7)
    path = Checkpoints(tmp_path / "run" / "checkpoints").save(1234, tensors, documents)
    assert path == tmp_path / "run" / "checkpoints" / "step-00001234"
    assert problems(path) == []
    found = load(path)
    assert isinstance(found, Checkpoint) and found.step == 1234 and found.documents == documents
    for file, named in tensors.items():
        assert found.tensors[file].keys() == named.keys()
        for name, tensor in named.items():
            assert torch.equal(found.tensors[file][name], tensor) and found.tensors[file][name].dtype == tensor.dtype
    assert names(path) == ["manifest.json", "model.safetensors", "more.json", "optimizer.safetensors", "state.json"]
    manifest = json.loads((path / "manifest.json").read_text())
    assert manifest["format"] == 1 and manifest["step"] == 1234 and "manifest.json" not in manifest["files"]


def test_reading_changes_nothing(tmp_path):
    checkpoints = Checkpoints(tmp_path / "none")
    assert checkpoints.latest().path is None and checkpoints.best() is None and not (tmp_path / "none").exists()
    saved(tmp_path, 1)
    (tmp_path / ".tmp-00000002-abc").mkdir()
    Checkpoints(tmp_path).latest()
    assert names(tmp_path) == [".tmp-00000002-abc", "step-00000001"]


def test_saving_cleans_up_after_a_crash(tmp_path):
    saved(tmp_path, 1)
    for name in (".tmp-00000002-abc", ".old-step-00000000-abc"):
        (tmp_path / name).mkdir()
    (tmp_path / ".best.json.tmp-abc").touch()
    saved(tmp_path, 2)
    assert names(tmp_path) == ["step-00000001", "step-00000002"]


def test_the_latest_checkpoint_has_the_highest_number(tmp_path):
    checkpoints = saved(tmp_path, 9, 100_000_000, 10, keep=5)
    assert checkpoints.latest().path == tmp_path / "step-100000000"
    (tmp_path / "step-100000000").rename(tmp_path / "elsewhere")
    assert checkpoints.latest().path == tmp_path / "step-00000010"


def test_file_modes_follow_the_umask(tmp_path):
    path = Checkpoints(tmp_path).save(1, *content(1))
    (tmp_path / "plain").touch()
    assert {stat.S_IMODE(p.stat().st_mode) for p in path.iterdir()} == {stat.S_IMODE((tmp_path / "plain").stat().st_mode)}


@pytest.mark.parametrize(
    ("step", "tensors", "documents", "message"),
    [
        (-1, {}, {}, "at least 0, not -1"),
        (1, {"a.bin": {}}, {}, r"invalid name 'a\.bin' of a checkpoint file; use a plain name that ends in \.safetensors"),
        (1, {"../a.safetensors": {}}, {}, "a plain name"),
        (1, {}, {"a.safetensors": {}}, r"ends in \.json"),
        (1, {}, {"manifest.json": {}}, r"other than manifest\.json"),
        (1, {}, {".tmp-a.json": {}}, "a plain name"),
        (1, {"a.safetensors": {"w": torch.ones(1, device="meta")}}, {}, "w is on the meta device and has no values"),
        (1, {}, {"a.json": {"w": torch.ones(1)}}, "cannot be written as JSON"),
    ],
)
def test_invalid_content_is_refused_and_leaves_no_files(tmp_path, step, tensors, documents, message):
    with pytest.raises(ValueError, match=message):
        Checkpoints(tmp_path).save(step, tensors, documents)
    assert names(tmp_path) == []


def test_keep_is_at_least_one(tmp_path):
    with pytest.raises(ValueError, match="at least 1, not 0"):
        Checkpoints(tmp_path, keep=0)


# ------------------------------------------------------------------------------------------------------------------ tensors

DTYPES = [torch.float32, torch.float64, torch.bfloat16, torch.float16, torch.int64, torch.int32, torch.uint8, torch.bool]


@settings(deadline=None, max_examples=50)
@given(
    st.lists(st.tuples(st.sampled_from(DTYPES), st.lists(st.integers(0, 4), max_size=3), st.booleans()), max_size=6),
    st.randoms(use_true_random=False),
)
def test_equal_tensors_give_equal_bytes(tmp_path_factory, kinds, rng):
    folder = tmp_path_factory.mktemp("bytes")
    tensors = {}
    for i, (dtype, shape, turned) in enumerate(kinds):
        tensor = torch.arange(torch.Size(shape).numel(), dtype=torch.float32).reshape(shape).to(dtype)
        tensors[f"t{i}"] = tensor.permute(list(range(len(shape)))[::-1]) if turned else tensor
    shuffled = list(tensors.items())
    rng.shuffle(shuffled)
    write_tensors(folder / "a.safetensors", tensors)
    write_tensors(folder / "b.safetensors", {name: tensor.clone() for name, tensor in shuffled})
    assert (folder / "a.safetensors").read_bytes() == (folder / "b.safetensors").read_bytes()
    assert digest(folder / "a.safetensors") == digest(folder / "b.safetensors")
    back = read_tensors(folder / "a.safetensors")
    assert back.keys() == tensors.keys()
    assert all(torch.equal(back[n], t) and back[n].dtype == t.dtype and back[n].shape == t.shape for n, t in tensors.items())


def test_the_order_of_names_does_not_matter_with_tied_tensors(tmp_path):
    shared, other = torch.ones(3), torch.zeros(4)
    tensors = {"b": shared, "a": shared, "c": torch.zeros(2), "d": other[:2], "e": shared, "f": other, "g": other[:2]}
    digests = set()
    for seed in range(10):
        items = list(tensors.items())
        random.Random(seed).shuffle(items)
        write_tensors(tmp_path / "a.safetensors", dict(items))
        digests.add(digest(tmp_path / "a.safetensors"))
    assert len(digests) == 1


def test_a_digest_depends_on_every_bit_of_the_tensors_and_not_on_documents(tmp_path):
    a = Checkpoints(tmp_path / "a").save(1, {"w.safetensors": {"w": torch.zeros(3)}}, {"time.json": 1})
    b = Checkpoints(tmp_path / "b").save(1, {"w.safetensors": {"w": torch.zeros(3)}}, {"time.json": 2})
    c = Checkpoints(tmp_path / "c").save(1, {"w.safetensors": {"w": torch.tensor([0.0, 0.0, -0.0])}}, {"time.json": 1})
    assert digest(a) == digest(b) != digest(c)


def test_tied_tensors_are_written_once_and_loaded_tied(tmp_path):
    table = torch.nn.Parameter(torch.randn(100, 8))
    tensors = {"head.weight": table, "embedder.weight": table.data, "other": torch.randn(100, 8), "also": table.view(100, 8)}
    write_tensors(tmp_path / "tied.safetensors", tensors)
    back = read_tensors(tmp_path / "tied.safetensors")
    assert back.keys() == tensors.keys() and all(torch.equal(back[n], tensors[n]) for n in tensors)
    assert (
        back["head.weight"].data_ptr()
        == back["embedder.weight"].data_ptr()
        == back["also"].data_ptr()
        != back["other"].data_ptr()
    )
    assert 2 * 3200 < (tmp_path / "tied.safetensors").stat().st_size < 3 * 3200
    path = Checkpoints(tmp_path / "run").save(1, {"m.safetensors": tensors}, {})
    again = load(path).tensors["m.safetensors"]
    assert again["head.weight"].data_ptr() == again["embedder.weight"].data_ptr()


def test_equal_but_separate_tensors_stay_separate(tmp_path):
    write_tensors(tmp_path / "a.safetensors", {"a": torch.ones(3), "b": torch.ones(3)})
    back = read_tensors(tmp_path / "a.safetensors")
    back["a"].zero_()
    assert back["b"].tolist() == [1, 1, 1]


def test_overlapping_views_are_written_separately(tmp_path):
    base = torch.arange(12.0)
    tensors = {
        "all": base, "head": base[:4], "tail": base[4:], "square": base[:9].view(3, 3), "turned": base[:9].view(3, 3).t(),
        "bits": base.view(torch.int32), "one": base[0], "empty": base[:0], "void": torch.empty(0, 3), "wide": base[:1].expand(5),
    }  # fmt: skip
    write_tensors(tmp_path / "a.safetensors", tensors)
    back = read_tensors(tmp_path / "a.safetensors")
    for name, tensor in tensors.items():
        assert torch.equal(back[name], tensor) and back[name].shape == tensor.shape and back[name].dtype == tensor.dtype, name
    assert torch.equal(base, torch.arange(12.0))


def test_a_truncated_tensor_file_is_reported(tmp_path):
    path = tmp_path / "a.safetensors"
    write_tensors(path, {"a": torch.ones(30)})
    path.write_bytes(path.read_bytes()[:-5])
    with pytest.raises(ValueError, match=r"a\.safetensors: not a complete safetensors file"):
        read_tensors(path)


# ------------------------------------------------------------------------------------------------------------------- damage


def flip(path):
    data = bytearray(path.read_bytes())
    data[-3] ^= 1
    path.write_bytes(data)


def edit(path, **changes):
    path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))


DAMAGE = {
    "no manifest": (lambda p: (p / "manifest.json").unlink(), r"manifest\.json cannot be read: No such file"),
    "half a manifest": (lambda p: (p / "manifest.json").write_text('{"format": 1, "upd'), r"manifest\.json is invalid"),
    "another manifest": (lambda p: (p / "manifest.json").write_text("[]"), r"manifest\.json is invalid"),
    "files as a list": (lambda p: edit(p / "manifest.json", files=[1]), r"manifest\.json is invalid"),
    "new format": (lambda p: edit(p / "manifest.json", format=2), "format version is 2, but this version of weft reads 1"),
    "another step": (lambda p: edit(p / "manifest.json", step=9), r"manifest\.json belongs to step 9"),
    "a path outside": (
        lambda p: edit(p / "manifest.json", files={"../x.json": {"size": 0, "sha256": ""}}),
        r"lists '\.\./x\.json', which is not a checkpoint file",
    ),
    "a file is gone": (lambda p: (p / "state.json").unlink(), r"state\.json cannot be read: No such file"),
    "a file is cut": (
        lambda p: (p / "model.safetensors").write_bytes(b"12345"),
        r"model\.safetensors has 5 bytes, expected \d{5}",
    ),
    "a bit is flipped": (lambda p: flip(p / "model.safetensors"), r"model\.safetensors has changed: its SHA-256"),
    "a document is changed": (lambda p: flip(p / "state.json"), r"state\.json has changed: its SHA-256"),
}


@pytest.mark.parametrize("kind", DAMAGE)
def test_damage_is_detected_and_the_previous_checkpoint_is_used(tmp_path, kind):
    checkpoints = saved(tmp_path, 1, 2, 3)
    damage, message = DAMAGE[kind]
    damage(tmp_path / "step-00000003")
    latest = checkpoints.latest()
    assert latest.path == tmp_path / "step-00000002" and value_of(latest.path) == 2
    assert list(latest.damaged) == [tmp_path / "step-00000003"]
    reasons = latest.damaged[tmp_path / "step-00000003"]
    assert len(reasons) == 1 and re.search(message, reasons[0])
    with pytest.raises(CheckpointError, match=rf"(?s)step-00000003 is damaged: .*{message}.*use an earlier one"):
        load(tmp_path / "step-00000003")


def test_invalid_json_is_detected_even_if_its_hash_matches(tmp_path):
    path = Checkpoints(tmp_path).save(1, *content(1))
    (path / "state.json").write_text("{")
    files = json.loads((path / "manifest.json").read_text())["files"]
    files["state.json"] = {"size": 1, "sha256": digest(path / "state.json")}
    edit(path / "manifest.json", files=files)
    assert len(problems(path)) == 1 and "state.json: not valid JSON" in problems(path)[0]


def test_all_problems_are_reported_at_once(tmp_path):
    path = Checkpoints(tmp_path).save(1, *content(1))
    (path / "state.json").unlink()
    flip(path / "model.safetensors")
    assert len(problems(path)) == 2
    assert len(problems(path, quick=True)) == 1


def test_latest_is_none_if_all_checkpoints_are_damaged(tmp_path):
    checkpoints = saved(tmp_path, 1, 2)
    for path in (tmp_path / "step-00000001", tmp_path / "step-00000002"):
        flip(path / "model.safetensors")
    latest = checkpoints.latest()
    assert latest.path is None and len(latest.damaged) == 2


# ---------------------------------------------------------------------------------------------------------------- retention


def test_the_last_and_the_best_are_kept(tmp_path):
    checkpoints = Checkpoints(tmp_path, keep=2)
    for step in range(10):
        checkpoints.save(step, *content(step), best=step in (1, 4))
    assert names(tmp_path) == ["best.json", "step-00000004", "step-00000008", "step-00000009"]
    assert checkpoints.best() == tmp_path / "step-00000004"
    checkpoints.mark_best(9)
    checkpoints.save(10, *content(10))
    assert names(tmp_path) == ["best.json", "step-00000009", "step-00000010"]


def test_keep_one(tmp_path):
    checkpoints = saved(tmp_path, 1, 2, 3, keep=1)
    assert names(tmp_path) == ["step-00000003"] and checkpoints.best() is None


def test_a_checkpoint_with_a_lower_number_than_existing_ones_is_kept(tmp_path):
    """A run restored to step 10 that continues keeps what it saves, and later checkpoints."""
    checkpoints = saved(tmp_path, 10, 20, 30, 40, keep=4)
    path = Checkpoints(tmp_path, keep=1).save(15, *content(15))
    assert value_of(path) == 15 and names(tmp_path) == [f"step-000000{n}" for n in (15, 20, 30, 40)]
    for step in (20, 30, 40, 99):
        checkpoints.remove(step)
    assert names(tmp_path) == ["step-00000015"]


def test_damaged_checkpoints_do_not_count_and_are_removed_when_oldest(tmp_path):
    checkpoints = saved(tmp_path, 1, 2, 3, keep=3)
    (tmp_path / "step-00000002" / "state.json").unlink()
    (tmp_path / "step-00000003" / "state.json").unlink()
    checkpoints.save(4, *content(4))
    checkpoints.save(5, *content(5))
    # 1, 4 and 5 are whole; the broken ones between them stay for their owner to see
    assert names(tmp_path) == [f"step-0000000{n}" for n in (1, 2, 3, 4, 5)]
    checkpoints.save(6, *content(6))
    assert names(tmp_path) == [f"step-0000000{n}" for n in (4, 5, 6)]


def test_a_damaged_best_file_removes_no_checkpoint(tmp_path):
    checkpoints = saved(tmp_path, 1, keep=1, best=True)
    (tmp_path / "best.json").write_text("{")
    checkpoints.save(2, *content(2))
    assert names(tmp_path) == ["best.json", "step-00000001", "step-00000002"]
    with pytest.raises(CheckpointError, match=r"best\.json is damaged .* remove it"):
        checkpoints.best()
    checkpoints.save(3, *content(3), best=True)
    assert names(tmp_path) == ["best.json", "step-00000003"]


def test_best_is_none_if_its_checkpoint_is_gone(tmp_path):
    checkpoints = saved(tmp_path, 1, best=True)
    shutil.rmtree(tmp_path / "step-00000001")
    assert checkpoints.best() is None


# ------------------------------------------------------------------------------------------------------------------ crashes


def in_child(work):
    """Run ``work`` in a forked process; how it ended."""
    child = os.fork()
    if child == 0:
        try:
            work()
            os._exit(0)
        except BaseException:
            traceback.print_exc()
            os._exit(1)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def dying_at(moment):
    """Replace everything that changes the disk: the process is gone just before change number ``moment``."""
    count = iter(range(10**9))

    def guarded(real):
        def call(*args, **options):
            if next(count) == moment:
                os._exit(77)
            return real(*args, **options)

        return call

    for owner, name in [
        (os, "fsync"),
        (os, "rename"),
        (os, "replace"),
        (os, "unlink"),
        (os, "rmdir"),
        (os, "mkdir"),
        (os, "chmod"),
    ]:
        setattr(owner, name, guarded(getattr(owner, name)))
    checkpoint.write_tensors = guarded(checkpoint.write_tensors)
    checkpoint.write_json = guarded(checkpoint.write_json)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.parametrize("step", [2, 3], ids=["overwriting", "a new one"])
def test_a_crash_at_any_system_call_leaves_an_intact_checkpoint(tmp_path, monkeypatch, step):
    """Old or new, whole, and everything cleaned up by the next save: whichever change to the disk was the last."""
    monkeypatch.setattr(os, "fsync", lambda handle: None)  # a moment like others, but the disk need not be waited for
    saved(tmp_path / "start", 1, 2, keep=2)
    outcomes, moment = set(), 0
    for moment in range(10**9):
        folder = tmp_path / f"{moment}"
        shutil.copytree(tmp_path / "start", folder)

        def work(moment=moment, folder=folder):
            dying_at(moment)
            Checkpoints(folder, keep=2).save(step, *content(50), best=True)

        code = in_child(work)
        assert code in (0, 77)
        # a process that only reads finds an intact checkpoint
        latest = Checkpoints(folder).latest()
        assert latest.damaged == {} and latest.path is not None
        assert not [path for path in folder.glob("step-*") if problems(path)]  # nor is half of an old one left to be seen
        seen = value_of(latest.path)
        outcomes.add(seen)
        # the owner comes back
        checkpoints = Checkpoints(folder, keep=2)
        checkpoints.clean()
        assert all(name.startswith(("step-", "best")) and not name.endswith(".new") for name in names(folder))
        assert value_of(checkpoints.latest().path) == seen
        checkpoints.save(step, *content(60))
        assert value_of(checkpoints.latest().path) == 60 and len(checkpoints.paths()) == 2
        if code == 0:
            break
    assert outcomes == {2, 50} and moment > 25


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_crash_during_the_cleanup_leaves_an_intact_checkpoint(tmp_path, monkeypatch):
    """Between the two renames of an overwriting there are two whole ones; dying again and again loses neither."""
    monkeypatch.setattr(os, "fsync", lambda handle: None)
    saved(tmp_path / "start", 1, 2)
    shutil.copytree(tmp_path / "start" / "step-00000002", tmp_path / "start" / ".old-step-00000002-aa")
    for name in (".tmp-00000003-bb", "step-00000001.new"):
        (tmp_path / "start" / name).mkdir()
    other = saved(tmp_path / "other", 2)
    other.save(2, *content(50))
    (tmp_path / "other" / "step-00000002").rename(tmp_path / "start" / "step-00000002.new")
    moment = 0
    for moment in range(10**9):
        folder = tmp_path / f"{moment}"
        shutil.copytree(tmp_path / "start", folder)
        code = in_child(lambda moment=moment, folder=folder: (dying_at(moment), Checkpoints(folder).clean()))
        assert code in (0, 77)
        assert value_of(Checkpoints(folder).latest().path) == 50
        Checkpoints(folder).clean()
        assert names(folder) == ["step-00000001", "step-00000002"]
        assert value_of(folder / "step-00000001") == 1 and value_of(folder / "step-00000002") == 50
        if code == 0:
            break
    assert moment > 10


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_kills_at_random_moments_leave_an_intact_checkpoint(tmp_path):
    """A process that saves as fast as it can is killed again and again; what it had finished is never lost."""
    rng = random.Random(0)
    folder, done = tmp_path / "run", tmp_path / "done"
    value = 0
    for _ in range(15):
        done.write_text("")
        child = os.fork()
        if child == 0:
            try:
                checkpoints = Checkpoints(folder, keep=2)
                checkpoints.clean()
                while True:
                    value += 1
                    # every third one overwrites the one before
                    checkpoints.save(value - (value % 3 == 0), *content(value), best=value % 5 == 0)
                    done.write_text(f"{value:08d}")
            finally:
                os._exit(1)
        while len(done.read_text()) < 8:  # at least one has been saved
            assert os.waitpid(child, os.WNOHANG) == (0, 0)
            time.sleep(0.001)
        time.sleep(rng.uniform(0, 0.1))
        os.kill(child, signal.SIGKILL)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -signal.SIGKILL
        latest = Checkpoints(folder).latest()
        assert latest.damaged == {} and latest.path is not None
        value = value_of(latest.path)
        assert value >= int(done.read_text() or 0)
    assert value >= 15
    Checkpoints(folder, keep=2).save(value + 1, *content(value + 1))
    assert not [name for name in names(folder) if name.startswith((".tmp", ".old"))]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_concurrent_process_that_reads_sees_no_damage(tmp_path):
    saved(tmp_path, 0, keep=1)
    child = os.fork()
    if child == 0:
        try:
            checkpoints = Checkpoints(tmp_path, keep=1)
            for value in range(2, 60):
                checkpoints.save(value // 2, *content(value))
            os._exit(0)
        finally:
            os._exit(1)
    while os.waitpid(child, os.WNOHANG) == (0, 0):
        latest = Checkpoints(tmp_path).latest()
        assert latest.path is not None and latest.damaged == {}
    assert value_of(Checkpoints(tmp_path).latest().path) == 59


# --------------------------------------------------------------------------------------------------------- disks that fail


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EDQUOT])
@pytest.mark.parametrize("where", ["fsync", "write_json", "write_tensors", "mkdir", "rename"])
def test_a_full_disk_at_any_system_call_leaves_earlier_checkpoints_intact(tmp_path, monkeypatch, where, code):
    checkpoints = saved(tmp_path, 1, 2)
    before = {p: p.read_bytes() for p in tmp_path.rglob("*") if p.is_file()}
    real = {"fsync": os.fsync, "mkdir": os.mkdir, "rename": os.rename}.get(where) or getattr(checkpoint, where)
    moment = 0
    for moment in range(100):
        count = iter(range(10**9))

        def fail(*args, moment=moment, count=count, **options):
            if next(count) == moment:
                raise OSError(code, os.strerror(code))
            return real(*args, **options)

        monkeypatch.setattr(os if where in ("fsync", "mkdir", "rename") else checkpoint, where, fail)
        text = None
        try:
            checkpoints.save(3, *content(3))
        except CheckpointError as error:
            text = str(error)
        finally:
            monkeypatch.undo()
        if next(count) <= moment:
            break
        if text is None:  # making a folder that is there already does not matter
            shutil.rmtree(tmp_path / "step-00000003")
            continue
        assert "no space left" in text and " are free" in text and str(tmp_path) in text and "is intact" in text
        if (tmp_path / "step-00000003").exists():  # the checkpoint was complete, only the flush of the folder failed
            shutil.rmtree(tmp_path / "step-00000003")
        else:
            assert "the checkpoint of step 3 failed" in text and "about 0.0 MB are needed" in text
        assert {p: p.read_bytes() for p in tmp_path.rglob("*") if p.is_file()} == before
        assert names(tmp_path) == ["step-00000001", "step-00000002"]
    assert moment > 0 and value_of(checkpoints.latest().path) == 3


def test_an_interrupted_save_leaves_no_files(tmp_path, monkeypatch):
    checkpoints = saved(tmp_path, 1)

    def interrupt(*args):
        raise KeyboardInterrupt

    monkeypatch.setattr(checkpoint, "write_json", interrupt)
    with pytest.raises(KeyboardInterrupt):
        checkpoints.save(2, *content(2))
    assert names(tmp_path) == ["step-00000001"]


@pytest.fixture
def small_disk(tmp_path):
    """A file system of 1 MB."""
    folder = tmp_path / "small"
    folder.mkdir()
    done = (
        subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", folder], capture_output=True)
        if shutil.which("mount")
        else None
    )
    if done is None or done.returncode:
        pytest.skip("mounting a small file system needs rights that this user does not have")
    yield folder
    subprocess.run(["umount", folder], check=True)


def test_a_full_file_system_leaves_earlier_checkpoints_intact(small_disk):
    checkpoints = saved(small_disk / "run", 1, 2)
    big = {"model.safetensors": {"w": torch.ones(500_000)}}
    with pytest.raises(CheckpointError, match=r"step 3 failed .*no space left .*about 2\.0 MB are needed, [01]\.\d MB are free"):
        checkpoints.save(3, big, {})
    assert names(small_disk / "run") == ["step-00000001", "step-00000002"]
    with pytest.raises(CheckpointError, match="no space left"):  # the document is what does not fit
        checkpoints.save(3, {}, {"state.json": "x" * 2_000_000})
    with pytest.raises(CheckpointError, match="no space left"):  # nor does it when overwriting
        checkpoints.save(2, big, {})
    assert value_of(checkpoints.latest().path) == 2 and checkpoints.latest().damaged == {}
    assert value_of(checkpoints.save(4, *content(4))) == 4


def test_a_path_below_a_file_is_reported(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(CheckpointError, match=r"saving the checkpoint of step 1 failed in .*: Not a directory"):
        Checkpoints(tmp_path / "file" / "run").save(1, *content(1))


@pytest.mark.parametrize("code", [errno.EACCES, errno.EROFS])
def test_missing_permissions_are_reported(tmp_path, monkeypatch, code):
    checkpoints = saved(tmp_path, 1)

    def refuse(path, *args, **options):
        raise OSError(code, os.strerror(code), str(path))

    monkeypatch.setattr(os, "mkdir", refuse)
    with pytest.raises(CheckpointError, match=rf"step 2 failed .* is not writable \({os.strerror(code)}\).*use another folder"):
        checkpoints.save(2, *content(2))
    monkeypatch.undo()
    assert names(tmp_path) == ["step-00000001"]


def test_errors_of_safetensors_are_reported_as_system_errors(tmp_path, monkeypatch):
    """safetensors has errors of its own for what the system refuses."""
    with pytest.raises(FileNotFoundError):
        write_tensors(tmp_path / "none" / "a.safetensors", {"a": torch.ones(1)})

    def refuse(tensors, path, metadata):
        raise checkpoint.SafetensorError("Error while serializing: I/O error: Permission denied (os error 13)")

    monkeypatch.setattr(checkpoint.safetensors.torch, "save_file", refuse)
    with pytest.raises(CheckpointError, match="not writable"):
        Checkpoints(tmp_path).save(2, *content(2))
    assert names(tmp_path) == []
