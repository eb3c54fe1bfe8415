"""Data that a trained run is given in Python: names of splits, files, and rows in memory."""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from itertools import chain
from typing import TYPE_CHECKING, Any

from weft.data.requests import BadRequest, read_inputs
from weft.data.sources.cursor import Cursor
from weft.data.sources.python_data import data_files, is_table, names_file, table_rows
from weft.data.sources.python_images import image_path
from weft.data.sources.text_source import SPLITS, MissingSplitError
from weft.evaluate import EvaluationResult
from weft.evaluate.parts import join_results
from weft.inference.datasets import OpenedSplit, data_factory, input_source, open_split

if TYPE_CHECKING:
    from weft.inference.trained_run import TrainedRun

_NAME = re.compile(r"[\w-]+")
"""What the name of a split may look like."""


def open_data(trained: TrainedRun, data: Any) -> OpenedSplit:
    """Open a split of the run's data by its name; or files, or rows with the columns of the run's data. See ``evaluate``."""
    if data is None or (isinstance(data, str) and (data in SPLITS or (_NAME.fullmatch(data) and not names_file(data)))):
        return open_split(trained, data)
    return open_split(trained, files=data_files(data, column_names(trained)))


def evaluate_parts(trained: TrainedRun, data: Any) -> EvaluationResult:
    """Evaluate each source of a run that has the split: test, or valid where none has it. Raises ValueError for other data."""
    names = trained.parts
    if data is not None and not (isinstance(data, str) and data in SPLITS):
        if len(names) == 1:
            return trained.of(names[0]).evaluate(data)
        raise ValueError(
            f"the run has several sources ({', '.join(names)}); name the one that the data belongs to: run.of({names[0]!r}) in "
            "Python, --source on the command line"
        )
    for split in ("test", "valid") if data is None else (data,):
        found: dict[str, EvaluationResult] = {}
        for name in names:
            with contextlib.suppress(MissingSplitError):
                found[name] = trained.of(name).evaluate(split)
        if found:
            return replace(join_results(found), split=split)
    raise ValueError(f"no source of the run ({', '.join(names)}) has the split {data or 'test or valid'}")


def column_names(trained: TrainedRun) -> tuple[str, ...]:
    """Return the names of the columns of the run's data, in the order of its fields: what the cells of a tuple are."""
    source, info = data_factory(trained)(), trained.codec.info
    named = {name: getattr(source, name, None) for name in info.fields}
    words = {field.name: "tokens" for field in info.texts() if field.words}
    return tuple(column if isinstance(column, str) else words.get(name, name) for name, column in named.items())


def requests(trained: TrainedRun, data: Any) -> Iterable[Any]:
    """Return the requests of files or of a table in memory, as the data source of the run reads them; else the items of ``data``.

    Dicts may have the columns of the run's data instead of its fields.
    """
    if isinstance(data, str):
        raise ValueError(
            f"expected a list of texts, got one string; pass a list: [{data[:40]!r}], or a file: Path({data[:40]!r})"
        )
    if isinstance(data, os.PathLike) or is_table(data):
        return _table_requests(trained, data)
    if isinstance(data, list | tuple) and data and all(isinstance(one, os.PathLike) for one in data):
        return chain.from_iterable(_table_requests(trained, file) for file in data)
    if not isinstance(data, Iterable):
        raise ValueError(f"expected texts, a table or a file, got {data!r} ({type(data).__name__}); pass a list: [...]")
    return _by_field(trained, data)


def _table_requests(trained: TrainedRun, data: Any) -> Iterable[Any]:
    (file,) = data_files(data)
    if (source := input_source(trained, file)) is None:
        return [line for line, _ in Cursor([file]).lines()] if isinstance(data, os.PathLike) else table_rows(data)
    rows = (row for row in read_inputs(source, file) if row.cells or row.problem)
    where = isinstance(data, os.PathLike)
    return (
        BadRequest(f"{row.where}: {row.problem}" if where else row.problem) if row.problem else dict(row.cells) for row in rows
    )


def _by_field(trained: TrainedRun, data: Iterable[Any]) -> Iterator[Any]:
    """Requests with the names of fields where they have those of columns."""
    columns: dict[str, str] = {}
    for request in map(_with_paths, data) if trained.codec.info.images() else data:
        if not isinstance(request, Mapping):
            yield request
            continue
        columns = columns or dict(zip(trained.codec.info.fields, column_names(trained), strict=True))
        renamed = {name: request[column] for name, column in columns.items() if name not in request and column in request}
        yield {**request, **renamed} if renamed else request


def _with_paths(request: Any) -> Any:
    """A request with the files of its images."""
    if (path := image_path(request)) is not None:
        return path
    if isinstance(request, Mapping):
        return {name: image_path(value) or value for name, value in request.items()}
    return [image_path(value) or value for value in request] if isinstance(request, list | tuple) else request


def texts(trained: TrainedRun, data: Any) -> list[str]:
    """Return the first text of each request."""
    field = trained.codec.info.input_texts()[0]
    found: list[str] = []
    for number, request in enumerate(requests(trained, data), 1):
        if isinstance(request, BadRequest):
            raise ValueError(request.problem)
        text = request.get(field.name) if isinstance(request, Mapping) else request
        text = text[0] if isinstance(text, tuple) and text else text
        if not isinstance(text, str):
            raise ValueError(f"request {number}: {request!r} has no text; pass texts")
        found.append(text)
    return found
