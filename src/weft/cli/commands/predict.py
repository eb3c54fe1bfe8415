"""``weft predict``."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from weft.cli.console import FAILURE, batch_size, lines_and_problems, message, print_json_line, print_line, stream
from weft.cli.options import Json, RunOrModel, Source, command
from weft.cli.runs import PREDICTORS, capabilities, commands_for, load_for_files

if TYPE_CHECKING:
    from weft.data.requests import BadRequest, ReadsInputs
    from weft.data.sources.parsing import ParsedRow
    from weft.inference.prediction import Prediction
    from weft.inference.trained_run import TrainedRun

_SHOWN = 10
"""Rows without prediction that are listed."""


def _predicts(trained: TrainedRun) -> bool:
    """Whether the run predicts: by one of weft's heads, or by the objective of a plug-in whose model generates no text."""
    from weft.core.contracts import Objective

    provided = capabilities(trained)
    objective = next(iter(trained.objectives.values()), None)
    own = objective is not None and type(objective).predict is not Objective.predict
    return bool(PREDICTORS & provided) or (own and not {"Decodes", "Latent"} & provided)


class InputFormat(StrEnum):
    """How the input of a command is read."""

    AUTO = "auto"
    DATA = "data"
    LINES = "lines"


Input = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="[FILE] [data.OPTION=VALUE]...",
        help="Input (default: standard input); and options of the data source that differ for it, such as data.text=review.",
        show_default=False,
    ),
]
Format = Annotated[
    InputFormat,
    typer.Option(
        "--format",
        help="How FILE is read: data, as the data source of the run reads it (tables by named columns, gold labels ignored); "
        "lines, one text per line; auto, as data, except text files (.txt, or no suffix) that neither look like the data of the "
        "run nor have the suffix of its files. Standard input has one text per line.",
    ),
]
Out = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE",
        help="Write the input with predictions and probabilities appended, in the same format; JSON Lines for other input than "
        "tables and tagged words.",
    ),
]


@command
def predict(
    run: RunOrModel,
    arguments: Input = None,
    input_format: Format = InputFormat.AUTO,
    out: Out = None,
    source: Source = None,
    as_json: Json = False,
) -> None:
    """Predict the class, tags, value, correct choice, answer span or masked tokens (<mask>) of each input row, in order.

    In lines, tabs separate the texts of an example: a sentence pair; a question and its context; a question and its choices. A
    row that cannot be read gets an empty prediction and is reported.
    """
    trained, files = load_for_files(run, arguments, source)
    if not _predicts(trained):
        commands = commands_for(trained) or ["no other command"]
        raise ValueError(f"{run} has no classifier, tagger or other predictor; it supports {', '.join(commands)}")
    if len(files) > 1:
        raise ValueError(f"got {len(files)} files, {files[0]} and {files[1]}; predict reads one at a time")
    file = Path(files[0]) if files else None
    read_as = _source(trained, file, input_format)
    rows = stream(_rows(trained, file, read_as), lambda batch: _predictions(trained, batch))
    counted = _Counted(rows)
    if out is not None:
        _write(trained, file, read_as, out, counted)
    else:
        _print(trained, counted, as_json)
    counted.report()
    if trained.truncated:
        message(trained.truncation_warning(trained.truncated))
    if counted.rows and counted.rows == counted.without:
        raise typer.Exit(FAILURE)


def _source(trained: TrainedRun, file: Path | None, input_format: InputFormat) -> ReadsInputs | None:
    """The data source that reads the input; None = lines of text."""
    from weft.inference.datasets import input_source

    if file is None:
        if input_format is InputFormat.DATA:
            raise ValueError("standard input is read as lines of text; name a file to read it with --format data")
        return None
    if not file.is_file():
        if file.is_dir():
            raise ValueError(f"{file} is a folder; predict reads one file at a time")
        raise ValueError(f"{file}: must be a regular file, not a device or pipe" if file.exists() else f"there is no file {file}")
    return None if input_format is InputFormat.LINES else input_source(trained, file, input_format is InputFormat.DATA)


def _rows(trained: TrainedRun, file: Path | None, source: ReadsInputs | None) -> Iterator[ParsedRow]:
    from weft.data.requests import read_inputs
    from weft.data.sources.parsing import ParsedRow

    if source is not None and file is not None:
        yield from read_inputs(source, file)
        return
    for number, (line, problem) in enumerate(lines_and_problems(file), 1):
        try:
            cells = {} if problem else trained.cells(line)
        except ValueError as error:
            raise ValueError(f"line {number}: {error}") from None
        yield ParsedRow(str(file or "standard input"), number, cells, problem)


def _predictions(trained: TrainedRun, rows: Iterable[ParsedRow]) -> Iterator[Prediction]:
    from weft.data.requests import BadRequest

    def requests() -> Iterator[Any | BadRequest]:
        for row in rows:
            yield BadRequest(row.problem or "the row is empty") if row.problem or not row.cells else row.cells

    return trained.predictions(requests(), batch_size(), on_bad_request="skip")


class _Counted:
    """Rows with predictions, without blank rows in the counts.

    Args:
        found: Rows and their predictions.
    """

    def __init__(self, found: Iterable[tuple[ParsedRow, Prediction]]):
        self.found, self.rows, self.without = found, 0, 0
        self.problems: list[str] = []

    def __iter__(self) -> Iterator[tuple[ParsedRow, Prediction]]:
        for row, prediction in self.found:
            if row.cells or row.problem:
                self.rows += 1
                if prediction.problem:
                    self.without += 1
                    if len(self.problems) < _SHOWN:
                        self.problems.append(f"{row.where}: {prediction.problem}")
            yield row, prediction

    def report(self) -> None:
        """Print how many rows have no prediction, and why the first of them have none."""
        if self.without:
            more = [f"... and {self.without - _SHOWN:,} more"] if self.without > _SHOWN else []
            message("\n".join([f"{self.without:,} of {self.rows:,} rows have no prediction:", *self.problems, *more]))


def _write(trained: TrainedRun, file: Path | None, source: ReadsInputs | None, out: Path, rows: _Counted) -> None:
    from weft.inference.prediction_file import PredictionFile, check_output

    if trained.folder is not None and out.absolute().parent.resolve() == trained.folder.resolve():
        raise ValueError(f"--out {out} is in the run folder, whose files record the training; choose another folder")
    table = PredictionFile(trained, file, source)
    check_output(out, file, table.suffixes)
    table.write(out, rows)
    for name, free in table.renamed.items():
        message(f"the input has a column {name!r}: its predictions are in the column {free!r}")
    message(f"wrote {rows.rows:,} rows to {out} ({table.format})")


def _print(trained: TrainedRun, rows: _Counted, as_json: bool) -> None:
    from weft.core.fields import TextsField

    several = {field.name for field in trained.codec.info.of_kind(TextsField)}
    for row, answer in rows:
        if not row.cells and not row.problem:
            continue
        if as_json:
            probabilities = {"probabilities": answer.probabilities} if answer.probabilities else {}
            texts = {name: text.split("\t") if name in several else text for name, text in row.cells.items()}
            print_json_line({**texts, "answer": answer.value(), **probabilities})
        else:
            print_line(answer.text.replace("\t", " | "))
