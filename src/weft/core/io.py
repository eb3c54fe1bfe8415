"""Files that are either old or new, never half: text and JSON, and logs of one JSON document per line.

A file is written beside its place, flushed to the disk, and renamed over the old one. JSON is as Python writes it: NaN and
Infinity are kept, so that what is read equals what was written; ``finite`` takes them out of what other programs read.
"""

from __future__ import annotations

import contextlib
import errno
import functools
import hashlib
import json
import math
import os
import secrets
import shutil
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any


def write_text(path: str | Path, text: str) -> None:
    """Replace a file by ``text`` in UTF-8. A crash leaves the old content or the new."""
    _replace(path, text.encode())


def write_json(path: str | Path, document: Any) -> None:
    """Replace a file by a JSON document. A crash leaves the old document or the new."""
    _replace(path, (_json(document, path, indent=2) + "\n").encode())


def finite(document: Any) -> Any:
    """The document with null for what no number is (NaN, Infinity): other programs refuse these in JSON."""
    if isinstance(document, dict):
        return {name: finite(part) for name, part in document.items()}
    if isinstance(document, list | tuple):
        return [finite(part) for part in document]
    return None if isinstance(document, float) and not math.isfinite(document) else document


def read_json(path: str | Path) -> Any:
    """The document in a JSON file; a ValueError says where it is broken."""
    try:
        return json.loads(Path(path).read_bytes())
    except json.JSONDecodeError as error:
        raise ValueError(f"{path}: not valid JSON: {error.msg} (line {error.lineno}, column {error.colno})") from None
    except UnicodeDecodeError as error:
        raise ValueError(f"{path}: not valid JSON: byte {error.start} is not UTF-8") from None


def sha256(path: str | Path) -> str:
    """The SHA-256 of a file's bytes, in hexadecimal."""
    with Path(path).open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def content_hash(path: str | Path) -> str:
    """``sha256`` of a file, or of a folder's files with their names; not read again while it is unchanged by size and time."""
    path = Path(path)
    if not path.is_dir():
        return _known_hash(str(path), path.stat().st_size, path.stat().st_mtime_ns)
    named = [f"{Path(file).relative_to(path)}\0{content_hash(file)}\n" for file in list_files(path)]
    return hashlib.sha256("".join(named).encode("utf-8", "surrogatepass")).hexdigest()


@functools.lru_cache(maxsize=4096)
def _known_hash(path: str, size: int, changed: int) -> str:
    return sha256(path)


def list_files(place: str | Path | Sequence[str | Path]) -> list[str]:
    """The files of a place: itself, all in a folder in the order of their names (hidden ones left out), or of several places."""
    if isinstance(place, Sequence) and not isinstance(place, str):
        return [file for one in place for file in list_files(one)]
    root = Path(place)
    if not root.is_dir():
        return [str(place)]
    inside = [path.relative_to(root) for path in root.rglob("*") if path.is_file()]
    return [str(root / path) for path in sorted(inside) if not any(part.startswith(".") for part in path.parts)]


# ------------------------------------------------------------------------------------------------------------- JSON lines


def check_free(out: Path) -> None:
    """Raises ValueError where something would be written over."""
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise ValueError(f"{out} is there already and not empty: choose another folder")


@contextlib.contextmanager
def whole_folder(out: Path) -> Iterator[Path]:
    """A folder beside ``out`` to write into, which takes its place when all is written: it is there whole or not at all."""
    new = out.resolve().with_name(f".{out.resolve().name}.tmp-{secrets.token_hex(4)}")
    try:
        new.parent.mkdir(parents=True, exist_ok=True)
        new.mkdir()
        yield new
        new.rename(out)
    except OSError as error:
        raise ValueError(f"cannot write {out}: {error.strerror or error}") from None
    finally:
        shutil.rmtree(new, ignore_errors=True)


def append_line(path: str | Path, document: Any, *, sync: bool = False) -> None:
    """Add a document as one line to a log. If that fails, the log is as before.

    Args:
        path: The log; made if it does not exist.
        document: What JSON can say.
        sync: Wait until the line is on the disk (a killed process loses nothing without it, a power cut might).
    """
    line = (_json(document, path) + "\n").encode()
    with Path(path).open("ab", buffering=0) as file:  # a buffer would try again when it is closed
        size, rest = file.tell(), memoryview(line)
        try:
            while rest:
                rest = rest[file.write(rest) :]
            if sync:
                os.fsync(file.fileno())
        except OSError:
            os.ftruncate(file.fileno(), size)
            raise


def read_lines(path: str | Path) -> list[Any]:
    """The documents of a log; a torn end is left out, a broken line before it is a ValueError. No file, no documents."""
    data = _bytes(path)
    return [document for _, document in _parsed(path, data[: _sound(data)])]


def repair_lines(path: str | Path) -> int:
    """Cut a torn end off a log, as a crash in the middle of a line leaves it. Returns how many bytes were cut."""
    data = _bytes(path)
    sound = _sound(data)
    if sound < len(data):
        with Path(path).open("r+b") as file:
            file.truncate(sound)
            os.fsync(file.fileno())
    return len(data) - sound


def truncate_lines(path: str | Path, keep: Callable[[Any], bool]) -> int:
    """Keep only the documents of a log for which ``keep`` is true, and no torn end. Returns how many lines were dropped.

    A run that goes on from a checkpoint drops so what it had logged after that.
    """
    data = _bytes(path)
    lines = list(_parsed(path, data[: _sound(data)]))
    kept = [line for line, document in lines if keep(document)]
    text = b"".join(kept)
    if text != data:
        _replace(path, text)
    return len(lines) - len(kept)


def _bytes(path: str | Path) -> bytes:
    try:
        return Path(path).read_bytes()
    except FileNotFoundError:
        return b""


def _sound(data: bytes) -> int:
    """How many bytes there are up to the end of the last whole line. A power cut can also leave zeros after it."""
    end = len(data)
    while end:
        start = data.rfind(b"\n", 0, end - 1) + 1
        if data[end - 1 : end] == b"\n" and _is_json(data[start:end]):
            return end
        end = start
    return 0


def _is_json(line: bytes) -> bool:
    try:
        json.loads(line)
    except ValueError:
        return False
    return True


def _parsed(path: str | Path, data: bytes) -> Iterator[tuple[bytes, Any]]:
    # Split at line feeds only: a string in JSON may hold other characters that bytes.splitlines takes for line ends.
    for number, line in enumerate(data.split(b"\n")[:-1], 1):
        try:
            yield line + b"\n", json.loads(line)
        except ValueError:
            raise ValueError(f"{path}:{number}: not valid JSON; remove the line to read the rest") from None


# ------------------------------------------------------------------------------------------------------------------- disk


def sync_file(path: str | Path) -> None:
    """Wait until a file's content is on the disk."""
    with Path(path).open("r+b") as file:
        os.fsync(file.fileno())


def sync_folder(path: str | Path) -> None:
    """Wait until a folder's list of names is on the disk, where the system can do that."""
    if os.name == "nt":
        return
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    except OSError as error:
        if error.errno not in (errno.EINVAL, errno.ENOTSUP):  # what some network file systems say to it
            raise
    finally:
        os.close(handle)


def _replace(path: str | Path, data: bytes) -> None:
    place = Path(path).resolve()  # a link stays a link
    beside = place.with_name(f".{place.name}.tmp-{secrets.token_hex(4)}")
    try:
        with beside.open("xb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        beside.replace(place)
    except BaseException:
        beside.unlink(missing_ok=True)
        raise
    sync_folder(place.parent)


def _json(document: Any, path: str | Path, indent: int | None = None) -> str:
    _check_keys(document, path)
    try:
        return json.dumps(document, indent=indent, ensure_ascii=False)
    except TypeError as error:
        raise ValueError(f"{path}: cannot be written as JSON: {error}") from None


def _check_keys(document: Any, path: str | Path) -> None:
    """JSON would turn the key 1 into "1" without a word."""
    if isinstance(document, dict):
        odd = [key for key in document if not isinstance(key, str)]
        if odd:
            raise ValueError(f"{path}: cannot be written as JSON: key {odd[0]!r} is not a string")
    for part in document.values() if isinstance(document, dict) else document if isinstance(document, list | tuple) else ():
        _check_keys(part, path)
