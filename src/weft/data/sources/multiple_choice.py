"""Multiple choice: questions with several choices, one of which is correct."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Literal

from weft.core.contracts import Tokenizer
from weft.core.example import CHOICE_LABELS
from weft.core.fields import LabelField
from weft.core.options import Count, File, Fraction, Natural
from weft.core.registry import Build, block
from weft.data.holdout import HoldOut
from weft.data.sources.cursor import Cursor
from weft.data.sources.json_paths import PathValue, clean_text, find_value, follow_path, missing_path
from weft.data.sources.parsing import ParsedRow, check_delimiter, records
from weft.data.sources.text_source import BadRows, Overflow, TextSource
from weft.data.sources.training_scan import GROUP, TargetSpec
from weft.data.tokenizers.bpe import BPE

QUESTION = (
    *("question.stem", "question", "question_stem", "stem", "query", "goal", "ctx", "context", "startphrase", "sentence"),
    *("sent1", "premise", "prompt"),
)
CONTEXT = ("context", "premise", "passage", "article", "story", "paragraph", "dialogue")
CHOICES = ("question.choices.*.text", "choices.*.text", "choices.text", "choices", "options", "endings", "answers")
COLUMNS = ("choice*", "option*", "ending*", "answer*", "op*", "sol*")
ANSWER = (
    *("answerKey", "answer", "label", "correct", "correct_answer", "answer_idx", "answer_index", "correct_option", "cop", "gold"),
    "target",
)
"""Usual column names."""
Files = File | list[File]


@block("multiple-choice")
class MultipleChoice(TextSource):
    """Questions with choices, one of them correct, from tables: JSON, TSV or CSV, by file suffix.

    Rows may have different numbers of choices, from 2 to 26. Columns are named by options, or found by their usual names
    (CommonsenseQA, ARC, OpenBookQA, SWAG and others). A name may be a path into JSON: ``question.stem``; ``*`` matches every
    item of a list, as in ``question.choices.*.text``, or at the end of a column name any letter or number, as in ``ending*``.
    A context precedes its question in the same text, with a blank in between: truncation removes the end of that text, so
    ``max_length`` must be large enough for both. Fields: ``question``, ``choices`` and ``label``: A is the first choice, B the
    second.

    Talmor et al. 2019 (CommonsenseQA), https://arxiv.org/abs/1811.00937

    Args:
        train: Tables.
        valid: Validation tables; None = hold out a fraction of the training rows.
        test: Test tables.
        column_names: Column names, for files without a header; None = the first line is the header.
        delimiter: Character between the columns of a table; None = a comma in .csv files, a tab in others.
        quoted: Whether cells may be quoted (``"a cell"``, over several lines if need be); None = in .csv files only.
        question: Column of questions; None = the first with a usual name (question.stem, question, sentence, ...).
        context: Column of a text that the question is about, put before the question; ``auto`` = the first with a usual name
            (context, premise, passage, article, story, ...) that is not the question, if any; None = no context.
        choices: Column of choices, a list in JSON or a cell with ``separator`` between them; or several columns; None = the
            first with a usual name (question.choices.*.text, choices, ending*, ...).
        answer: Column of the correct choice: its label, index or text; None = the first with a usual name (answerKey, ...).
        labels: Column of the labels of the choices; None = ``label`` beside the ``text`` of the choices, or what ``*`` matches in
            column names. Without labels, answers are letters (A is the first), indices or texts.
        first_index: Index of the first choice, where answers are indices; None = numbers may be labels, else they start at 0.
        include_question: Whether the model sees the question and its context; False = a choices-only baseline on the same split.
        separator: Separator of the choices in one cell of a TSV or CSV file.
        tokenizer: Tokenizer, trained on the training rows.
        max_length: Maximum number of tokens of each text.
        on_overflow: What happens to longer texts: ``truncate`` (counted) or ``error``.
        on_bad_row: What happens to a malformed row, or an answer that is none of the choices: ``error``, or ``skip`` (counted).
        validation_fraction: Fraction of the training rows held out where ``valid`` is None; 0 = no validation.
        group: Column whose values are not divided between training and validation, such as the author; rows without a value are
            held out by their text.
        fold: Fold that is held out for validation, from 0 (k-fold cross-validation); None = ``validation_fraction``.
        folds: Number of folds.
        split_seed: Seed of the hold-out split; equal texts are on the same side unless ``group`` is set.
        encoding: Encoding of the files, by its name in Python: utf-8, latin-1, cp1252, utf-16, gb18030, ...

    Example:
        >>> list(MultipleChoice(train="questions.jsonl").declare().fields)
        ['question', 'choices', 'label']
    """

    key_field = "question"
    duplicate_fields = ("question", "choices")
    list_fields = ("choices",)

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
        context: str | None = "auto",
        choices: str | list[str] | None = None,
        answer: str | None = None,
        labels: str | None = None,
        first_index: Literal[0, 1] | None = None,
        include_question: bool = True,
        separator: str = "|",
        tokenizer: Build[Tokenizer] = BPE,
        max_length: Count = 128,
        on_overflow: Overflow = "truncate",
        on_bad_row: BadRows = "error",
        validation_fraction: Fraction = 0.05,
        group: str | None = None,
        fold: Natural | None = None,
        folds: Count = 5,
        split_seed: Natural = 0,
        encoding: str = "utf-8",
    ):
        if not separator:
            raise ValueError("separator must not be empty: it separates the choices of a row")
        if isinstance(choices, list) and len(choices) < 2:
            raise ValueError(f"choices names {len(choices)} columns; at least two are needed")
        hold_out = HoldOut(validation_fraction, False, group, fold, folds, split_seed)
        super().__init__(train, valid, test, tokenizer, max_length, hold_out, on_bad_row, on_overflow, encoding)
        check_delimiter(delimiter)
        self.column_names = None if column_names is None else tuple(column_names)
        self.delimiter, self.quoted = delimiter, quoted
        self.question, self.context, self.choices, self.answer, self.labels = question, context, choices, answer, labels
        self.first_index, self.include_question, self.separator = first_index, include_question, separator
        self.generated_field = "question" if include_question else "choices"

    def text_fields(self) -> dict[str, str]:
        return {"question": "text", "choices": "text"} if self.include_question else {"choices": "text"}

    def group_key(self, cells: Mapping[str, str]) -> str:
        return "\t".join([cells["question"], *sorted(cells["choices"].split("\t"))])

    def target_fields(self) -> dict[str, TargetSpec]:
        return {"label": TargetSpec(LabelField, CHOICE_LABELS)}

    def rows(self, cursors: list[Cursor]) -> Iterator[ParsedRow]:
        return self._parsed(cursors, self._cells)

    def inputs(self, cursors: list[Cursor]) -> Iterator[ParsedRow]:
        return self._parsed(cursors, lambda row: self._input_cells(row)[0])

    def _parsed(self, cursors: list[Cursor], cells_of: Callable[[Mapping[str, Any]], Mapping[str, str]]) -> Iterator[ParsedRow]:
        for record in records(cursors[0], self.table_format()):
            cells: Mapping[str, str] = {}
            problem = record.problem
            if record.values is not None and not problem:
                try:
                    cells = cells_of(record.values)
                except ValueError as error:
                    problem = str(error)
            yield ParsedRow(record.file, record.line, cells, problem)

    def _cells(self, row: Mapping[str, Any]) -> dict[str, str]:
        cells, labels = self._input_cells(row)
        answer = find_value(row, "answer", self.answer, ANSWER)
        if isinstance(answer.value, Mapping | list | bool):
            raise ValueError(f"the answer ({answer.path}) must be a label, an index or a text, not {str(answer.value)[:40]}")
        given = clean_text(answer.value, answer.path)
        if self.group is not None and (found := follow_path(row, self.group)) is not None:
            cells[GROUP] = "\t".join(clean_text(value.value, value.path) for value in found)
        texts = cells["choices"].split("\t")
        return {**cells, "label": CHOICE_LABELS[_correct_index(given, texts, labels, self.first_index)] if given else ""}

    def _input_cells(self, row: Mapping[str, Any]) -> tuple[dict[str, str], list[str]]:
        """The question, after its context, and the choices; and the labels of the choices."""
        question = find_value(row, "question", self.question, QUESTION)
        choices = self._choices(row)
        if not isinstance(question.value, str):
            raise ValueError(f"the question ({question.path}) must be a text, not {str(question.value)[:40]}")
        texts, labels = [clean_text(c.value, c.path) for c in choices], self._choice_labels(row, choices)
        if not 2 <= len(texts) <= len(CHOICE_LABELS):
            raise ValueError(f"{len(texts)} choices; a row must have 2 to {len(CHOICE_LABELS)}")
        if "" in texts:
            raise ValueError(f"choice {texts.index('') + 1} of {len(texts)} is empty")
        context = " ".join(clean_text(part.value, part.path) for part in self.find_context(row))
        asked = f"{context} {clean_text(question.value, question.path)}".strip()
        return {"question": asked, "choices": "\t".join(texts)}, labels

    def find_context(self, row: Mapping[str, Any]) -> list[PathValue]:
        """The context of a row, or the parts of one that is a list; empty if there is none."""
        if self.context is None:
            return []
        if self.context != "auto":
            if (named := follow_path(row, self.context)) is None:
                raise ValueError(missing_path(row, "context", self.context, ()))
            return named
        question = find_value(row, "question", self.question, QUESTION).path
        for name in CONTEXT:
            found = follow_path(row, name) if name != question else None
            if found and all(isinstance(part.value, str) and not part.value.isdecimal() for part in found):
                return found
        return []

    def _choices(self, row: Mapping[str, Any]) -> list[PathValue]:
        if isinstance(self.choices, list):
            return [find_value(row, "choices", name, ()) for name in self.choices]
        usual = (self.choices,) if self.choices is not None else CHOICES + COLUMNS
        for path in usual:
            found = follow_path(row, path)
            if found is None or (path in COLUMNS and len(found) < 2):
                continue
            if len(found) == 1 and isinstance(found[0].value, str):
                return [PathValue(part, path) for part in found[0].value.split(self.separator)]
            return found
        raise ValueError(missing_path(row, "choices", self.choices, CHOICES + COLUMNS))

    def _choice_labels(self, row: Mapping[str, Any], choices: Sequence[PathValue]) -> list[str]:
        """The labels of the choices; empty if the file has none."""
        path = choices[0].path if choices else ""
        if self.labels is not None:
            found = follow_path(row, self.labels)
            if found is None:
                raise ValueError(missing_path(row, "labels", self.labels, ()))
            if len(found) == 1 and isinstance(found[0].value, str):
                found = [PathValue(part, self.labels) for part in found[0].value.split(self.separator)]
            labels = [clean_text(f.value, f.path) for f in found]
        elif not isinstance(self.choices, list) and path.endswith(".text"):
            labels = [clean_text(f.value, f.path) for f in follow_path(row, path.removesuffix("text") + "label") or ()]
        else:
            labels = [c.star for c in choices if c.star]
        if labels and len(labels) != len(choices):
            raise ValueError(f"{len(choices)} choices, but {len(labels)} labels ({', '.join(labels)})")
        if len(set(labels)) < len(labels):
            raise ValueError(f"two choices have the same label: {', '.join(labels)}")
        return labels


def _correct_index(answer: str, texts: Sequence[str], labels: Sequence[str], first_index: int | None) -> int:
    """Index of the correct choice, from 0."""
    number = int(answer) if re.fullmatch(r"\d{1,9}", answer) else None
    if first_index is not None and number is not None:
        if 0 <= number - first_index < len(texts):
            return number - first_index
        raise ValueError(f"the answer {number} is none of {len(texts)} choices, counted from first_index {first_index}")
    by_label = [index for index, label in enumerate(labels) if label == answer]
    by_label = by_label or [index for index, label in enumerate(labels) if label.casefold() == answer.casefold()]
    if not labels and number is not None:
        by_label = [number] if number < len(texts) else []
    elif not labels and len(answer) == 1 and answer.upper() in CHOICE_LABELS[: len(texts)]:
        by_label = [CHOICE_LABELS.index(answer.upper())]
    by_text = [index for index, text in enumerate(texts) if text == answer]
    if by_label and (labels or not by_text or by_text == by_label):
        return by_label[0]
    if len(by_text) == 1 and not by_label:
        return by_text[0]
    if by_label or by_text:
        raise ValueError(
            f"the answer {answer!r} is ambiguous: by index or by text it is one of the choices "
            f"{', '.join(str(index + 1) for index in sorted({*by_label, *by_text}))}; set labels or first_index"
        )
    known = f"their labels are {', '.join(labels)}" if labels else f"they are {', '.join(map(repr, texts))}"
    counted = "; indices start at 0 unless first_index is set" if number is not None and not labels else ""
    counted = "; if it is an index, set first_index to 0 or 1" if number is not None and labels else counted
    raise ValueError(f"the answer {answer!r} is none of the {len(texts)} choices: {known}{counted}")
