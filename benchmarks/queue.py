"""What queues of arms have in common on the command line: only a part of them, only for some time, or only the table."""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import TypeVar

Arms = TypeVar("Arms")


def parser_of(description: str | None) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--table", action="store_true", help="only show what is there, and change no page")
    parser.add_argument("--minutes", type=float, default=float("inf"), help="begin no arm after so many minutes")
    parser.add_argument("--part", default="1/1", help="I/N: of the arms, every N-th from the I-th")
    return parser


def wanted(arms: Iterable[Arms], chosen: argparse.Namespace, began: float) -> Iterator[Arms]:
    """Those that are to be run, until the time is over that ``began``, by time.monotonic."""
    first, every = map(int, chosen.part.split("/"))
    for arm in () if chosen.table else islice(arms, first - 1, None, every):
        if time.monotonic() - began > 60 * chosen.minutes:
            return
        yield arm
