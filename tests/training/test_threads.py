"""Sharing the processors: when threads spin, and that neither this nor the machine changes the bits of a run."""

from __future__ import annotations

import os
import sys
import threading
import time
from functools import partial
from pathlib import Path

import psutil
import pytest
import torch

import weft
from weft.data import Dates
from weft.learning import Gradient, digest
from weft.models import Seq2Seq
from weft.objectives import NextToken
from weft.training import threads
from weft.training.threads import PATIENCE, Contention, SpinSwitch

linux = pytest.mark.skipif(sys.platform != "linux", reason="for libgomp on Linux")


@pytest.fixture
def unset(monkeypatch):
    """An environment in which the user has set nothing."""
    for name in (*threads.SETTINGS, "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(threads, "_own", False)
    monkeypatch.setattr(threads, "_watch", None)
    before = torch.get_num_threads()
    yield monkeypatch
    torch.set_num_threads(before)


def test_contention_is_seen_at_once_and_its_end_after_patience():
    contention = Contention(busy=False)
    assert not any(contention.update(0.0) for _ in range(50))
    assert contention.update(0.5)
    assert [contention.update(0.0) for _ in range(PATIENCE)] == [True] * (PATIENCE - 1) + [False]


def test_a_busy_machine_is_tried_less_and_less_often():
    """The threads wait only while they spin, which is the cause: each attempt to spin needs twice the patience."""
    contention, spinning = Contention(busy=False), 0
    for _ in range(2000):
        spinning += not contention.update(0.0 if contention.busy else 0.5)
    assert spinning <= 10


def test_waiting_between_the_limits_changes_nothing():
    for busy in (False, True):
        contention = Contention(busy)
        assert {contention.update((threads.BUSY + threads.CALM) / 2) for _ in range(50)} == {busy}


def test_the_pool_lives_as_long_as_threads_must_not_spin():
    owners: list[threading.Thread] = []
    switch = SpinSwitch(lambda: owners.append(threading.current_thread()))
    assert switch.spinning and not owners
    for _ in range(2):
        switch.set(False)
        switch.set(False)
        assert not switch.spinning and owners[-1].is_alive() and owners[-1] is not threading.current_thread()
        switch.set(True)
        switch.set(True)
        assert switch.spinning and not owners[-1].is_alive()
    assert len(owners) == 2


@linux
def test_with_the_pool_there_are_more_threads_than_processors(unset):
    start_pool = threads._libgomp(torch.get_num_threads())
    if start_pool is None:
        pytest.skip("this build of torch has no libgomp of its own")
    switch, process = SpinSwitch(start_pool), psutil.Process()
    before = process.num_threads()
    switch.set(False)
    added = process.num_threads() - before - 1  # its owner
    switch.set(True)
    assert torch.get_num_threads() + added > len(os.sched_getaffinity(0))
    deadline = time.monotonic() + 30
    while process.num_threads() > before and time.monotonic() < deadline:  # they end after their owner
        time.sleep(0.01)
    assert process.num_threads() == before


@linux
@pytest.mark.parametrize("name", threads.SETTINGS)
def test_settings_of_the_user_win(unset, name):
    unset.delitem(sys.modules, "torch")
    threads.limit_spinning()
    assert os.environ["GOMP_SPINCOUNT"] == str(threads.SPINS)
    unset.delenv("GOMP_SPINCOUNT")
    unset.setattr(threads, "_own", False)
    unset.setenv(name, "PASSIVE" if name == "OMP_WAIT_POLICY" else "7")
    threads.limit_spinning()
    assert os.environ.get("GOMP_SPINCOUNT") == ("7" if name == "GOMP_SPINCOUNT" else None)
    unset.setitem(sys.modules, "torch", torch)
    torch.set_num_threads(2)
    assert threads.share_processors() is None


@linux
def test_importing_weft_changes_no_environment(unset):
    threads.limit_spinning()  # torch is imported: too late
    assert "GOMP_SPINCOUNT" not in os.environ


def test_one_thread_waits_for_none(unset):
    torch.set_num_threads(1)
    assert threads.share_processors() is None


def test_threads_are_divided_among_processes(unset):
    unset.setenv("GOMP_SPINCOUNT", str(threads.SPINS))
    unset.setattr(threads, "_own", True)
    torch.set_num_threads(8)
    unset.setenv("OMP_NUM_THREADS", "x")
    unset.delenv("OMP_NUM_THREADS")  # restored at the end
    threads.divide_threads(3)
    assert os.environ["OMP_NUM_THREADS"] == "2"
    assert "GOMP_SPINCOUNT" not in os.environ  # the processes set it themselves, and know that no user did
    threads.divide_threads(1)
    assert os.environ["OMP_NUM_THREADS"] == "2"


@pytest.mark.parametrize(("recorded", "used"), [(None, 1), (1, 1), (3, 3), (0, 1), (-2, 1), (10**9, 1)])
def test_a_run_keeps_its_number_of_threads(unset, recorded, used):
    torch.set_num_threads(1)
    messages: list[str] = []
    with threads.threads_of_run(recorded, messages.append):
        assert torch.get_num_threads() == used
    assert torch.get_num_threads() == 1
    assert bool(messages) == (used != 1)


@pytest.mark.parametrize("name", ["OMP_NUM_THREADS", "MKL_NUM_THREADS"])
def test_the_number_of_the_user_wins_with_a_warning(unset, name):
    torch.set_num_threads(1)
    unset.setenv(name, "1")
    messages: list[str] = []
    with threads.threads_of_run(2, messages.append):
        assert torch.get_num_threads() == 1
    assert f"resume with {name}=2" in messages[0]


def run(steps: int) -> weft.Run:
    """Large enough that operations are divided among threads."""
    return weft.Run(
        device="cpu",
        data=partial(Dates, train=400, valid=4, test=4),
        structure=partial(Seq2Seq, dim=128),
        objective=NextToken,
        learning=partial(Gradient, steps=steps, batch_tokens=2500, save_every=0),
    )


def final_weights(folder: Path) -> str:
    return digest(folder / "model.safetensors")


@linux
def test_neither_the_machine_nor_spinning_changes_the_bits_of_a_run(unset, tmp_path):
    unset.setattr(threads, "share_processors", lambda report=None: None)
    torch.set_num_threads(2)
    run(6).train(tmp_path / "whole", quiet=True)
    run(3).train(tmp_path / "resumed", quiet=True, keep=True)
    torch.set_num_threads(1)
    run(6).train(tmp_path / "single", quiet=True)
    if final_weights(tmp_path / "single") == final_weights(tmp_path / "whole"):
        pytest.skip("here the result does not depend on the number of threads")
    start_pool, stop = threads._libgomp(2), threading.Event()
    assert start_pool is not None

    def alternate() -> None:
        switch = SpinSwitch(start_pool)
        while not stop.wait(0.01):
            switch.set(not switch.spinning)
        switch.set(True)

    alternating = threading.Thread(target=alternate)
    alternating.start()
    try:
        run(6).train(tmp_path / "resumed", resume=True, quiet=True)
    finally:
        stop.set()
        alternating.join()
    assert final_weights(tmp_path / "resumed") == final_weights(tmp_path / "whole")
