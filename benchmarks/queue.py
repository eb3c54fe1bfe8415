"""Command-line options of queues of arms: only a part of them, a time limit, or only the table."""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import TypeVar

Arms = TypeVar("Arms")


def parser_of(description: str | None) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--table", action="store_true", help="print recorded results only, and change no page")
    parser.add_argument("--minutes", type=float, default=float("inf"), help="start no arm after N minutes")
    parser.add_argument("--part", default="1/1", help="I/N: of the arms, every N-th from the I-th")
    return parser


def wanted(arms: Iterable[Arms], chosen: argparse.Namespace, began: float) -> Iterator[Arms]:
    """Yield the arms to run until the time limit; ``began`` is the start by time.monotonic."""
    first, every = map(int, chosen.part.split("/"))
    for arm in () if chosen.table else islice(arms, first - 1, None, every):
        if time.monotonic() - began > 60 * chosen.minutes:
            return
        yield arm
