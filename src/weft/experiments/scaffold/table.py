"""Rules that detect the task of a table."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from itertools import islice
from typing import Any, Literal

from weft.core.io import list_files
from weft.data.sources.cursor import Cursor
from weft.data.sources.labeled_text import LABEL, TEXT
from weft.data.sources.multiple_choice import MultipleChoice
from weft.data.sources.parsing import ColumnSpec, is_json_lines, read_column_names, tables
from weft.data.sources.question_answering import ANSWER, CONTEXT, QUESTION, STARTS
from weft.data.sources.sentence_pairs import FIRST, SECOND
from weft.data.sources.sentence_pairs import LABEL as PAIR_LABEL
from weft.experiments.scaffold.columns import NUMBER, ColumnRoles, TableColumn, assign_roles
from weft.experiments.scaffold.detected_data import MAX_ROWS, DetectedData, skip_rows

_EMPTY_CHOICE = re.compile(r"choice \d+ of \d+ is empty")
_YAML_WORDS = ("null", "true", "false", "yes", "no")


def detect_table(splits: dict[str, list[str]], texts: Sequence[str] = (), label: str | None = None) -> DetectedData:
    """Return the data source of a table, whose columns may be given by name. Raises ValueError if no rule fits."""
    named = bool(texts or label)
    return (None if named else _multiple_choice(splits)) or _columns(splits, texts, label)


def _multiple_choice(splits: dict[str, list[str]]) -> DetectedData | None:
    """Multiple choice, if at least 95% of the rows are valid questions or questions with an empty choice, which are skipped."""
    file = list_files(splits["train"][0])[0]
    candidates: tuple[Literal[0, 1] | None, ...] = (None, 1)
    counts: dict[Literal[0, 1] | None, tuple[int, int, int]] = {}
    for first_index in candidates:
        rows = list(islice(MultipleChoice(train=file, first_index=first_index).rows([Cursor([file])]), MAX_ROWS))
        empty = sum(bool(_EMPTY_CHOICE.fullmatch(row.problem or "")) for row in rows)
        counts[first_index] = sum(bool(row.cells) for row in rows), sum(bool(row.cells or row.problem) for row in rows), empty
    best = max(candidates, key=lambda first_index: counts[first_index][0])
    valid, total, empty = counts[best]
    if not valid or valid + empty <= 0.95 * total:
        return None
    options = {} if best is None else {"first_index": str(best)}
    if empty:
        options["on_bad_row"] = skip_rows(empty, total, "have an empty choice")
    return DetectedData("multiple-choice", splits, options, "questions with several choices")


def _columns(splits: dict[str, list[str]], texts: Sequence[str], label_name: str | None) -> DetectedData:
    """Question answering, sentence pairs, parallel text or labeled text, by the roles of the columns."""
    file = splits["train"][0]
    names, rows, options = _read_rows(file)
    shown = ", ".join(names)
    questions = all(set(usual) & set(names) for usual in (QUESTION, CONTEXT, ANSWER, STARTS))
    if questions and not texts and "column_names" not in options:
        reason = f"a table with questions, contexts and answers (columns: {shown})"
        return DetectedData("question-answering", splits, options, reason)
    cells = {name: [row.get(name, "").strip() for row in rows] for name in names}
    roles = assign_roles([TableColumn(name, [cell for cell in cells[name] if cell]) for name in names], texts, label_name)
    label = roles.label
    if len(roles.texts) == 2 and label is None:
        first, second = roles.texts
        options |= _column_option(first, ("source",), "source") | _column_option(second, ("target",), "target")
        detected = DetectedData("parallel-text", splits, options, f"a table with two texts (columns: {shown})")
        return _name_columns(detected, roles, ("source", "target"))
    if not roles.texts or label is None:
        missing = "no column holds texts" if not roles.texts else "no column has few distinct values, as a label has"
        remedy = "write the recipe by hand (weft catalog data lists the data sources), or pass a file of plain lines"
        raise ValueError(f"{file}: cannot detect the task of a table with the columns {shown}: {missing}; {remedy}")
    detected = _labeled(splits, options, roles, label, shown)
    if detected.label_type != "multiple" and len(label.cells) < len(rows):
        detected.options["on_bad_row"] = skip_rows(len(rows) - len(label.cells), len(rows), f"have no {label.name}")
    if label.is_continuous:
        detected.label_type, detected.options["label_type"] = "number", "number"
    return detected


def _labeled(
    splits: dict[str, list[str]], options: dict[str, str], roles: ColumnRoles, label: TableColumn, shown: str
) -> DetectedData:
    """Sentence pairs, or labeled text with one class or several."""
    if len(roles.texts) == 2:
        first, second = roles.texts
        options |= _column_option(first, FIRST, "first") | _column_option(second, SECOND, "second")
        options |= _column_option(label, ("label",), "label")
        detected = DetectedData("sentence-pairs", splits, options, f"a table with two texts and a label (columns: {shown})")
        return _name_columns(detected, roles, ("first", "second"))
    options |= _column_option(roles.texts[0], TEXT, "text") | _column_option(label, LABEL, "label")
    detected = DetectedData("labeled-text", splits, options, f"a table with a text and a label (columns: {shown})")
    if separator := label.separator:
        detected.label_type, options["label_type"] = "multiple", "multiple"
        options |= {"separator": repr(separator)} if separator not in ("|", "\t") else {}
    return _name_columns(detected, roles, ("text",))


def _name_columns(detected: DetectedData, roles: ColumnRoles, texts: tuple[str, ...]) -> DetectedData:
    """Record the chosen columns and the other candidates. ``texts``: the options that name the text columns."""
    detected.columns = {option: column.name for option, column in zip(texts, roles.texts, strict=True)}
    detected.alternatives = {texts[0]: [column.name for column in roles.other_texts]}
    if roles.label is not None:
        detected.columns["label"] = roles.label.name
        detected.alternatives["label"] = [column.name for column in roles.other_labels]
    return detected


def detect_columns(file: str, options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options of sentence-pairs that name the columns of a table: ``first``, ``second``, ``label``, ``column_names``.

    Args:
        file: A table with two texts and a score.
        options: Options that are known; their columns are not detected.
    """
    names, rows, detected = _read_rows(file, options.get("column_names"))
    left = [name for name in names if name not in options.values()]
    found: dict[str, Any] = {"column_names": tuple(names)} if detected else {}
    for option, usual in {"first": FIRST, "second": SECOND, "label": PAIR_LABEL}.items():
        if option not in options and (name := next((name for name in usual if name in left), None)):
            found[option] = name
            left.remove(name)
    cells = {name: [cell for row in rows if (cell := row.get(name, "").strip())] for name in left}
    numbers = [name for name in left if cells[name] and TableColumn(name, cells[name]).is_numeric]
    texts = [name for name in left if cells[name] and name not in numbers and TableColumn(name, cells[name]).mean_words >= 2]
    # of several numbers, such as an index and a score, the score has decimals
    numbers.sort(key=lambda name: not any("." in cell for cell in cells[name]))
    for option, candidates in (("first", texts), ("second", texts), ("label", numbers)):
        if option not in options and option not in found:
            if not candidates:
                raise ValueError(
                    f"{file}: cannot detect the column {option} of sentence pairs among {', '.join(names)}; name the columns: "
                    "data.first=COLUMN data.second=COLUMN data.label=COLUMN"
                )
            found[option] = candidates.pop(0)
    return found


def _read_rows(
    file: str, column_names: Sequence[str] | None = None
) -> tuple[list[str], Sequence[Mapping[str, str]], dict[str, str]]:
    """Return the column names, the first rows, and the option ``column_names`` if the table has no header."""
    names = list(column_names) if column_names else read_column_names(file)
    wanted = {name: ColumnSpec(name) for name in names}
    found = islice(tables(Cursor([file]), wanted, column_names), MAX_ROWS)
    rows = [row.cells for row in found if row.cells and not row.problem]
    if not rows:
        raise ValueError(f"{file}: no row can be parsed as a table")
    if column_names or is_json_lines(file) or _is_header(names, rows):
        return names, rows, {}
    header = [f"column{i}" for i in range(1, len(names) + 1)]
    rows = [dict(zip(header, cells, strict=True)) for cells in (names, *(list(row.values()) for row in rows))]
    return header, rows, {"column_names": f"[{', '.join(header)}]"}


def _is_header(names: list[str], rows: Sequence[Mapping[str, str]]) -> bool:
    """Whether the first line names the columns: it has no number, no long text and no value that occurs again in its column."""
    return not any(NUMBER.fullmatch(n.strip()) or any(row[n] == n for row in rows) or len(n.split()) > 6 for n in names)


def _column_option(column: TableColumn, usual: tuple[str, ...], option: str) -> dict[str, str]:
    """The option that names a column; none if the column has the first of the usual names."""
    return {} if column.name == usual[0] else {option: _yaml_string(column.name)}


def _yaml_string(text: str) -> str:
    plain = re.fullmatch(r"[A-Za-z_][\w-]*", text) and text.lower() not in _YAML_WORDS
    return text if plain else repr(text)
