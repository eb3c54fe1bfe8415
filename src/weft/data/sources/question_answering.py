"""Extractive question answering: SQuAD files, or tables."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from weft.core.contracts import Tokenizer
from weft.core.fields import SpanField
from weft.core.fields.span import START
from weft.core.io import InvalidJSON, parse_json
from weft.core.options import Count, File, Fraction, Natural
from weft.core.registry import Build, block
from weft.core.text_stream import data_suffix
from weft.data.holdout import HoldOut
from weft.data.sources.cursor import Cursor
from weft.data.sources.json_rows import is_json
from weft.data.sources.parsing import ColumnSpec, Layout, ParsedRow, check_delimiter, lone_surrogate, table, table_layout
from weft.data.sources.text_source import BadRows, Overflow, TextSource
from weft.data.sources.training_scan import TargetSpec
from weft.data.tokenizers.bpe import BPE

QUESTION = ("question", "query")
CONTEXT = ("context", "passage", "paragraph", "document", "text")
ANSWER = ("answer", "answers", "answer_text", "answers.text")
STARTS = (START, "answer_start", "answers.answer_start")
"""Usual column names."""
Files = File | list[File]


@block("question-answering")
class QuestionAnswering(TextSource):
    """Questions whose answers are spans of a context: SQuAD JSON (1.1 and 2.0), or tables.

    A table (TSV, CSV or JSON, by file suffix) has the columns question, context, answer and start, the character offset of the
    answer; both are empty if the context has no answer. In JSON both may be lists, also in an object ``answers`` with the lists
    ``text`` and ``answer_start``: the first answer is the training target, all of them are references. An answer is the span of
    tokens that overlap it. An answer that does not occur at its offset is a malformed row; rows without question or context are
    dropped; texts of more than ``max_length`` tokens are truncated, and answers beyond that become unanswerable. All of this is
    counted. Fields: ``question``, ``context``, ``answer``.

    Rajpurkar et al. 2016, https://arxiv.org/abs/1606.05250; Rajpurkar et al. 2018, https://arxiv.org/abs/1806.03822

    Args:
        train: Files: ``.json`` in SQuAD format, or tables.
        valid: Validation files; None = hold out training rows, keeping all questions about a context together.
        test: Test files.
        column_names: Column names of a table without a header; None = the first line is the header.
        delimiter: Character between the columns of a table; None = a comma in .csv files, a tab in others.
        quoted: Whether cells may be quoted (``"a cell"``, over several lines if need be); None = in .csv files only.
        question: Column of questions; None = question or query.
        context: Column of contexts; None = the first of context, passage, paragraph, document, text.
        answer: Column of answers; None = the first of answer, answers, answer_text.
        start: Column of character offsets; None = start or answer_start.
        tokenizer: Tokenizer, trained on the training rows.
        max_length: Maximum number of tokens of each text.
        on_overflow: What happens to longer texts: ``truncate`` (counted) or ``error``.
        on_bad_row: What happens to a malformed row, or an answer that is not at its offset: ``error``, or ``skip`` (counted).
        validation_fraction: Fraction of the training rows held out where ``valid`` is None; 0 = no validation.
        fold: Fold that is held out for validation, from 0 (k-fold cross-validation); None = ``validation_fraction``.
        folds: Number of folds.
        split_seed: Seed of the hold-out split; equal texts are on the same side whatever it is.
        encoding: Encoding of the files, by its name in Python: utf-8, latin-1, cp1252, utf-16, gb18030, ...

    Example:
        >>> info = QuestionAnswering(train="train-v2.0.json").declare()
        >>> list(info.fields), info["answer"].kind, info["answer"].of
        (['question', 'context', 'answer'], 'span', 'context')
    """

    key_field, generated_field, extra_cells = "context", "context", (START, "id")

    def __init__(
        self,
        *,
        train: Files,
        valid: Files | None = None,
        test: Files | None = None,
        column_names: tuple[str, ...] | None = None,
        delimiter: str | None = None,
        quoted: bool | None = None,
        question: str | None = None,
        context: str | None = None,
        answer: str | None = None,
        start: str | None = None,
        tokenizer: Build[Tokenizer] = BPE,
        max_length: Count = 400,
        on_overflow: Overflow = "truncate",
        on_bad_row: BadRows = "error",
        validation_fraction: Fraction = 0.05,
        fold: Natural | None = None,
        folds: Count = 5,
        split_seed: Natural = 0,
        encoding: str = "utf-8",
    ):
        hold_out = HoldOut(validation_fraction, False, None, fold, folds, split_seed)
        super().__init__(train, valid, test, tokenizer, max_length, hold_out, on_bad_row, on_overflow, encoding)
        check_delimiter(delimiter)
        self.column_names = None if column_names is None else tuple(column_names)
        self.delimiter, self.quoted = delimiter, quoted
        self.question, self.context, self.answer, self.start = question, context, answer, start

    def text_fields(self) -> dict[str, str]:
        return {"question": "text", "context": "text"}

    def target_fields(self) -> dict[str, TargetSpec]:
        return {"answer": TargetSpec(SpanField, over="context")}

    def rows(self, cursors: list[Cursor]) -> Iterator[ParsedRow]:
        answers = {"answer": ColumnSpec(self.answer, ANSWER), START: ColumnSpec(self.start, STARTS)}
        return map(_validated, self._parsed(cursors, answers))

    def inputs(self, cursors: list[Cursor]) -> Iterator[ParsedRow]:
        for row in self._parsed(cursors, {}):
            yield row._replace(cells={name: cell.strip() if name == "question" else cell for name, cell in row.cells.items()})

    def layout(self, file: str) -> Layout:
        """Return how the rows of a file are written."""
        return "text" if is_squad(file, self.encoding) else table_layout(file)

    def _parsed(self, cursors: list[Cursor], answers: Mapping[str, ColumnSpec]) -> Iterator[ParsedRow]:
        """Rows with the columns of the answers, if any."""
        (cursor,) = cursors
        columns = {"question": ColumnSpec(self.question, QUESTION), "context": ColumnSpec(self.context, CONTEXT), **answers}
        for file in cursor.each_file():
            if is_squad(file, self.encoding):
                yield from _squad_rows(cursor, bool(answers))
            else:
                optional = {START: columns[START]._replace(required=False)} if answers and is_json(file) else {}
                yield from table(cursor, columns | optional, self.table_format())


def _validated(row: ParsedRow) -> ParsedRow:
    """The row with its final cells, and a problem if an answer is not at its offset."""
    if not row.cells or row.problem:
        return row
    cells = {"id": str(row.line), START: "", **row.cells, "question": row.cells["question"].strip()}
    problem = _answer_problem(cells)
    if problem and "id" in row.cells:
        problem = f"question {cells['id']}: {problem}"
    return row._replace(cells=cells, problem=problem)


def _answer_problem(cells: Mapping[str, str]) -> str:
    answers, starts = (cells[name].split("\t") if cells[name] else [] for name in ("answer", START))
    if len(answers) != len(starts):
        hint = "" if starts else "; name the column of their character offsets with the option start"
        return f"{len(answers)} answers, but {len(starts)} starts{hint}"
    for answer, start in zip(answers, starts, strict=True):
        if not (start.strip().isascii() and start.strip().isdecimal()):
            return f"start must be a character offset, not {start[:40]!r}"
        at = int(start)
        found = cells["context"][at : at + len(answer)].replace("\t", " ")
        if not answer.strip() or found != answer:
            return f"the answer {answer[:80]!r} is not at character {at} of the context; found {found[:80]!r}"
    return ""


# --------------------------------------------------------------------------------------------------------------- SQuAD JSON


def is_squad(file: str, encoding: str = "utf-8") -> bool:
    """Return whether a file is one JSON document rather than a table: ``.json``, unless it has a list or other objects."""
    if data_suffix(file) != ".json":
        return False
    first = next((line for line, _ in Cursor([file], encoding=encoding).lines() if line and not line.isspace()), "")
    if first.lstrip().startswith("["):
        return False
    try:
        document = parse_json(first)
    except InvalidJSON:
        return True
    return not isinstance(document, dict) or "data" in document


def _squad_rows(cursor: Cursor, answered: bool) -> Iterator[ParsedRow]:
    """The questions of the current file, each with the line of its id; with their answers or without."""
    done, (text, problem) = cursor.line, cursor.read_file()
    line, at = 1, 0
    articles: list[Any] = []
    if text and not text.isspace() and not problem:
        try:
            articles = _list_at(parse_json(text), "data", "the file")
        except InvalidJSON as error:
            line, problem = error.line, f"not valid JSON: {error.problem} (column {error.column})"
        except ValueError as error:
            problem = str(error)
    if problem and not done:
        cursor.line += 1
        yield ParsedRow(cursor.file, line, {}, problem)
    for number, (question_id, cells, problem) in enumerate(_questions(articles, answered), 1):
        found = text.find(json.dumps(question_id, ensure_ascii=False), at) if question_id else -1
        if found >= 0:
            line, at = line + text.count("\n", at, found), found
        if number > done:
            cursor.line += 1
            yield ParsedRow(cursor.file, line, cells, f"question {question_id or number}: {problem}" if problem else "")
    cursor.leave()


def _questions(articles: list[Any], answered: bool) -> Iterator[tuple[str, dict[str, str], str]]:
    """The id, the cells and the problem of each question; an article may also be a question with its context."""
    for article in articles:
        if isinstance(article, dict) and "paragraphs" not in article and "question" in article:
            paragraphs: list[Any] = [{"context": article.get("context"), "qas": [article]}]
        else:
            try:
                paragraphs = _list_at(article, "paragraphs", "an article")
            except ValueError as error:
                yield "", {}, str(error)
                continue
        for paragraph in paragraphs:
            try:
                questions, context = _list_at(paragraph, "qas", "a paragraph"), _text_at(paragraph, "context")
            except ValueError as error:
                yield "", {}, str(error)
                continue
            yield from _with_cells(questions, context, answered)


def _with_cells(questions: list[Any], context: str, answered: bool) -> Iterator[tuple[str, dict[str, str], str]]:
    """The id, the cells and the problem of each question about a context."""
    for question in questions:
        question_id = str(question.get("id", "")) if isinstance(question, dict) else ""
        question_id = "" if lone_surrogate(question_id) else question_id
        try:
            yield question_id, _cells(question, context, question_id, answered), ""
        except ValueError as error:
            yield question_id, {}, str(error)


def _cells(question: Any, context: str, question_id: str, answered: bool) -> dict[str, str]:
    impossible = not answered or (isinstance(question, dict) and question.get("is_impossible"))
    answers = [] if impossible else _answers(question)
    texts = [_text_at(answer, "text").replace("\t", " ") for answer in answers]
    starts = [answer.get("answer_start") for answer in answers]
    if invalid := [start for start in starts if not isinstance(start, int) or start < 0]:
        raise ValueError(f"answer_start must be a character offset, not {invalid[0]!r}")
    cells = {"question": _text_at(question, "question"), "context": context, "id": question_id}
    return {**cells, "answer": "\t".join(texts), START: "\t".join(map(str, starts))} if answered else cells


def _answers(question: Any) -> list[Any]:
    """The answers: a list of objects, or an object with the lists ``text`` and ``answer_start``, as in datasets of the Hub."""
    lists = question.get("answers") if isinstance(question, dict) else None
    if not isinstance(lists, dict):
        return _list_at(question, "answers", "a question")
    texts, starts = (_list_at(lists, name, "answers") for name in ("text", "answer_start"))
    if len(texts) != len(starts):
        raise ValueError(f"{len(texts)} answers, but {len(starts)} starts")
    return [{"text": text, "answer_start": start} for text, start in zip(texts, starts, strict=True)]


def _list_at(value: Any, key: str, what: str) -> list[Any]:
    found = value.get(key) if isinstance(value, dict) else None
    if not isinstance(found, list):
        raise ValueError(f"{what} must be an object with a list {key!r}")
    return found


def _text_at(value: Any, key: str) -> str:
    found = value.get(key) if isinstance(value, dict) else None
    if not isinstance(found, str):
        raise ValueError(f"{key} must be a string, not {str(found)[:40]!r}")
    if problem := lone_surrogate(found):
        raise ValueError(f"{key} has {problem}")
    return found
