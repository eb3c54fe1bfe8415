"""Text, JSON, and append-only logs of one JSON document per line; how files are written is in ``weft.core.files``.

JSON is as Python writes it: NaN and Infinity are kept, so that a document round-trips exactly; ``finite`` replaces them for other
programs.
"""

from __future__ import annotations

import functools
import hashlib
import json
import math
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from weft.core import files


def write_text(path: str | Path, text: str) -> None:
    """Replace a file by ``text`` in UTF-8, atomically."""
    files.write_bytes(path, text.encode())


def write_json(path: str | Path, document: Any) -> None:
    """Replace a file by a JSON document, atomically."""
    files.write_bytes(path, (_json(document, path, indent=2) + "\n").encode())


def finite(document: Any) -> Any:
    """The document with null for NaN and Infinity, which standard JSON does not allow."""
    if isinstance(document, dict):
        return {name: finite(part) for name, part in document.items()}
    if isinstance(document, list | tuple):
        return [finite(part) for part in document]
    return None if isinstance(document, float) and not math.isfinite(document) else document


def read_json(path: str | Path) -> Any:
    """The document in a JSON file; raises ValueError with line and column where it is invalid."""
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
    """``sha256`` of a file, or of the names and contents of a folder; cached by size and modification time."""
    path = Path(path)
    if not path.is_dir():
        return _known_hash(str(path), path.stat().st_size, path.stat().st_mtime_ns)
    named = [f"{Path(file).relative_to(path)}\0{content_hash(file)}\n" for file in list_files(path)]
    return hashlib.sha256("".join(named).encode("utf-8", "surrogatepass")).hexdigest()


@functools.lru_cache(maxsize=4096)
def _known_hash(path: str, size: int, changed: int) -> str:
    return sha256(path)


def list_files(path: str | Path | Sequence[str | Path]) -> list[str]:
    """The files at a path: the file itself, or all files of a folder sorted by name (dot files excluded); or of several paths."""
    if isinstance(path, Sequence) and not isinstance(path, str):
        return [file for one in path for file in list_files(one)]
    root = Path(path)
    if not root.is_dir():
        return [str(path)]
    inside = [file.relative_to(root) for file in root.rglob("*") if file.is_file()]
    return [str(root / file) for file in sorted(inside) if not any(part.startswith(".") for part in file.parts)]


# ------------------------------------------------------------------------------------------------------------- JSON lines


def append_line(path: str | Path, document: Any, *, sync: bool = False) -> None:
    """Append a document as one line to a log. If that fails, the log is unchanged.

    Args:
        path: The log; created if it does not exist.
        document: A JSON document.
        sync: Wait until the line is on disk (without it, a killed process loses nothing, a power failure might).
    """
    files.append_bytes(path, (_json(document, path) + "\n").encode(), sync=sync)


def read_lines(path: str | Path) -> list[Any]:
    """The documents of a log, without an incomplete last line; an invalid line before it raises ValueError."""
    data = _bytes(path)
    return [document for _, document in _parsed(path, data[: _sound(data)])]


def repair_lines(path: str | Path) -> int:
    """Remove an incomplete last line from a log, as a crash leaves it. Returns the number of bytes removed."""
    data = _bytes(path)
    sound = _sound(data)
    if sound < len(data):
        files.write_bytes(path, data[:sound])
    return len(data) - sound


def truncate_lines(path: str | Path, keep: Callable[[Any], bool]) -> int:
    """Keep only the documents of a log for which ``keep`` is true. Returns the number of dropped lines.

    A run that resumes from a checkpoint drops what it had logged after it.
    """
    data = _bytes(path)
    lines = list(_parsed(path, data[: _sound(data)]))
    kept = [line for line, document in lines if keep(document)]
    text = b"".join(kept)
    if text != data:
        files.write_bytes(path, text)
    return len(lines) - len(kept)


def _bytes(path: str | Path) -> bytes:
    try:
        return Path(path).read_bytes()
    except FileNotFoundError:
        return b""


def _sound(data: bytes) -> int:
    """Number of bytes up to the end of the last complete line. A power failure can also leave zeros after it."""
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


def _json(document: Any, path: str | Path, indent: int | None = None) -> str:
    _check_keys(document, path)
    try:
        return json.dumps(document, indent=indent, ensure_ascii=False)
    except TypeError as error:
        raise ValueError(f"{path}: cannot be written as JSON: {error}") from None


def _check_keys(document: Any, path: str | Path) -> None:
    """JSON would silently turn the key 1 into "1"."""
    if isinstance(document, dict):
        odd = [key for key in document if not isinstance(key, str)]
        if odd:
            raise ValueError(f"{path}: cannot be written as JSON: key {odd[0]!r} is not a string")
    for part in document.values() if isinstance(document, dict) else document if isinstance(document, list | tuple) else ():
        _check_keys(part, path)
