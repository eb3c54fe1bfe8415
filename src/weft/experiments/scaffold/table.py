"""Rules that detect the task of a table."""

from __future__ import annotations

import math
import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any, Literal

from ruamel.yaml import YAML

from weft.data.sources.cursor import Cursor
from weft.data.sources.json_rows import is_json, json_objects
from weft.data.sources.labeled_text import LABEL, TEXT
from weft.data.sources.multiple_choice import MultipleChoice
from weft.data.sources.parsing import ColumnSpec, TableFormat, read_column_names, records, tables
from weft.data.sources.question_answering import ANSWER, CONTEXT, QUESTION, STARTS
from weft.data.sources.sentence_pairs import FIRST, SECOND
from weft.data.sources.sentence_pairs import LABEL as PAIR_LABEL
from weft.data.sources.tagged_text import TAGS, WORDS
from weft.experiments.scaffold.columns import NUMBER, ColumnRoles, TableColumn, assign_roles, count_words
from weft.experiments.scaffold.delimiters import TABS, Separation, detect_separation
from weft.experiments.scaffold.detected_data import MAX_ROWS, DetectedData, Paths, files_of, skip_rows, yaml_string
from weft.experiments.scaffold.missing_labels import check_numbers, present_cells
from weft.experiments.scaffold.text_layouts import TAG

_EMPTY_CHOICE = re.compile(r"choice \d+ of \d+ is empty")
_TOKEN = re.compile(r"\w+|[^\w\s]")
_USUAL_TOKENS, _MOST_TOKENS, _TOKEN_STEP = 128, 1024, 64
"""Default length of a text of multiple choice, largest one that a recipe sets, and what it is a multiple of."""


def detect_table(
    splits: dict[str, Paths],
    encoding: str,
    separation: Separation | None,
    texts: Sequence[str] = (),
    label: str | None = None,
) -> DetectedData:
    """Return the data source of a table. Raises ValueError if no rule fits.

    Args:
        splits: The files of each split.
        encoding: Their encoding.
        separation: How the columns are separated; None = JSON.
        texts: The column with the text, or the two columns of a pair; empty = detected.
        label: The column with the label; None = detected.
    """
    file = files_of(splits["train"])[0]
    table = _Table(file, encoding, separation)
    if separation is None:
        _check_objects(table)
    if texts or label:
        return _columns(splits, table, texts, label)
    return _tagged_lists(splits, table) or _multiple_choice(splits, table) or _columns(splits, table)


@dataclass
class _Table:
    """A file and how to read it."""

    file: str
    encoding: str
    separation: Separation | None = None

    @property
    def layout(self) -> TableFormat:
        return self.separation.layout if self.separation else TableFormat()

    @property
    def options(self) -> dict[str, str]:
        return self.separation.options(self.file) if self.separation else {}

    @property
    def kind(self) -> str:
        """``a table with columns separated by commas``."""
        return "a JSON file" if self.separation is None else f"a table, {self.separation.description},"

    def cursor(self) -> Cursor:
        return Cursor([self.file], encoding=self.encoding)


def _check_objects(table: _Table) -> None:
    """Raise ValueError for a JSON file that is a single object: of columns, or around the rows."""
    first, second = ([*islice((value for _, value, _ in json_objects(table.cursor()) if value), 2), None, None])[:2]
    if first is None or second is not None:
        return
    for name, value in first.items():
        if isinstance(value, list) and len(value) > 1 and all(isinstance(item, dict) for item in value):
            raise ValueError(f"{table.file}: one object with the rows in {name!r}; write the list of rows alone, [{{...}}, ...]")
    sizes = {len(value) for value in first.values() if isinstance(value, dict | list)}
    if len(sizes) == 1 and max(sizes) > 1 and all(isinstance(value, dict | list) for value in first.values()):
        raise ValueError(
            f"{table.file}: one object with a list of values for each column ({', '.join(first)}); write an object for each row, "
            "with pandas: DataFrame.to_json(..., orient='records', lines=True)"
        )


def _tagged_lists(splits: dict[str, Paths], table: _Table) -> DetectedData | None:
    """Tagged text in JSON: objects with a list of words and a list of tags."""
    if table.separation is not None:
        return None
    rows = list(islice(tables(table.cursor(), {"text": WORDS, "tags": TAGS}), MAX_ROWS))
    valid = [row for row in rows if row.cells and not row.problem]
    if not valid or len(valid) <= 0.95 * sum(bool(row.cells or row.problem) for row in rows):
        return None
    cells = [(row.cells["text"].split("\t"), row.cells["tags"].split("\t")) for row in valid]
    if any(len(words) != len(tags) for words, tags in cells) or all(len(words) == 1 for words, _ in cells):
        return None
    options = {} if all(TAG.fullmatch(tag) for _, tags in cells for tag in tags if tag) else {"scheme": "null"}
    return DetectedData("tagged-text", splits, options, "JSON objects with a list of words and a list of tags")


def _multiple_choice(splits: dict[str, Paths], table: _Table) -> DetectedData | None:
    """Multiple choice, if at least 95% of the rows are valid questions or questions with an empty choice, which are skipped."""
    first = list(filter(None, _first_row(table)))
    if len(set(first)) < len(first):
        return None  # no header, but a row with equal cells
    candidates: tuple[Literal[0, 1] | None, ...] = (None, 0, 1)
    counts: dict[Literal[0, 1] | None, tuple[int, int, int]] = {}
    layout = table.layout
    for first_index in candidates:
        source = MultipleChoice(train=table.file, first_index=first_index, delimiter=layout.delimiter, quoted=layout.quoted)
        rows = list(islice(source.rows([table.cursor()]), MAX_ROWS))
        empty = sum(bool(_EMPTY_CHOICE.fullmatch(row.problem or "")) for row in rows)
        counts[first_index] = sum(bool(row.cells) for row in rows), sum(bool(row.cells or row.problem) for row in rows), empty
    best = max(candidates, key=lambda first_index: counts[first_index][0])
    valid, total, empty = counts[best]
    if not valid or valid + empty <= 0.95 * total:
        return None
    options = table.options | ({} if best is None else {"first_index": str(best)})
    if empty:
        options["on_bad_row"] = skip_rows(empty, total, "have an empty choice")
    detected = DetectedData("multiple-choice", splits, options, "questions with several choices")
    return _add_context(detected, table)


def _add_context(detected: DetectedData, table: _Table) -> DetectedData:
    """Name the context of the questions, and set a length that leaves room for context and question."""
    options = {name: YAML(typ="safe", pure=True).load(value) for name, value in detected.options.items()}
    source = MultipleChoice(train=table.file, **options)
    layout = source.table_format()
    values = [record.values for record in islice(records(table.cursor(), layout), MAX_ROWS) if record.values is not None]
    try:
        context = next(filter(None, map(source.find_context, values)), None)
    except ValueError:
        context = None
    if context is None:
        return detected
    detected.reason += f", about a context (column {context[0].path})"
    detected.remarks.append(f"{context[0].path} precedes the question in the same text; to leave it out: data.context=null")
    texts = [row.cells["question"] for row in islice(source.rows([table.cursor()]), MAX_ROWS) if row.cells]
    tokens = max((sum(1 for _ in _TOKEN.finditer(text)) for text in texts), default=0)
    if tokens > _USUAL_TOKENS:
        detected.max_length = min(_MOST_TOKENS, math.ceil(tokens * 1.1 / _TOKEN_STEP) * _TOKEN_STEP)
    if tokens > _MOST_TOKENS:
        detected.remarks.append(
            f"contexts with their question have up to {tokens:,} tokens; truncation removes the question, which comes last: "
            "raise data.max_length"
        )
    return detected


def _columns(splits: dict[str, Paths], table: _Table, texts: Sequence[str] = (), label_name: str | None = None) -> DetectedData:
    """Question answering, sentence pairs, parallel text or labeled text, by the roles of the columns."""
    names, rows, options = _read_rows(table)
    options = table.options | options
    shown = ", ".join(names)
    specs = [ColumnSpec(None, usual) for usual in (QUESTION, CONTEXT, ANSWER, STARTS)]
    if not texts and "column_names" not in options and all(spec.find(names) for spec in specs):
        reason = f"{table.kind} with questions, contexts and answers (columns: {shown})"
        return DetectedData("question-answering", splits, options, reason)
    if len(rows) == 1 and table.separation is not None and not texts:
        raise ValueError(f"{table.file}: {table.kind} with one row ({shown}); a table needs several rows after its header")
    cells = {name: [row.get(name, "").strip() for row in rows] for name in names}
    if not texts and label_name is None and (found := _lettered_choices(names, cells)) is not None:
        reason = f"{table.kind} with a question, choices and the letter of the answer (columns: {shown})"
        return _add_context(DetectedData("multiple-choice", splits, options | found, reason), table)
    roles = assign_roles([TableColumn(name, present_cells(cells[name])) for name in names], texts, label_name)
    label = roles.label
    if label is not None and (problem := check_numbers(label.name, label.cells)):
        raise ValueError(f"{table.file}: {problem}")
    if len(roles.texts) == 2 and label is None:
        first, second = roles.texts
        options |= _column_option(first, ("source",), "source") | _column_option(second, ("target",), "target")
        detected = DetectedData("parallel-text", splits, options, f"{table.kind} with two texts (columns: {shown})")
        return _name_columns(detected, roles, ("source", "target"))
    if roles.texts and label is None and table.separation is None:
        return _unlabeled_objects(splits, table, roles, shown)
    if not roles.texts or label is None:
        raise ValueError(
            f"{table.file}: cannot detect the task of {table.kind} with the columns {shown}: {_missing_role(roles, cells)}"
        )
    detected = _labeled(splits, options, roles, label, f"{table.kind} with", shown)
    if len(roles.texts) == 2 and not texts:
        longest = max(roles.texts, key=lambda column: column.mean_words).name
        detected.remarks.append(f"for a single text, name its column: weft new --text {shlex.quote(longest)} ...")
    if not label.separator and (mark := next((mark for mark in ",;" if all(mark in cell for cell in label.cells)), "")):
        several = f"data.label_type=multiple 'data.separator={mark}' objective=multi-label"
        detected.remarks.append(f"each {label.name} has a {mark!r} and is one class; for several classes per row: {several}")
    if detected.label_type != "multiple" and len(label.cells) < len(rows):
        detected.options["on_bad_row"] = skip_rows(len(rows) - len(label.cells), len(rows), f"have no {label.name}")
    if label.is_continuous:
        detected.label_type, detected.options["label_type"] = "number", "number"
    return detected


def _lettered_choices(names: Sequence[str], cells: Mapping[str, Sequence[str]]) -> dict[str, str] | None:
    """The options of multiple choice for a question, three or more choices in a column each, then the letter of the answer."""
    for at, name in enumerate(names):
        letters = sorted(set(cells[name]))
        number = ord(letters[-1]) - ord("A") + 1 if letters and set(letters) <= set("ABCDEFGH") else 0
        if at <= number or number < 3 or len(letters) < 2:
            continue
        choices, question = names[at - number : at], names[at - number - 1]
        if all(filter(None, cells[question])) and all(len(set(cells[choice])) > 2 for choice in (*choices, question)):
            listed = ", ".join(map(yaml_string, choices))
            return {"question": yaml_string(question), "choices": f"[{listed}]", "answer": yaml_string(name)}
    return None


def _missing_role(roles: ColumnRoles, cells: Mapping[str, Sequence[str]]) -> str:
    """What a table lacks, and what to do."""
    by_hand = (
        "check that the table is read as intended, write the recipe by hand (weft catalog data lists the data sources), or "
        "pass a file of plain lines (weft new --as plain-text)"
    )
    if not roles.texts:
        if any(len(set(found)) > 1 and all(map(TAG.fullmatch, filter(None, found))) for found in cells.values()):
            return (
                "one word and its tag per row; for tagged text write them without header and quotes, separated by tabs, with an "
                "empty line after each sentence"
            )
        return f"no column holds texts; {by_hand}"
    texts = [column.name for column in roles.texts]
    for name, found in cells.items():
        if name not in texts and (problem := check_numbers(name, present_cells(found))):
            return problem
        if name not in texts and len(found) > 1 and found[0] and len(set(found)) == 1:
            return f"all rows have the same {name}, {found[0][:40]!r}; a label needs two or more classes"
    return f"no column has few distinct values, as a label has; {by_hand}"


def _unlabeled_objects(splits: dict[str, Paths], table: _Table, roles: ColumnRoles, shown: str) -> DetectedData:
    """JSON objects with texts and no label."""
    if any(column.name == "text" for column in roles.texts):
        return DetectedData("plain-text", splits, {}, f"JSON objects with a text (columns: {shown})")
    raise ValueError(
        f"{table.file}: JSON objects with the columns {shown}: no column has few distinct values, as a label has; for texts "
        "without labels rename the column of texts to text"
    )


def _labeled(
    splits: dict[str, Paths], options: dict[str, str], roles: ColumnRoles, label: TableColumn, kind: str, shown: str
) -> DetectedData:
    """Sentence pairs, or labeled text with one class or several."""
    if len(roles.texts) == 2:
        first, second = roles.texts
        options |= _column_option(first, FIRST, "first") | _column_option(second, SECOND, "second")
        options |= _column_option(label, ("label",), "label")
        detected = DetectedData("sentence-pairs", splits, options, f"{kind} two texts and a label (columns: {shown})")
        return _name_columns(detected, roles, ("first", "second"))
    options |= _column_option(roles.texts[0], TEXT, "text") | _column_option(label, LABEL, "label")
    detected = DetectedData("labeled-text", splits, options, f"{kind} a text and a label (columns: {shown})")
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
    encoding, delimiter = str(options.get("encoding", "utf-8")), options.get("delimiter")
    separation = None if is_json(file) else detect_separation(file, encoding)
    if separation and delimiter:
        separation = separation._replace(delimiter=str(delimiter), quoted=bool(options.get("quoted", separation.quoted)))
    table = _Table(file, encoding, None if is_json(file) else separation or TABS)
    names, rows, detected = _read_rows(table, options.get("column_names"))
    found: dict[str, Any] = {"column_names": tuple(names)} if detected else {}
    if separation and not delimiter:
        found |= {"delimiter": separation.delimiter, "quoted": separation.quoted}
    left = [name for name in names if name not in options.values()]
    for option, usual in {"first": FIRST, "second": SECOND, "label": PAIR_LABEL}.items():
        if option not in options and (name := ColumnSpec(None, usual).find(left)):
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
    table: _Table, column_names: Sequence[str] | None = None
) -> tuple[list[str], Sequence[Mapping[str, str]], dict[str, str]]:
    """Return the column names, the first rows, and the option ``column_names`` if the table has no header."""
    names = list(column_names) if column_names else _first_row(table)
    positions = [f"column{number}" for number in range(1, len(names) + 1)]
    keys = list(names) if column_names or table.separation is None else positions
    layout = table.layout._replace(column_names=keys if table.separation else None)
    found = islice(tables(table.cursor(), {name: ColumnSpec(name) for name in keys}, layout), MAX_ROWS)
    rows = [row.cells for row in found if row.cells and not row.problem]
    if not rows:
        raise ValueError(f"{table.file}: no row can be parsed as a table; {_table_remedy(table)}")
    if column_names or table.separation is None:
        return names, rows, {}
    body = [row for row in rows if list(row.values()) != names]
    given = [name for name in names if name.strip()]
    if len(body) == len(rows) - 1 and len(set(given)) == len(given) and body and _is_header(names, body):
        stripped = [name.strip() for name in names]
        return stripped, [dict(zip(stripped, row.values(), strict=True)) for row in body], {}
    return positions, rows, {"column_names": f"[{', '.join(positions)}]"}


def _first_row(table: _Table) -> list[str]:
    """The cells of the first row, or the keys of the first object."""
    if table.separation is None:
        return read_column_names(table.cursor())
    return next((cells for _, cells, problem in table.layout.rows(table.cursor()) if cells and not problem), [])


def _table_remedy(table: _Table) -> str:
    if table.separation is None:
        first = next((problem for _, _, problem in json_objects(table.cursor()) if problem), "it has no objects")
        return f"{first}. A JSON file has one object per line, or a list of objects, each with the same keys"
    return "a table has a header and as many columns in every row, separated by tabs, commas, semicolons or vertical bars"


def _is_header(names: list[str], rows: Sequence[Mapping[str, str]]) -> bool:
    """Whether the first line names the columns: it has no number, no sentence and no value that occurs again in its column.

    Two names may be missing: the first one, of the index of a data frame, and those of empty columns, after trailing delimiters.
    """
    columns = list(zip(*(row.values() for row in rows), strict=True))
    for at, (name, cells) in enumerate(zip(map(str.strip, names), columns, strict=True)):
        if not name:
            if at and any(map(str.strip, cells)):
                return False
        elif NUMBER.fullmatch(name) or name[-1] in ".!?。！？" or name in map(str.strip, cells) or count_words(name) > 6:
            return False
    return any(map(str.strip, names))


def _column_option(column: TableColumn, usual: tuple[str, ...], option: str) -> dict[str, str]:
    """The option that names a column; none if the column has the first of the usual names."""
    return {} if column.name == usual[0] else {option: yaml_string(column.name)}
