"""Plain progress lines: the last one of an activity has its total."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from weft.training import display
from weft.training.display import Terminal


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The time in seconds, which a test advances."""
    now = [0.0]
    monkeypatch.setattr(display.time, "perf_counter", lambda: now[0])
    return now


def test_progress_that_was_shown_ends_at_its_total(clock: list[float]) -> None:
    file = io.StringIO()
    with Terminal(Console(file=file, width=100)).waiting("evaluating") as progress:
        clock[0] = 6.0
        for done in range(1, 729):
            progress(f"sampling texts: {done} of 728", 0, 0)
        for done in range(1, 11):
            progress(f"rewriting texts: {done} of 10", 0, 0)
    # the second activity took no time and was never shown, so it needs no end
    assert file.getvalue().splitlines() == ["evaluating ...", "sampling texts: 1 of 728", "sampling texts: 728 of 728"]


def test_progress_in_bytes_ends_at_its_total(clock: list[float]) -> None:
    file = io.StringIO()
    with Terminal(Console(file=file, width=100)).waiting("reading the data") as progress:
        for done in (1, 2, 4):
            clock[0] += 6.0
            progress("preparing train", done * 10**6, 4 * 10**6)
            progress("preparing train", done * 10**6, 4 * 10**6)
    lines = file.getvalue().splitlines()
    assert lines[1].startswith("preparing train: 25% of 4.0 MB") and lines[-1] == "preparing train: 100% of 4.0 MB"
    assert len(lines) == 4, "the total is printed once"
