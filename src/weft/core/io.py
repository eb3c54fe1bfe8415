"""Text, JSON, and append-only logs of one JSON document per line; how files are written is in ``weft.core.files``.

JSON is as Python writes it: NaN and Infinity are kept, so that a document round-trips exactly; ``finite`` replaces them for other
programs. All JSON of files is parsed here (``parse_json``): a file may come from anyone, so its size is checked before it is
read, and its nesting before it is used.
"""

from __future__ import annotations

import functools
import hashlib
import json
import math
import os
import re
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from weft.core import files
from weft.core.text_stream import open_regular

MAX_DOCUMENT_BYTES = 32 << 20
"""Largest JSON document: config.json, metrics.json, fields.json, manifest.json, published.json and the like."""
MAX_LOG_BYTES = 1 << 30
"""Largest log of one JSON document per line (log.jsonl, predictions.jsonl); each line is a document."""
MAX_VOCABULARY_BYTES = 128 << 20
"""Largest vocabulary: tokenizer.json, vocab.txt, merges.txt, spiece.model."""
MAX_DATA_BYTES = 256 << 20
"""Largest JSON document of data (SQuAD); larger datasets are JSON Lines."""
MAX_JSON_DEPTH = 100
"""Deepest nesting of a JSON document."""
MAX_DIGITS = 300
"""Most digits of an integer: any of them is also a float."""
_JSON_BLANKS = re.compile(r"[ \t\r\n]*")
_STRING = r'"(?:[^"\\]|\\.)*+"'


class InvalidJSON(ValueError):
    """A text that is not valid JSON: what is wrong, and where.

    Args:
        problem: What is wrong.
        line: Its line, from 1.
        column: Its column, from 1.
    """

    def __init__(self, problem: str, line: int = 1, column: int = 1):
        super().__init__(f"not valid JSON: {problem} (line {line}, column {column})")
        self.problem, self.line, self.column = problem, line, column


class JSONLimitError(InvalidJSON):
    """A text that is complete JSON but exceeds a limit: nested too deeply, or with a number of too many digits."""


class _RefusedLiteral(Exception):
    """A literal of a JSON text that is refused; parse_json finds where it is."""

    def __init__(self, problem: str, literal: str):
        super().__init__(problem)
        self.literal = literal


def parse_json(text: str | bytes, *, constants: bool = True) -> Any:
    """The document of a JSON text. Raises InvalidJSON.

    Args:
        text: The text, as a string or in UTF-8.
        constants: Whether NaN and Infinity are allowed.
    """
    try:
        text = text if isinstance(text, str) else text.decode("utf-8-sig")
        document = json.loads(text, parse_int=_integer, parse_constant=None if constants else _reject_constant)
    except _RefusedLiteral as refused:
        without_strings = re.sub(_STRING, lambda string: " " * len(string[0]), str(text))
        kind = JSONLimitError if refused.literal[-1].isdigit() else InvalidJSON
        raise kind(str(refused), *_position(str(text), without_strings.find(refused.literal))) from None
    except json.JSONDecodeError as error:
        raise InvalidJSON(error.msg, error.lineno, error.colno) from None
    except UnicodeDecodeError as error:
        raise InvalidJSON(f"byte {error.start} is not UTF-8", bytes(error.object).count(b"\n", 0, error.start) + 1) from None
    except RecursionError:
        raise _too_deep(str(text)) from None
    if text.count("[") + text.count("{") > MAX_JSON_DEPTH and _is_deep(document):
        raise _too_deep(text)
    return document


def json_list_items(text: str) -> Iterator[tuple[int, str, str]]:
    """The offset and the text of each item of a JSON list, to be parsed by ``parse_json``; the last one may have a problem.

    Example:
        >>> list(json_list_items('[{"a": 1}, 2'))
        [(1, '{"a": 1}', ''), (11, '2', ''), (12, '', 'not valid JSON: expected a comma or the end of the list')]
    """
    decoder = json.JSONDecoder(parse_int=lambda digits: 0)  # its limits are checked by parse_json
    at = _after_blanks(text, 0)
    if at == len(text):
        return
    if text[at] != "[":
        yield at, "", 'must have a list of objects, [{"text": ...}, ...], or one object per line'
        return
    at = _after_blanks(text, at + 1)
    while text[at : at + 1] != "]":
        try:
            end = decoder.raw_decode(text, at)[1]
        except json.JSONDecodeError as error:
            yield error.pos, "", f"not valid JSON: {error.msg} (column {error.colno})"
            return
        except RecursionError:
            yield at, "", "not valid JSON: nested too deeply"
            return
        yield at, text[at:end], ""
        at = _after_blanks(text, end)
        if comma := text[at : at + 1] == ",":
            at = _after_blanks(text, at + 1)
        if comma == (text[at : at + 1] == "]"):
            yield at, "", "not valid JSON: expected a comma or the end of the list"
            return
    if rest := text[at + 1 :].strip():
        yield at, "", f"not valid JSON: {rest[:40]!r} after the end of the list"


def _after_blanks(text: str, at: int) -> int:
    found = _JSON_BLANKS.match(text, at)
    return found.end() if found else at


def _reject_constant(literal: str) -> None:
    raise _RefusedLiteral(f"{literal} is not a JSON value; write null for a missing value", literal)


def _integer(digits: str) -> int:
    if len(digits) > MAX_DIGITS:
        raise _RefusedLiteral(f"a number has {len(digits):,} digits, more than {MAX_DIGITS}", digits)
    return int(digits)


def _is_deep(document: Any) -> bool:
    level = [document]
    for _ in range(MAX_JSON_DEPTH):
        inner = (part.values() if isinstance(part, dict) else part for part in level if isinstance(part, dict | list))
        level = [part for parts in inner for part in parts if isinstance(part, dict | list)]
        if not level:
            return False
    return True


def _too_deep(text: str) -> JSONLimitError:
    depth = 0
    for found in re.finditer(rf"{_STRING}|[\[{{]|[\]}}]", text):
        depth += {"[": 1, "{": 1, "]": -1, "}": -1}.get(found[0], 0)
        if depth > MAX_JSON_DEPTH:
            return JSONLimitError(f"nested more than {MAX_JSON_DEPTH} levels deep", *_position(text, found.start()))
    return JSONLimitError(f"nested more than {MAX_JSON_DEPTH} levels deep")


def _position(text: str, at: int) -> tuple[int, int]:
    """Line and column of a character, from 1."""
    return text.count("\n", 0, at) + 1, at - text.rfind("\n", 0, at)


def read_bytes(path: str | Path, limit: int) -> bytes:
    """The content of a regular file of at most ``limit`` bytes; raises ValueError for another, without reading it."""
    with open_regular(path) as file:
        found = os.fstat(file.fileno())
        if found.st_size > limit:
            raise ValueError(f"{path}: has {found.st_size:,} bytes; at most {limit:,} are allowed")
        data = file.read(limit + 1)
    if len(data) > limit:  # it grows, or reports no size
        raise ValueError(f"{path}: has more than {limit:,} bytes, which is the maximum")
    return data


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


def read_json(path: str | Path, limit: int = MAX_DOCUMENT_BYTES) -> Any:
    """The document in a JSON file of at most ``limit`` bytes; raises ValueError with line and column where it is invalid."""
    try:
        return parse_json(read_bytes(path, limit))
    except InvalidJSON as error:
        raise ValueError(f"{path}: {error}") from None


def sha256(path: str | Path) -> str:
    """The SHA-256 of a file's bytes, in hexadecimal."""
    with Path(path).open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def content_hash(path: str | Path) -> str:
    """``sha256`` of a file, or of the names and contents of a folder; cached by size and modification time."""
    path = Path(path)
    if not path.is_dir():
        if not path.is_file():
            raise ValueError(f"{path}: must be a regular file, not a device or pipe")
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
        return read_bytes(path, MAX_LOG_BYTES)
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
    """Whether a line is complete."""
    try:
        _line(line)
    except JSONLimitError:
        return True
    except InvalidJSON:
        return False
    return True


def _line(line: bytes) -> Any:
    if len(line) > MAX_DOCUMENT_BYTES:
        raise JSONLimitError(f"the line has {len(line):,} bytes, more than {MAX_DOCUMENT_BYTES:,}")
    return parse_json(line)


def _parsed(path: str | Path, data: bytes) -> Iterator[tuple[bytes, Any]]:
    # Split at line feeds only: a string in JSON may hold other characters that bytes.splitlines takes for line ends.
    for number, line in enumerate(data.split(b"\n")[:-1], 1):
        try:
            yield line + b"\n", _line(line)
        except InvalidJSON as error:
            problem = f"not valid JSON: {error.problem}" if isinstance(error, JSONLimitError) else "not valid JSON"
            raise ValueError(f"{path}:{number}: {problem}; remove the line to read the rest") from None


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
