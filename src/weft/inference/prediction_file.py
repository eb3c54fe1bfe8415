"""Files with predictions: the rows of the input, with columns appended to them."""

from __future__ import annotations

import codecs
import csv
import io
import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

from weft.core.contracts import Objective
from weft.core.fields import ClassField, TextsField
from weft.core.files import replacing
from weft.core.io import InvalidJSON, finite, parse_json
from weft.core.text_stream import data_suffix
from weft.data.requests import ReadsInputs
from weft.data.sources.cursor import WINDOWS
from weft.data.sources.json_rows import json_objects
from weft.data.sources.parsing import Layout, ParsedRow, TableFormat
from weft.inference.prediction import Prediction
from weft.inference.trained_run import TrainedRun

PREDICTION, PROBABILITY, PROBABILITIES = "prediction", "probability", "probabilities"
"""Names of the appended columns; a number follows where the table has a column of that name."""
NO_TAG = "_"
"""The tag of a word without prediction, in a file with one word per line."""
_FORMATS = {".csv": "CSV", ".tsv": "TSV", ".jsonl": "JSON Lines", ".ndjson": "JSON Lines"}
"""The formats that a suffix promises."""
_OWN_KEYS = re.compile(rf"(?:{PREDICTION}|{PROBABILITIES})(?:_\d+)?")
Predicted = tuple[ParsedRow, Prediction]


class Line(NamedTuple):
    """A line of the input: its text, and its line end."""

    text: str
    end: str


def check_output(out: Path, file: Path | None, suffixes: Sequence[str]) -> None:
    """Raise ValueError for an output that would overwrite the input, is no regular file, or whose suffix names another format.

    Args:
        out: The output.
        file: The input; None = standard input.
        suffixes: Suffixes of the format that is written; of other formats, all are allowed that name no format.
    """
    if out.is_symlink():
        raise ValueError(f"--out {out} is a link; links are not followed: choose another file")
    if out.exists() and not out.is_file():
        raise ValueError(f"--out {out} is not a regular file; choose another one")
    if file is not None and out.exists() and out.samefile(file):
        raise ValueError(f"--out {out} is the input, which is not overwritten; choose another file")
    if out.suffix.lower() == ".gz":
        raise ValueError(f"--out {out}: predictions are written without compression; name it {out.with_suffix('').name}")
    if out.suffix.lower() in _FORMATS and out.suffix.lower() not in suffixes:
        written, hint = (_FORMATS[suffixes[0]], f"; name it {out.with_suffix(suffixes[0]).name}") if suffixes else ("columns", "")
        raise ValueError(f"--out {out}: the predictions for this input are written as {written}, not {out.suffix}{hint}")


class PredictionFile:
    """Writes the rows of an input with their predictions, in the order, format and encoding of the input.

    The lines of a table are copied and columns are appended: ``prediction``, and the probability of each class
    (``probability_CLASS``; in JSON Lines one object ``probabilities``; for multiple choice ``probability``, that of the
    predicted choice). A row without prediction gets empty cells. Blank lines are copied. Where the input has one word per line,
    its predicted tag is appended to the line. The objects of a JSON list are written as JSON Lines, with all their values, and so
    are the rows of other inputs (lines of text, SQuAD JSON), with their texts.

    Args:
        trained: The run that predicts.
        file: The input; None = standard input.
        source: The data source that reads it; None = it has lines of text.
    """

    def __init__(self, trained: TrainedRun, file: Path | None, source: ReadsInputs | None):
        self.file, self.source = file, source
        self.layout: Layout = "text" if source is None or file is None else source.layout(str(file))
        table = TableFormat() if source is None else source.table_format()
        self.column_names = table.column_names
        self.delimiter, self.quoted = table.of_file("" if file is None else str(file))
        self.separator: str = getattr(source, "separator", "|")
        """Separator of several predicted classes in a cell."""
        self.classes = _classes(trained)
        self.several = {field.name for field in trained.codec.info.of_kind(TextsField)}
        self.renamed: dict[str, str] = {}
        """Usual names of appended columns that the table already has, and the names that were chosen instead."""

    @property
    def suffixes(self) -> tuple[str, ...]:
        """Suffixes of the format that is written; of files with one word per line, their own if it names a format."""
        if self.layout in ("jsonl", "json", "text"):
            return (".jsonl", ".ndjson")
        own = "" if self.file is None else data_suffix(str(self.file))
        if own in _FORMATS:
            return (own,)
        return () if self.layout == "columns" else (".csv",) if self.quoted else (".tsv",)

    @property
    def format(self) -> str:
        """What is written, in words."""
        return "columns" if self.layout == "columns" else _FORMATS[self.suffixes[0]]

    def write(self, out: Path, rows: Iterable[Predicted]) -> None:
        """Write all rows to ``out``, which is complete or unchanged."""
        if self.layout == "text":
            texts = map(self._record, (found for found in rows if not is_blank(found[0])))
        elif self.layout == "json":
            texts = self._listed(rows)
        else:
            spans = _spans(self._lines(), rows)
            texts = {"table": self._delimited, "jsonl": self._objects, "columns": self._columns}[self.layout](spans)
        copied = self.source is not None and self.layout in ("table", "columns")
        encoding: str = getattr(self.source, "encoding", "utf-8") if copied else "utf-8"
        encoder = codecs.getincrementalencoder(encoding)("surrogatepass" if encoding == "utf-8" else "strict")
        with replacing(out) as write:
            for text in texts:
                try:
                    write(encoder.encode(text))
                except UnicodeEncodeError as error:
                    raise ValueError(
                        f"--out {out}: the prediction {text[error.start]!r} cannot be written in {encoding}, the encoding of "
                        f"{self.file}; convert the input to UTF-8"
                    ) from None

    # ------------------------------------------------------------------------------------------------- tables with columns

    def _delimited(self, spans: Iterator[_Span]) -> Iterator[str]:
        all_quoted = False
        first = next(spans)
        names = list(self.column_names or ())
        if self.column_names is None:
            text, end = _joined(first.lines)
            names = self._cells(text) or []
            all_quoted = self.quoted and bool(names) and text.startswith('"') and text.count('"') >= 2 * len(names)
            yield text + self.delimiter + self._line(self._header(names), all_quoted) + (end or "\n")
        else:
            self._header(names)
        for span in spans if self.column_names is None else chain([first], spans):
            if span.row is None or is_blank(span.row):
                yield "".join(text + end for text, end in span.lines)
                continue
            text, end = _joined(span.lines)
            complete = self._completed(text, len(names))
            yield complete + self.delimiter + self._line(self._appended(span.prediction), all_quoted) + end

    def _line(self, cells: Sequence[str], all_quoted: bool = False) -> str:
        """Cells as a row."""
        if not self.quoted:
            return self.delimiter.join(re.sub(rf"[{re.escape(self.delimiter)}\r\n]", " ", cell) for cell in cells)
        if list(cells) == [""] and not all_quoted:
            return ""  # one cell of several, not a row of one empty cell, which csv would quote
        line, ends = io.StringIO(), "\r\n"  # csv quotes cells with its own line ends only
        quoting = csv.QUOTE_ALL if all_quoted else csv.QUOTE_MINIMAL
        csv.writer(line, delimiter=self.delimiter, quoting=quoting, lineterminator=ends).writerow(cells)
        return line.getvalue().removesuffix(ends)

    def _cells(self, text: str) -> list[str] | None:
        """The cells of a row; None if it is not one row of valid CSV."""
        if not self.quoted:
            return text.split(self.delimiter)
        try:
            rows = list(csv.reader(io.StringIO(text, newline=""), strict=True, delimiter=self.delimiter))
        except csv.Error:
            return None
        return rows[0] if len(rows) == 1 else None

    def _completed(self, text: str, columns: int) -> str:
        """A row with the columns of the header, so that appended cells are in theirs: a short row is padded, the surplus cells of
        a long one are joined with its last, and what is not valid CSV becomes the first cell."""
        cells = self._cells(text)
        if cells is not None and len(cells) == columns:
            return text
        if cells is None:
            cells = [text]
        if len(cells) > columns:
            cells = [*cells[: columns - 1], (f"{self.delimiter} " if self.quoted else " ").join(cells[columns - 1 :])]
        return self._line([*cells, *[""] * (columns - len(cells))])

    def _header(self, names: Sequence[str]) -> list[str]:
        taken = set(names)
        if not self.classes:
            return [self._free(PREDICTION, taken)]
        if self.several:
            return [self._free(PREDICTION, taken), self._free(PROBABILITY, taken)]
        return [self._free(PREDICTION, taken), *(self._free(f"{PROBABILITY}_{name}", taken) for name in self.classes)]

    def _free(self, name: str, taken: set[str]) -> str:
        number, free = 2, name
        while free in taken:
            number, free = number + 1, f"{name}_{number}"
        taken.add(free)
        if free != name:
            self.renamed[name] = free
        return free

    def _appended(self, prediction: Prediction) -> list[str]:
        """The cells of a prediction; empty ones where there is none."""
        text = prediction.text.replace("\t", self.separator) if prediction.kind == "labels" else prediction.text
        if not self.classes:
            return [text]
        found = prediction.probabilities
        if self.several:
            return [text, f"{found[prediction.text]:.6g}" if prediction.text in found else ""]
        return [text, *(f"{found[name]:.6g}" if name in found else "" for name in self.classes)]

    # -------------------------------------------------------------------------------------------------------- JSON Lines

    def _names(self, taken: set[str]) -> dict[str, str]:
        """The keys of a prediction and its probabilities in objects that have the keys ``taken``."""
        names = {name: self._free(name, taken) for name in (PREDICTION, PROBABILITIES)}
        if not self.classes:
            self.renamed.pop(PROBABILITIES, None)
        return names

    def _values(self, names: Mapping[str, str], prediction: Prediction) -> dict[str, object]:
        probabilities = {names[PROBABILITIES]: prediction.probabilities or None} if self.classes else {}
        return {names[PREDICTION]: prediction.value(), **probabilities}

    def _listed(self, rows: Iterable[Predicted]) -> Iterator[str]:
        """The objects of a JSON file, which rows are parsed from one by one, with their predictions."""
        names = self._names({key for value in self._listed_objects() for key in value or () if _OWN_KEYS.fullmatch(key)})
        for (row, prediction), value in zip(rows, self._listed_objects(), strict=True):
            if not is_blank(row):
                complete = {**(value or row.cells), **self._values(names, prediction)}
                yield json.dumps(finite(complete), ensure_ascii=False) + "\n"

    def _listed_objects(self) -> Iterator[dict[str, Any] | None]:
        assert self.source is not None
        cursor = self.source.cursor([str(self.file)])
        for _ in cursor.each_file():
            for _, value, _ in json_objects(cursor):
                yield value

    def _objects(self, spans: Iterator[_Span]) -> Iterator[str]:
        names = self._names(self._own_keys())
        for span in spans:
            text, end = _joined(span.lines)
            if span.row is None or is_blank(span.row):
                yield "".join(line.text + line.end for line in span.lines)
                continue
            more = json.dumps(finite(self._values(names, span.prediction)), ensure_ascii=False)[1:-1]
            start = text.rstrip().removesuffix("}").rstrip()
            if not _is_object(text):  # kept as a text, so that every line is an object
                yield json.dumps({"line": text}, ensure_ascii=False)[:-1] + f", {more}}}{end}"
            else:
                yield f"{start}{'' if start.endswith('{') else ', '}{more}}}{end}"

    def _record(self, found: Predicted) -> str:
        row, prediction = found
        texts = {name: text.split("\t") if name in self.several else text for name, text in row.cells.items()}
        own = self._values({PREDICTION: PREDICTION, PROBABILITIES: PROBABILITIES}, prediction)
        return json.dumps(finite({**texts, **own}), ensure_ascii=False) + "\n"

    # ------------------------------------------------------------------------------------------------ one word per line

    def _columns(self, spans: Iterator[_Span]) -> Iterator[str]:
        for span in spans:
            tags: list[str] | None = None
            if span.row is not None:
                tags = [] if span.prediction.problem else span.prediction.text.split(" ")
            for text, end in span.lines:
                if not text.strip(" \t"):
                    tags = None  # the end of the sentence
                if tags is None or text.split()[0] == "-DOCSTART-":
                    yield text + end
                    continue
                yield f"{text.rstrip()}{chr(9) if chr(9) in text else ' '}{tags.pop(0) if tags else NO_TAG}{end}"

    def _lines(self) -> Iterator[Line]:
        """The lines of the input; a last one without line end gets that of the line before it."""
        assert self.source is not None
        cursor = self.source.cursor([str(self.file)])
        for _ in cursor.each_file():
            windows, line, end = 0, None, "\n"
            for text, _ in cursor.lines():
                if line is not None:
                    yield line
                    end = line.end
                line = Line(text, "\r\n" if cursor.counts[WINDOWS] > windows else "\n")
                windows = cursor.counts[WINDOWS]
            if line is not None:
                yield line._replace(end="\r\n") if end == "\r\n" else line

    def _own_keys(self) -> set[str]:
        """The keys of the objects of the input that could be those of predictions."""
        found = set[str]()
        for text, _ in self._lines():
            if any(name in text for name in (PREDICTION, PROBABILITIES)) and _is_object(text):
                value: Mapping[str, object] = parse_json(text)
                found.update(key for key in value if _OWN_KEYS.fullmatch(key))
        return found


@dataclass
class _Span:
    """The lines of a row, with its prediction; without a row, the lines before the first one."""

    lines: list[Line]
    row: ParsedRow | None
    prediction: Prediction


_NOTHING = Prediction("", {}, problem="no row")


def is_blank(row: ParsedRow) -> bool:
    """Return whether a row has nothing to predict, and no problem: an empty line."""
    return not row.cells and not row.problem


def _spans(lines: Iterator[Line], rows: Iterable[Predicted]) -> Iterator[_Span]:
    """The lines before the first row, then those of each row: up to the next one."""
    number = 0
    row: ParsedRow | None = None
    prediction = _NOTHING

    def until(line: int) -> list[Line]:
        nonlocal number
        found = []
        while number + 1 < line and (following := next(lines, None)) is not None:
            found.append(following)
            number += 1
        return found

    for following, answer in rows:
        yield _Span(until(following.line), row, prediction)
        row, prediction = following, answer
    yield _Span(list(lines), row, prediction)


def _joined(lines: Sequence[Line]) -> tuple[str, str]:
    """The text of a row, and its last line end."""
    text = "".join(text + end for text, end in lines)
    end = lines[-1].end if lines else ""
    return text[: len(text) - len(end)], end


def _is_object(text: str) -> bool:
    try:
        return isinstance(parse_json(text), dict)
    except InvalidJSON:
        return False


def _classes(trained: TrainedRun) -> tuple[str, ...]:
    """The classes that have probabilities."""
    field = trained.codec.info.fields.get("label")
    if not isinstance(field, ClassField) or type(trained.objective).probabilities is Objective.probabilities:
        return ()
    return field.labels
