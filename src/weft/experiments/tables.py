"""Tables of runs for the terminal."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from weft.core.printable import printable_line

_ABSENT = "-"
_MAX_LENGTH = 60


def format_option(value: Any) -> str:
    """Return the value of an option as one line of YAML, shortened to 60 characters."""
    if value is None:
        return _ABSENT
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return text if len(text) <= _MAX_LENGTH else f"{text[:20]}...{text[-37:]}"


def format_metric(value: float | None) -> str:
    """Return the value of a metric with four decimals; a dash for None."""
    if value is None:
        return _ABSENT
    return str(value) if isinstance(value, int) else f"{value:.4f}" if abs(value) < 1e5 else f"{value:.4g}"


def stdout_console() -> Console:
    """Return a console on standard output that does not wrap lines in a file or pipe."""
    return Console(file=sys.stdout, highlight=False, soft_wrap=not sys.stdout.isatty())


def print_table(console: Console, header: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Print a table with the best values (``*``) in bold on a terminal, and plain aligned columns elsewhere."""
    header, rows = list(map(printable_line, header)), [list(map(printable_line, row)) for row in rows]
    if console.is_terminal:
        table = Table(box=None, pad_edge=False, header_style="bold")
        for cell in header:
            table.add_column(Text(cell), overflow="fold")
        for row in rows:
            table.add_row(*(Text(cell, style="bold" if cell.endswith("*") else "") for cell in row))
        console.print(table)
        return
    lines = [header, *rows]
    widths = [max(len(line[i]) for line in lines) for i in range(len(header))]
    for line in lines:
        text = "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip()
        console.print(text, markup=False, soft_wrap=True)
