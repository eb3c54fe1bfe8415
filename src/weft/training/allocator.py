"""Keep freed memory, since a training step asks for the same large blocks again and again.

By default glibc returns large blocks to the system when they are freed. The system then has to map and clear the pages of the
next ones, some 25,000 in a step of 0.7 s. Here malloc is told to keep what was freed, so the process stays as large as it ever
was, which is what it would soon be again; and the system to back it by huge pages. Only with glibc on Linux: elsewhere nothing
happens.
"""

from __future__ import annotations

import ctypes
import os
import sys

KEEP_MEMORY = "WEFT_KEEP_MEMORY"
"""The environment variable that, set to 0, leaves malloc as it is."""
RESERVE = 2**29
"""Bytes of addresses, not yet of memory, that are taken at once, so that huge pages can be asked for them."""

_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3  # of malloc.h
_HUGE_PAGES = 14  # MADV_HUGEPAGE of sys/mman.h
_done = False


def keep_freed_memory() -> bool:
    """Tell malloc, once, to keep freed memory of up to 1 GiB a block. Returns whether it does.

    It concerns the whole process, so it is for programs to call and not for libraries when they are imported.
    """
    global _done
    if _done or sys.platform != "linux" or os.environ.get(KEEP_MEMORY) == "0":
        return _done
    try:
        c = ctypes.CDLL(None)
        c.gnu_get_libc_version  # noqa: B018  other C libraries may have a mallopt, one that does nothing
        # Larger blocks come from mmap and go back at once. Older versions of glibc take at most 32 MiB.
        _done = any(c.mallopt(_MMAP_THRESHOLD, size) for size in (2**30, 2**25)) and bool(c.mallopt(_TRIM_THRESHOLD, 2**31 - 1))
        if _done:
            _ask_for_huge_pages(c)
    except (OSError, AttributeError):
        pass
    return _done


def _ask_for_huge_pages(c: ctypes.CDLL) -> None:
    """Let the heap grow by ``RESERVE`` and ask for huge pages there; what it grows to later has none."""
    c.sbrk.restype = c.malloc.restype = ctypes.c_void_p
    c.sbrk.argtypes, c.malloc.argtypes, c.free.argtypes = [ctypes.c_ssize_t], [ctypes.c_size_t], [ctypes.c_void_p]
    c.madvise.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
    before = c.sbrk(0)
    c.free(c.malloc(RESERVE))
    page = os.sysconf("SC_PAGE_SIZE")
    start = -(-before // page) * page
    if (size := c.sbrk(0) - start) > 0:  # else there was no room, and the block was not of the heap
        c.madvise(start, size, _HUGE_PAGES)
