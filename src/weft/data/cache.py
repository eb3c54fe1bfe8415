"""A place for what was made once from the same content: a folder for each key, made by one process while others wait."""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

VARIABLE = "WEFT_CACHE"
"""The environment variable that says where; by default weft in the user's folder for caches."""


def place() -> Path:
    """The folder of all that is kept. Where it cannot be written, one for this process alone."""
    if named := os.environ.get(VARIABLE):
        return Path(named).absolute()
    home = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "weft"
    try:
        home.mkdir(parents=True, exist_ok=True)
        if os.access(home, os.W_OK):
            return home
    except OSError:
        pass
    return Path(tempfile.gettempdir()) / f"weft-{os.getuid()}"


def key_of(*parts: Any) -> str:
    """A name for everything that JSON can say."""
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()[:32]


@contextlib.contextmanager
def entry(key: str) -> Iterator[Path]:
    """The folder of a key, for this process alone while it is held."""
    folder = place() / key
    try:
        folder.mkdir(parents=True, exist_ok=True)
        lock = (place() / f"{key}.lock").open("a")
    except OSError as error:
        raise ValueError(
            f"cannot keep prepared data in {place()}: {error.strerror}; set {VARIABLE} to a folder that can be written"
        ) from None
    with lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield folder
