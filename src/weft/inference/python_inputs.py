"""Data that a trained run is given in Python: names of splits, files, and rows in memory."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from weft.data.requests import input_fields
from weft.data.sources.python_data import data_files, is_table, names_file, table_rows
from weft.data.sources.text_source import SPLITS
from weft.inference.datasets import OpenedSplit, open_split
from weft.training.build import plans

if TYPE_CHECKING:
    from weft.inference.trained_run import TrainedRun

_NAME = re.compile(r"[\w-]+")
"""What the name of a split may look like."""


def open_data(trained: TrainedRun, data: Any) -> OpenedSplit:
    """Open a split of the run's data by its name; or files, or rows with the columns of the run's data. See ``evaluate``."""
    if data is None or (isinstance(data, str) and (data in SPLITS or (_NAME.fullmatch(data) and not names_file(data)))):
        return open_split(trained, data)
    return open_split(trained, files=data_files(data, column_names(trained)))


def column_names(trained: TrainedRun) -> tuple[str, ...]:
    """Return the names of the columns of the run's data, in the order of its fields: what the cells of a tuple are."""
    source, info = plans(trained.run)[-1].data(), trained.codec.info
    named = {name: getattr(source, name, None) for name in info.fields}
    words = {name: "tokens" for name, field in info.fields.items() if field.words}
    return tuple(column if isinstance(column, str) else words.get(name, name) for name, column in named.items())


def requests(trained: TrainedRun, data: Any) -> Iterable[Any]:
    """Return the requests of in-memory data: the rows of a table as dicts by field, anything else as it is."""
    if isinstance(data, str):
        raise ValueError(f"expected a list of texts, got one string; pass a list: [{data[:40]!r}]")
    if not is_table(data):
        return data
    columns = dict(zip(trained.codec.info.fields, column_names(trained), strict=True))
    fields = input_fields(trained.codec.info)
    return [{f.name: row[columns[f.name]] for f in fields if columns[f.name] in row} for row in table_rows(data)]


def texts(trained: TrainedRun, data: Any) -> list[str]:
    """Return the texts of in-memory data that has one text per row."""
    field = trained.codec.info.input_texts()[0]
    rows = requests(trained, data)
    return [row[field.name] for row in rows] if is_table(data) else list(rows)
