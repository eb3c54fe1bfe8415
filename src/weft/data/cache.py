"""Content-addressed cache on disk: one folder per key, written by one process while others wait."""

from __future__ import annotations

import atexit
import contextlib
import errno
import functools
import hashlib
import json
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

try:
    import fcntl
except ImportError:  # Windows: no lock between processes that prepare the same data
    fcntl = None

VARIABLE = "WEFT_CACHE"
"""The environment variable with the cache folder; by default ``weft`` in the user's cache folder."""
_DISK_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
_BROKEN = (errno.EIO, errno.EROFS, errno.EACCES, errno.EPERM)


def cache_folder() -> Path:
    """Return the cache folder; if it is not writable, a temporary one that is removed when the process exits."""
    if named := os.environ.get(VARIABLE):
        return Path(named).absolute()
    home = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "weft"
    with contextlib.suppress(OSError):
        home.mkdir(parents=True, exist_ok=True)
        if os.access(home, os.W_OK):
            return home
    return _temporary()


@functools.cache
def _temporary() -> Path:
    folder = tempfile.mkdtemp(prefix="weft-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return Path(folder)


def key_of(*parts: Any) -> str:
    """Return a hash of JSON-serializable values."""
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()[:32]


@contextlib.contextmanager
def entry(key: str, waiting: Callable[[], None] = lambda: None) -> Iterator[Path]:
    """Open the folder of a key, locked for this process.

    Args:
        key: Its name; see ``key_of``.
        waiting: Called before waiting for another process that holds the lock.
    """
    folder = cache_folder() / key
    try:
        folder.mkdir(parents=True, exist_ok=True)
        lock = (cache_folder() / f"{key}.lock").open("a")
    except OSError as error:
        raise ValueError(
            f"cannot write prepared data to {cache_folder()}: {error.strerror}; set {VARIABLE} to a writable folder"
        ) from None
    with lock:
        if fcntl is not None:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                waiting()
                fcntl.flock(lock, fcntl.LOCK_EX)
            folder.mkdir(parents=True, exist_ok=True)  # the cache may have been cleared meanwhile
        try:
            yield folder
        except OSError as error:
            if error.errno in _BROKEN and (not error.filename or Path(error.filename).is_relative_to(cache_folder())):
                raise ValueError(
                    f"{cache_folder()}: {error.strerror}; the data cannot be prepared. Check the disk, or set {VARIABLE} to "
                    "a folder on another one. Completed work is kept"
                ) from None
            if error.errno not in _DISK_FULL:
                raise
            raise ValueError(
                f"{cache_folder()}: {error.strerror}; the data cannot be prepared. Free some space (prepared data takes about "
                f"three times the size of the files), or set {VARIABLE} to a folder on another disk. Completed work is kept"
            ) from None
