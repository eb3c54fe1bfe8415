"""Keep freed memory in the process, because every training step allocates the same large blocks again.

By default glibc returns large blocks to the system when they are freed, and the system has to map and clear the pages of the
next ones: some 25,000 page faults in a step of 0.7 s. ``keep_freed_memory`` makes malloc keep freed blocks, so that the process
stays at its peak size, and requests huge pages for them. It has an effect only with glibc on Linux.
"""

from __future__ import annotations

import ctypes
import os
import sys

KEEP_MEMORY = "WEFT_KEEP_MEMORY"
"""Environment variable; 0 leaves malloc unchanged."""
RESERVE = 2**29
"""Bytes of address space (not memory) that are reserved at once, to request huge pages for them."""

_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3  # of malloc.h
_HUGE_PAGES = 14  # MADV_HUGEPAGE of sys/mman.h
_done = False


def keep_freed_memory() -> bool:
    """Make malloc keep freed blocks of up to 1 GiB. Returns whether it does.

    The setting applies to the process, so it is called by programs, not when a library is imported.
    """
    global _done
    if _done or sys.platform != "linux" or os.environ.get(KEEP_MEMORY) == "0":
        return _done
    try:
        c = ctypes.CDLL(None)
        c.gnu_get_libc_version  # noqa: B018  other C libraries may have a mallopt without effect
        # Larger blocks are still returned by munmap. Older versions of glibc allow at most 32 MiB.
        _done = any(c.mallopt(_MMAP_THRESHOLD, size) for size in (2**30, 2**25)) and bool(c.mallopt(_TRIM_THRESHOLD, 2**31 - 1))
        if _done:
            _request_huge_pages(c)
    except (OSError, AttributeError):
        pass
    return _done


def _request_huge_pages(c: ctypes.CDLL) -> None:
    """Grow the heap by ``RESERVE`` and request huge pages for that range; later growth has none."""
    c.sbrk.restype = c.malloc.restype = ctypes.c_void_p
    c.sbrk.argtypes, c.malloc.argtypes, c.free.argtypes = [ctypes.c_ssize_t], [ctypes.c_size_t], [ctypes.c_void_p]
    c.madvise.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
    before = c.sbrk(0)
    c.free(c.malloc(RESERVE))
    page = os.sysconf("SC_PAGE_SIZE")
    start = -(-before // page) * page
    if (size := c.sbrk(0) - start) > 0:  # else the block was not taken from the heap
        c.madvise(start, size, _HUGE_PAGES)
