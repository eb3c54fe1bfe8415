"""Multiple choice: questions with several answers to choose from, of which one is right."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Literal, NamedTuple

from weft.core.contracts import Tokenizer
from weft.core.example import CHOICE_LABELS
from weft.core.options import Count, File, Share
from weft.core.registry import Build, block
from weft.data.sources.parsing import Cursor, Row, cell_of, records
from weft.data.sources.text_source import Answer, BadRows, Overflow, Written
from weft.data.tokenizers.bpe import BPE

QUESTION = ("question.stem", "question", "question_stem", "stem", "ctx", "context", "sentence", "sent1", "premise", "prompt")
CHOICES = ("question.choices.*.text", "choices.*.text", "choices.text", "choices", "options", "endings", "answers")
COLUMNS = ("choice*", "option*", "ending*", "answer*")
ANSWER = ("answerKey", "answer", "label", "correct", "correct_answer", "answer_idx", "gold", "target")
Files = File | list[File]


@block("multiple-choice")
class MultipleChoice(Written):
    """Questions with choices, one of them right, from tables: JSONL, TSV or CSV, by the file's ending.

    Rows may have different numbers of choices, from 2 to 26. Columns are named by options, or found where they have usual names
    (CommonsenseQA, ARC, OpenBookQA, SWAG and others). A name may be a path into JSON: ``question.stem``; ``*`` stands for every
    item of a list, as in ``question.choices.*.text``, or at the end of a column's name for any letter or number, as in
    ``ending*``. Fields ``question``, ``choices`` and ``label``: A for the first choice, B for the second.

    Talmor et al. 2019 (CommonsenseQA), https://arxiv.org/abs/1811.00937

    Args:
        train: UTF-8 tables.
        valid: The same for validation; without it, training rows are held out.
        test: The same for the final evaluation.
        header: The names of the columns, for files whose first line is already a row; None = the first line has them.
        question: The column of questions; None = the first that has a usual name (question.stem, question, sentence, ...).
        choices: The column of choices, a list in JSON or a cell with ``separator`` between them; or several columns; None = what
            has a usual name (question.choices.*.text, choices, ending*, ...).
        answer: The column of the right choice's label, number or text; None = the first that has a usual name (answerKey, ...).
        labels: The column of the choices' labels; None = ``label`` beside the choices' ``text``, or what ``*`` stands for in the
            names of columns. Without any, answers are letters (A is the first), numbers or texts.
        count_from: The number of the first choice, where answers are numbers; None = numbers may be labels, and else begin at 0.
        given: What is read with each choice: the question, or nothing (how well can it be guessed from the choices alone?). The
            same rows are held out either way.
        separator: Between the choices in one cell of a TSV or CSV file.
        tokenizer: How text becomes ids; trained on the training rows.
        length: Most tokens of each text.
        on_overflow: What happens to longer ones: truncate (counted) or error.
        on_bad_row: What happens to a row that cannot be read, or whose answer is none of its choices: error, or skip (counted).
        hold_out: Share of the training rows that is held out where ``valid`` is not given; 0 = none.

    Example:
        >>> list(MultipleChoice(train="questions.jsonl").declare().fields)
        ['question', 'choices', 'label']
    """

    by = "question"
    compared = ("question", "choices")
    several = ("choices",)

    def __init__(
        self,
        *,
        train: Files,
        valid: Files | None = None,
        test: Files | None = None,
        header: tuple[str, ...] | None = None,
        question: str | None = None,
        choices: str | list[str] | None = None,
        answer: str | None = None,
        labels: str | None = None,
        count_from: Literal[0, 1] | None = None,
        given: Literal["question", "nothing"] = "question",
        separator: str = "|",
        tokenizer: Build[Tokenizer] = BPE,
        length: Count = 128,
        on_overflow: Overflow = "truncate",
        on_bad_row: BadRows = "error",
        hold_out: Share = 0.05,
    ):
        if not separator:
            raise ValueError("separator must not be empty: it stands between the choices of a row")
        if isinstance(choices, list) and len(choices) < 2:
            raise ValueError(f"choices names {len(choices)} columns, but there must be two choices or more")
        super().__init__(train, valid, test, tokenizer, length, hold_out, on_bad_row, on_overflow)
        self.header = None if header is None else tuple(header)
        self.question, self.choices, self.answer, self.labels = question, choices, answer, labels
        self.count_from, self.given, self.separator = count_from, given, separator
        self.generated = "question" if given == "question" else "choices"

    def texts(self) -> dict[str, str]:
        return {"question": "text", "choices": "text"} if self.given == "question" else {"choices": "text"}

    def same(self, cells: Mapping[str, str]) -> str:
        return "\t".join([cells["question"], *sorted(cells["choices"].split("\t"))])

    def answers(self) -> dict[str, Answer]:
        return {"label": Answer("label", CHOICE_LABELS)}

    def rows(self, cursors: list[Cursor]) -> Iterator[Row]:
        for record in records(cursors[0], self.header):
            cells, problem = {}, record.problem
            if record.values is not None and not problem:
                try:
                    cells = self._cells(record.values)
                except ValueError as error:
                    problem = str(error)
            yield Row(record.file, record.line, cells, problem)

    def _cells(self, row: Mapping[str, Any]) -> dict[str, str]:
        question = _wanted(row, "question", self.question, QUESTION)
        choices = self._choices(row)
        answer = _wanted(row, "answer", self.answer, ANSWER)
        if not isinstance(question.value, str):
            raise ValueError(f"the question ({question.path}) must be a text, not {str(question.value)[:40]}")
        if isinstance(answer.value, Mapping | list | bool):
            raise ValueError(f"the answer ({answer.path}) must be a label, a number or a text, not {str(answer.value)[:40]}")
        texts, labels = [_clean(c.value, c.path) for c in choices], self._labels_of(row, choices)
        if not 2 <= len(texts) <= len(CHOICE_LABELS):
            raise ValueError(f"{len(texts)} choices, but a row must have 2 to {len(CHOICE_LABELS)}")
        if "" in texts:
            raise ValueError(f"choice {texts.index('') + 1} of {len(texts)} is empty")
        said = _clean(answer.value, answer.path)
        place = CHOICE_LABELS[_place(said, texts, labels, self.count_from)] if said else ""
        return {"question": _clean(question.value, question.path), "choices": "\t".join(texts), "label": place}

    def _choices(self, row: Mapping[str, Any]) -> list[Found]:
        if isinstance(self.choices, list):
            return [_wanted(row, "choices", name, ()) for name in self.choices]
        usual = (self.choices,) if self.choices is not None else CHOICES + COLUMNS
        for path in usual:
            found = _follow(row, path)
            if found is None or (path in COLUMNS and len(found) < 2):
                continue
            if len(found) == 1 and isinstance(found[0].value, str):
                return [Found(part, path) for part in found[0].value.split(self.separator)]
            return found
        raise ValueError(_missing(row, "choices", self.choices, CHOICES + COLUMNS))

    def _labels_of(self, row: Mapping[str, Any], choices: Sequence[Found]) -> list[str]:
        """The labels of the choices; none where the file has none."""
        path = choices[0].path if choices else ""
        if self.labels is not None:
            found = _follow(row, self.labels)
            if found is None:
                raise ValueError(_missing(row, "labels", self.labels, ()))
            if len(found) == 1 and isinstance(found[0].value, str):
                found = [Found(part, self.labels) for part in found[0].value.split(self.separator)]
            labels = [_clean(f.value, f.path) for f in found]
        elif not isinstance(self.choices, list) and path.endswith(".text"):
            labels = [_clean(f.value, f.path) for f in _follow(row, path.removesuffix("text") + "label") or ()]
        else:
            labels = [c.star for c in choices if c.star]
        if labels and len(labels) != len(choices):
            raise ValueError(f"{len(choices)} choices, but {len(labels)} labels ({', '.join(labels)})")
        if len(set(labels)) < len(labels):
            raise ValueError(f"two choices have the same label: {', '.join(labels)}")
        return labels


class Found(NamedTuple):
    """A value of a row: the path that led to it, and what a ``*`` in the name of its column stands for."""

    value: Any
    path: str
    star: str = ""


def _follow(row: Mapping[str, Any], path: str) -> list[Found] | None:
    """The values at a path; those of a list that it ends with one by one. None where it leads nowhere."""
    if path in row:  # a column whose own name has a dot
        return _items(row[path], path)
    if "." not in path and path.endswith("*"):
        pattern = re.compile(re.escape(path[:-1]) + r"[ _-]?([A-Za-z]|\d+)")
        named = [(match, value) for name, value in row.items() if (match := pattern.fullmatch(name))]
        return [Found(value, path, match[1]) for match, value in named] or None
    values: list[Any] = [row]
    for step in path.split("."):
        fitting = [v for v in values if (isinstance(v, list) if step == "*" else isinstance(v, Mapping) and step in v)]
        if values and not fitting:
            return None
        if len(fitting) < len(values):
            raise ValueError(f"{path}: {len(values) - len(fitting)} of {len(values)} items have no {step!r}")
        values = [item for value in fitting for item in value] if step == "*" else [value[step] for value in fitting]
    if "*" in path:
        return [Found(value, path) for value in values]
    return [found for value in values for found in _items(value, path)]


def _items(value: Any, path: str) -> list[Found]:
    return [Found(item, path) for item in value] if isinstance(value, list) else [Found(value, path)]


def _wanted(row: Mapping[str, Any], option: str, name: str | None, usual: Sequence[str]) -> Found:
    for path in usual if name is None else (name,):
        found = _follow(row, path)
        if found is not None and len(found) == 1 and (name is not None or not isinstance(found[0].value, Mapping)):
            return found[0]
    raise ValueError(_missing(row, option, name, usual))


def _missing(row: Mapping[str, Any], option: str, name: str | None, usual: Sequence[str]) -> str:
    wanted = repr(name) if name is not None else " or ".join(map(repr, usual))
    return f"no column {wanted}; there is: {', '.join(_paths(row))}. Say which it is with the option {option}"


def _paths(value: Any, path: str = "") -> Iterable[str]:
    """The paths that a row has."""
    if isinstance(value, Mapping) and value:
        return dict.fromkeys(
            found for name, inner in value.items() for found in _paths(inner, f"{path}.{name}" if path else name)
        )
    if isinstance(value, list) and any(isinstance(item, Mapping) for item in value):
        return dict.fromkeys(found for item in value for found in _paths(item, f"{path}.*"))
    return [path]


def _clean(value: Any, name: str) -> str:
    """A text without tabs: they stand between the choices of a row."""
    if isinstance(value, Mapping | list):
        raise ValueError(f"{name} must be a text, not {str(value)[:40]}")
    return cell_of(value, name).replace("\t", " ").strip()


def _place(answer: str, texts: Sequence[str], labels: Sequence[str], count_from: int | None) -> int:
    """The place of the right choice, counted from 0."""
    number = int(answer) if re.fullmatch(r"\d{1,9}", answer) else None
    if count_from is not None and number is not None:
        if 0 <= number - count_from < len(texts):
            return number - count_from
        raise ValueError(f"the answer {number} is none of {len(texts)} choices, counted from {count_from}")
    named = [place for place, label in enumerate(labels) if label == answer]
    if not labels and number is not None:
        named = [number] if number < len(texts) else []
    elif not labels and len(answer) == 1 and answer.upper() in CHOICE_LABELS[: len(texts)]:
        named = [CHOICE_LABELS.index(answer.upper())]
    written = [place for place, text in enumerate(texts) if text == answer]
    if named and (labels or not written or written == named):
        return named[0]
    if len(written) == 1 and not named:
        return written[0]
    if named or written:
        raise ValueError(
            f"the answer {answer!r} may be any of the choices {', '.join(str(p + 1) for p in sorted({*named, *written}))}, "
            "by number and by text: give labels or count_from"
        )
    known = f"their labels are {', '.join(labels)}" if labels else f"they are {', '.join(map(repr, texts))}"
    counted = ", and numbers count from 0: see the option count_from" if number is not None and not labels else ""
    raise ValueError(f"the answer {answer!r} is none of the {len(texts)} choices: {known}{counted}")
