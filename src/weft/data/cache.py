"""A place for what was made once from the same content: a folder for each key, made by one process while others wait."""

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
except ImportError:  # Windows: two processes that prepare the same at once are not kept apart
    fcntl = None

VARIABLE = "WEFT_CACHE"
"""The environment variable that says where; by default weft in the user's folder for caches."""
_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


def place() -> Path:
    """The folder of all that is kept. Where it cannot be written, one for this process alone, gone at its end."""
    if named := os.environ.get(VARIABLE):
        return Path(named).absolute()
    home = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "weft"
    with contextlib.suppress(OSError):
        home.mkdir(parents=True, exist_ok=True)
        if os.access(home, os.W_OK):
            return home
    return _own()


@functools.cache
def _own() -> Path:
    folder = tempfile.mkdtemp(prefix="weft-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return Path(folder)


def key_of(*parts: Any) -> str:
    """A name for everything that JSON can say."""
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()[:32]


@contextlib.contextmanager
def entry(key: str, waiting: Callable[[], None] = lambda: None) -> Iterator[Path]:
    """The folder of a key, for this process alone while it is held.

    Args:
        key: Its name.
        waiting: Called if another process holds it, before waiting for that.
    """
    folder = place() / key
    try:
        folder.mkdir(parents=True, exist_ok=True)
        lock = (place() / f"{key}.lock").open("a")
    except OSError as error:
        raise ValueError(
            f"cannot keep prepared data in {place()}: {error.strerror}; set {VARIABLE} to a folder that can be written"
        ) from None
    with lock:
        if fcntl is not None:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                waiting()
                fcntl.flock(lock, fcntl.LOCK_EX)
            folder.mkdir(parents=True, exist_ok=True)  # somebody may have cleared the cache meanwhile
        try:
            yield folder
        except OSError as error:
            if error.errno not in _FULL:
                raise
            raise ValueError(
                f"{place()}: {error.strerror}, so the data cannot be prepared. Make room there (prepared data takes about three "
                f"times the size of the files), or set {VARIABLE} to a folder on another disk; what is done so far is kept"
            ) from None
