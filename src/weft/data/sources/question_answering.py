"""Questions about texts that hold the answers: SQuAD's files, or tables."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from weft.core.contracts import Tokenizer
from weft.core.options import Count, File, Share
from weft.core.registry import Build, block
from weft.data.encoding import START
from weft.data.sources.parsing import Cursor, Row, Wanted, half_character, table
from weft.data.sources.text_source import Answer, BadRows, Overflow, Written
from weft.data.tokenizers.bpe import BPE

QUESTION = ("question", "query")
CONTEXT = ("context", "passage", "paragraph", "document", "text")
ANSWER = ("answer", "answers", "answer_text")
STARTS = (START, "answer_start")
Files = File | list[File]


@block("question-answering")
class QuestionAnswering(Written):
    """Questions with a context each, and where in it the answer stands: SQuAD's JSON (1.1 and 2.0), or tables.

    A table (TSV, CSV or JSONL, by the file's ending) has the columns question, context, answer and start, the number of
    characters before the answer; both are empty where the context has no answer. In JSONL both may be lists: the first answer
    is learned from, all count as right. An answer becomes all tokens that it touches. An answer that is not at its place is a
    bad row; rows without question or context are dropped; texts of more than ``length`` tokens are cut, and answers beyond
    are none. All of it is counted. Fields ``question``, ``context`` and ``answer``.

    Rajpurkar et al. 2016, https://arxiv.org/abs/1606.05250; Rajpurkar et al. 2018, https://arxiv.org/abs/1806.03822

    Args:
        train: UTF-8 files: ``.json`` as SQuAD has it, or tables.
        valid: The same for validation; without it, training rows are held out, all questions about a context together.
        test: The same for the final evaluation.
        header: The names of a table's columns, where its first line is already a row; None = the first line has them.
        question: The column of questions; None = question or query.
        context: The column of contexts; None = the first of context, passage, paragraph, document, text.
        answer: The column of answers; None = the first of answer, answers, answer_text.
        start: The column of their places; None = start or answer_start.
        tokenizer: How text becomes ids; trained on the training rows.
        length: Most tokens of each text.
        on_overflow: What happens to longer ones: truncate (counted) or error.
        on_bad_row: What happens to a row that cannot be read, or whose answer is not at its place: error, or skip (counted).
        hold_out: Share of the training rows that is held out where ``valid`` is not given; 0 = none.

    Example:
        >>> info = Questions(train="train-v2.0.json").declare()
        >>> list(info.fields), info["answer"].kind, info["answer"].space
        (['question', 'context', 'answer'], 'span', 'context')
    """

    by, generated, beside = "context", "context", (START, "id")

    def __init__(
        self,
        *,
        train: Files,
        valid: Files | None = None,
        test: Files | None = None,
        header: tuple[str, ...] | None = None,
        question: str | None = None,
        context: str | None = None,
        answer: str | None = None,
        start: str | None = None,
        tokenizer: Build[Tokenizer] = BPE,
        length: Count = 400,
        on_overflow: Overflow = "truncate",
        on_bad_row: BadRows = "error",
        hold_out: Share = 0.05,
    ):
        super().__init__(train, valid, test, tokenizer, length, hold_out, on_bad_row, on_overflow)
        self.header = None if header is None else tuple(header)
        self.question, self.context, self.answer, self.start = question, context, answer, start

    def texts(self) -> dict[str, str]:
        return {"question": "text", "context": "text"}

    def answers(self) -> dict[str, Answer]:
        return {"answer": Answer("span", over="context")}

    def rows(self, cursors: list[Cursor]) -> Iterator[Row]:
        (cursor,) = cursors
        wanted = {
            "question": Wanted(self.question, QUESTION),
            "context": Wanted(self.context, CONTEXT),
            "answer": Wanted(self.answer, ANSWER),
            START: Wanted(self.start, STARTS),
        }
        for file in cursor.each_file():
            found = _nested(cursor) if Path(file).suffix.lower() == ".json" else table(cursor, wanted, self.header)
            for row in found:
                yield _checked(row)


def _checked(row: Row) -> Row:
    """The row with cells as they are kept, and what is wrong with its answers."""
    if not row.cells or row.problem:
        return row
    cells = {"id": str(row.line), **row.cells, "question": row.cells["question"].strip()}
    problem = _misplaced(cells)
    if problem and "id" in row.cells:
        problem = f"question {cells['id']}: {problem}"
    return row._replace(cells=cells, problem=problem)


def _misplaced(cells: Mapping[str, str]) -> str:
    answers, starts = (cells[name].split("\t") if cells[name] else [] for name in ("answer", START))
    if len(answers) != len(starts):
        return f"{len(answers)} answers, but {len(starts)} starts"
    for answer, start in zip(answers, starts, strict=True):
        if not start.strip().isdecimal():
            return f"the start of an answer must be a number of characters, not {start[:40]!r}"
        at = int(start)
        there = cells["context"][at : at + len(answer)].replace("\t", " ")
        if not answer.strip() or there != answer:
            return f"the answer {answer[:80]!r} should be at character {at} of the context, but there is {there[:80]!r}"
    return ""


# ------------------------------------------------------------------------------------------------------------- SQuAD's JSON


def _nested(cursor: Cursor) -> Iterator[Row]:
    """The questions of the current file, each where its id stands."""
    done, (text, problem) = cursor.line, cursor.whole()
    line, at = 1, 0
    articles: list[Any] = []
    if text and not text.isspace() and not problem:
        try:
            articles = _listed(json.loads(text), "data", "the file")
        except json.JSONDecodeError as error:
            line, problem = error.lineno, f"not valid JSON: {error.msg} (column {error.colno})"
        except (ValueError, RecursionError) as error:
            problem = str(error)
    if problem and not done:
        cursor.line += 1
        yield Row(cursor.file, line, {}, problem)
    for number, (about, cells, problem) in enumerate(_questions(articles), 1):
        found = text.find(json.dumps(about, ensure_ascii=False), at) if about else -1
        if found >= 0:
            line, at = line + text.count("\n", at, found), found
        if number > done:
            cursor.line += 1
            yield Row(cursor.file, line, cells, f"question {about or number}: {problem}" if problem else "")
    cursor.leave()


def _questions(articles: list[Any]) -> Iterator[tuple[str, dict[str, str], str]]:
    """The id, the cells and the problem of each question."""
    for article in articles:
        try:
            paragraphs = _listed(article, "paragraphs", "an article")
        except ValueError as error:
            yield "", {}, str(error)
            continue
        for paragraph in paragraphs:
            try:
                questions, context = _listed(paragraph, "qas", "a paragraph"), _text(paragraph, "context")
            except ValueError as error:
                yield "", {}, str(error)
                continue
            for question in questions:
                about = str(question.get("id", "")) if isinstance(question, dict) else ""
                about = "" if half_character(about) else about
                try:
                    yield about, _cells(question, context, about), ""
                except ValueError as error:
                    yield about, {}, str(error)


def _cells(question: Any, context: str, about: str) -> dict[str, str]:
    impossible = isinstance(question, dict) and question.get("is_impossible")
    answers = [] if impossible else _listed(question, "answers", "a question")
    texts = [_text(answer, "text").replace("\t", " ") for answer in answers]
    starts = [answer.get("answer_start") for answer in answers]
    if wrong := [start for start in starts if not isinstance(start, int) or start < 0]:
        raise ValueError(f"answer_start must be a number of characters, not {wrong[0]!r}")
    return {
        "question": _text(question, "question"),
        "context": context,
        "answer": "\t".join(texts),
        START: "\t".join(map(str, starts)),
        "id": about,
    }


def _listed(value: Any, key: str, what: str) -> list[Any]:
    found = value.get(key) if isinstance(value, dict) else None
    if not isinstance(found, list):
        raise ValueError(f"{what} must be an object with a list {key!r}, as SQuAD has it")
    return found


def _text(value: Any, key: str) -> str:
    found = value.get(key) if isinstance(value, dict) else None
    if not isinstance(found, str):
        raise ValueError(f"{key} must be a text, not {str(found)[:40]!r}")
    if half := half_character(found):
        raise ValueError(f"{key} has {half}")
    return found
