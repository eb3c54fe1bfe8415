"""Freed memory is kept, where that can be asked for."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from weft.training import allocator as memory

PROGRAM = """
import ctypes, resource
from weft.training.allocator import keep_freed_memory

said = keep_freed_memory() and keep_freed_memory()
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
print(said, resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""


def faults(**environment: str) -> tuple[str, int]:
    """Return the result of ``keep_freed_memory`` in a new process, and the page faults of reusing large blocks after it."""
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], env=os.environ | environment, capture_output=True, text=True, check=True
    )
    said, count = done.stdout.split()
    return said, int(count)


@pytest.mark.skipif(sys.platform != "linux", reason="for glibc on Linux")
def test_freed_memory_is_kept_unless_switched_off():
    said, kept = faults()
    if said == "False":
        pytest.skip("this C library cannot be asked")
    said, usual = faults(**{memory.KEEP_MEMORY: "0"})
    assert said == "False"
    assert kept < usual / 20


def test_elsewhere_nothing_happens(monkeypatch):
    monkeypatch.setattr(memory, "_done", False)
    monkeypatch.setattr(sys, "platform", "darwin")
    monkeypatch.setattr(memory.ctypes, "CDLL", None)  # would fail if it were called
    assert memory.keep_freed_memory() is False


def test_another_c_library_is_left_alone(monkeypatch):
    monkeypatch.setattr(memory, "_done", False)
    monkeypatch.setattr(sys, "platform", "linux")
    monkeypatch.delenv(memory.KEEP_MEMORY, raising=False)
    monkeypatch.setattr(memory.ctypes, "CDLL", lambda name: object())
    assert memory.keep_freed_memory() is False
