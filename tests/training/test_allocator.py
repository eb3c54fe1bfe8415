"""Freed memory is kept where glibc supports it."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from weft.training import allocator as memory

PROGRAM = """
import ctypes, resource
from weft.training.allocator import keep_freed_memory

kept_by_malloc = keep_freed_memory() and keep_freed_memory()
c = ctypes.CDLL(None)
c.malloc.restype, c.malloc.argtypes, c.free.argtypes = ctypes.c_void_p, [ctypes.c_size_t], [ctypes.c_void_p]

def use():
    blocks = [c.malloc(2**25), c.malloc(2**25)]
    for block in blocks:
        ctypes.memset(block, 1, 2**25)
    for block in blocks:
        c.free(block)

use()
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
for _ in range(20):
    use()
print(kept_by_malloc, resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""


def faults(**environment: str) -> tuple[str, int]:
    """Return the result of ``keep_freed_memory`` in a new process, and the page faults of reusing large blocks after it."""
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], env=os.environ | environment, capture_output=True, text=True, check=True
    )
    kept_by_malloc, count = done.stdout.split()
    return kept_by_malloc, int(count)


@pytest.mark.skipif(sys.platform != "linux", reason="for glibc on Linux")
def test_freed_memory_is_kept_unless_disabled():
    kept_by_malloc, kept = faults()
    if kept_by_malloc == "False":
        pytest.skip("this C library cannot be asked")
    kept_by_malloc, usual = faults(**{memory.KEEP_MEMORY: "0"})
    assert kept_by_malloc == "False"
    assert kept < usual / 20


def test_other_platforms_are_unchanged(monkeypatch):
    monkeypatch.setattr(memory, "_done", False)
    monkeypatch.setattr(sys, "platform", "darwin")
    monkeypatch.setattr(memory.ctypes, "CDLL", None)  # would fail if it were called
    assert memory.keep_freed_memory() is False


def test_another_c_library_is_unchanged(monkeypatch):
    monkeypatch.setattr(memory, "_done", False)
    monkeypatch.setattr(sys, "platform", "linux")
    monkeypatch.delenv(memory.KEEP_MEMORY, raising=False)
    monkeypatch.setattr(memory.ctypes, "CDLL", lambda name: object())
    assert memory.keep_freed_memory() is False
