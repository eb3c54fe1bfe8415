"""Rows of a split on the Hugging Face Hub as a file of JSON Lines, which every source of tables reads."""

from __future__ import annotations

import secrets
from pathlib import Path
from typing import Any

from weft.core.hub import MAX_DOWNLOAD, max_gigabytes
from weft.core.hub_data import HubSplit, find_dataset, is_hub_name, parse_name
from weft.core.printable import printable_line
from weft.data import cache

FORMAT = 1


def local_file(name: str) -> str:
    """Return the file of a data file: itself, or the rows of a split on the Hub, written to the cache.

    Example:
        >>> local_file("train.tsv")
        'train.tsv'
    """
    if not is_hub_name(name):
        return name
    split = parse_name(name)
    folder = find_dataset(split)
    with cache.entry(cache.key_of("hub", FORMAT, *split._replace(revision=folder.name))) as entry:
        file = entry / "rows.jsonl"
        if not file.is_file():
            part = entry / f".rows.tmp-{secrets.token_hex(4)}"
            try:
                _write(_open(split, folder), part, str(split))
                part.replace(file)
            finally:
                part.unlink(missing_ok=True)
    return str(file)


def _open(split: HubSplit, folder: Path) -> Any:
    """Open the split with the library ``datasets``, which reads the files of the folder; nothing is downloaded or executed."""
    try:
        import datasets
    except ImportError:
        raise ValueError(f"{split}: data on the Hub needs the extra data: pip install 'weft[data]'") from None
    try:
        return datasets.load_dataset(str(folder), name=split.config or None, split=split.split, streaming=True)
    except Exception as error:  # those of the library have no common class
        raise ValueError(f"{split}: {_first_line(error)}") from None


def _write(rows: Any, file: Path, name: str) -> None:
    from weft.data.sources.python_data import json_line, table_rows  # which imports the sources, which import this

    limit, written = max_gigabytes() * 1e9, 0
    with file.open("w", encoding="utf-8") as out:
        try:
            for row in table_rows(rows):
                written += out.write(json_line(row))
                if written > limit:
                    raise ValueError(f"its rows have more than {limit / 1e9:g} GB; set {MAX_DOWNLOAD} to a larger number of GB")
        except Exception as error:  # a damaged file: the parsers of the formats have no common class
            raise ValueError(f"{name}: {_first_line(error)}") from None
    if not written:
        raise ValueError(f"{name}: the split has no rows")


def _first_line(error: Exception) -> str:
    return printable_line(str(error).partition("\n")[0][:300]) or type(error).__name__
