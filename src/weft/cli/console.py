"""Input lines, output records and messages of the commands. Imports nothing heavy."""

from __future__ import annotations

import contextlib
import json
import os
import sys
from collections.abc import Callable, Iterator
from itertools import tee
from pathlib import Path
from typing import Any

from weft.core.io import MAX_DATA_BYTES
from weft.core.printable import one_line, printable, printable_json, printable_line

FAILURE, USAGE_ERROR, INTERRUPTED = 1, 2, 130
"""Exit codes."""


def message(text: str) -> None:
    """Print to standard error; with several training processes, only from rank 0."""
    if os.environ.get("RANK", "0") == "0":
        print(printable(text), file=sys.stderr, flush=True)


def print_result(text: str = "") -> None:
    """Print a result for a person to standard output; what comes from files cannot control the terminal."""
    print(printable(text), flush=True)


def print_line(text: str) -> None:
    """Print the output for one input on one line. Other programs get it unchanged except for line ends, which are escaped."""
    print(printable_line(text) if sys.stdout.isatty() else one_line(text), flush=True)


def read_lines(file: Path | None) -> Iterator[str]:
    """Yield the lines of a UTF-8 file or of standard input. Only a line feed ends a line, so N lines give N outputs.

    Raises ValueError for a line that is not valid UTF-8.
    """
    for number, (line, problem) in enumerate(lines_and_problems(file), 1):
        if problem:
            raise ValueError(f"{file or 'standard input'}:{number}: {problem}")
        yield line


def lines_and_problems(file: Path | None) -> Iterator[tuple[str, str]]:
    """Yield the lines of ``read_lines``, each with its problem: "" = none, else that it is not valid UTF-8."""
    name = str(file or "standard input")
    try:
        with contextlib.nullcontext(sys.stdin.buffer) if file is None else file.open("rb") as stream:
            for number, line in enumerate(iter(lambda: stream.readline(MAX_DATA_BYTES), b""), 1):
                if len(line) >= MAX_DATA_BYTES:
                    raise ValueError(f"{name}:{number}: the line has more than {MAX_DATA_BYTES:,} bytes; split it")
                try:
                    yield line.decode("utf-8-sig" if number == 1 else "utf-8").removesuffix("\n").removesuffix("\r"), ""
                except UnicodeDecodeError as error:
                    yield "", f"not valid UTF-8: {error.reason} (byte {error.start})"
    except OSError as error:
        hint = "" if file is None or file.exists() else "; a text itself is passed by standard input: echo 'a text' | weft ..."
        raise ValueError(f"cannot read {name}: {error.strerror}{hint}") from None


def batch_size() -> int:
    """1 where a person types the input at a terminal, so that each line is answered at once."""
    from weft.inference.engine import BATCH_SIZE

    return 1 if sys.stdin.isatty() else BATCH_SIZE


def stream(inputs: Iterator[Any], process: Callable[[Iterator[Any]], Iterator[Any]]) -> Iterator[tuple[Any, Any]]:
    """Yield each input with its output. If reading the input fails, the outputs of all earlier inputs come first."""
    errors: list[ValueError] = []

    def readable() -> Iterator[Any]:
        try:
            yield from inputs
        except ValueError as error:
            errors.append(error)

    first, second = tee(readable())
    yield from zip(first, process(second), strict=True)
    if errors:
        raise errors[0]


def print_json(value: Any) -> None:
    """Print one indented JSON document; values that are not finite become null."""
    from weft.core.io import finite

    print(printable_json(json.dumps(finite(value), indent=2, ensure_ascii=False)))


def print_json_line(value: dict[str, Any]) -> None:
    """Print one JSON object on a line of its own, at once."""
    print(printable_json(json.dumps(value, ensure_ascii=False)), flush=True)


def print_text(text: str, details: dict[str, Any], as_json: bool) -> None:
    """Print a generated text; as a JSON line, together with the details of its request."""
    if as_json:
        print_json_line({**details, "text": text})
    else:
        print_line(text)
