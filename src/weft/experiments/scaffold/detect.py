"""Rules that detect the task of data files."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML

from weft.core.contracts import Data
from weft.core.io import list_files
from weft.core.options import find_file, missing_file_message
from weft.core.registry import CATALOG
from weft.core.text_stream import data_suffix
from weft.data.sources.detect_encoding import detect_encoding
from weft.data.sources.json_rows import is_json
from weft.data.sources.parsing import ParsedRow, is_table
from weft.data.sources.question_answering import QuestionAnswering, is_squad
from weft.data.sources.text_source import TextSource
from weft.experiments.scaffold.delimiters import detect_separation
from weft.experiments.scaffold.detected_data import MAX_ROWS, DetectedData, Paths, files_of, skip_rows
from weft.experiments.scaffold.file_splits import SPLIT_OF, group_by_split, select_files, whole_folders, without_split
from weft.experiments.scaffold.images import detect_images
from weft.experiments.scaffold.missing_labels import skip_missing_labels
from weft.experiments.scaffold.table import detect_table
from weft.experiments.scaffold.text_layouts import (
    class_folders,
    could_be_classes,
    labeled_lines,
    several_files,
    tagged_options,
)

_SOURCES = (
    *("labeled-text", "multiple-choice", "parallel-text", "plain-text", "question-answering", "sentence-pairs", "tagged-text"),
)
"""Sources that a recipe can be written for."""
_MAX_FILES = 500
"""Of more files, the encoding of some is detected."""
_VERIFIED_ROWS = 50_000
"""Rows of each file that are read to verify what was detected."""
_FEW_TEXTS, _LINE_BYTES = 20, 1000
"""With fewer texts, a validation split is coarse; lines of this many bytes make more of them."""
_MAX_BAD = 0.2
"""Largest share of the rows that may be malformed."""


def detect_data(
    files: Sequence[str], source: str | None = None, texts: Sequence[str] = (), label: str | None = None
) -> DetectedData:
    """Detect the data source that fits the files, its splits and its options.

    Args:
        files: Files or folders. Relative paths are also searched in the folder ``WEFT_DATA``.
        source: Catalog name of the data source to read them as; None = detect it.
        texts: The column of a table with the text, or the two columns of a pair; empty = detected.
        label: The column of a table with the label; None = detected.

    Raises ValueError if a file is missing, empty or no text, if no rule fits, or if a file does not fit what was detected.
    """
    given: list[str] = []
    for name in files:
        file = name if Path(name).exists() else str(find_file(name))
        if not Path(file).exists():
            raise ValueError(missing_file_message(name))
        if not Path(file).is_file() and not Path(file).is_dir():
            raise ValueError(f"{file}: must be a regular file or a folder, not a device, pipe or socket")
        if not sum(Path(inner).stat().st_size for inner in list_files(file)):
            raise ValueError(f"{file}: the {'folder' if Path(file).is_dir() else 'file'} is empty")
        given.append(file)
    if not texts and (images := detect_images(given, SPLIT_OF, source, label)) is not None:
        return _verified(images)
    encoding = _common_encoding([inner for file in given for inner in list_files(file)])
    detected = None if texts or label else _class_folders(given, source)
    if detected is None:
        split_of, about = select_files(given, source)
        splits = group_by_split(split_of)
        detected = _named_columns(splits, encoding, texts, label) if texts or label else _detect(splits, encoding, source)
        if about:
            detected.remarks.append(f"ignored, as files about the data: {', '.join(about)}")
        detected.remarks += without_split(split_of)
        if detected.source == "plain-text":
            detected.splits = whole_folders(detected.splits, given)
    if encoding != "utf-8":
        detected.options["encoding"] = encoding
        detected.remarks.append(f"encoding: {encoding}, detected from the bytes; if letters are wrong, set data.encoding")
    if detected.other_source and source is None:
        command = shlex.join(["weft", "new", "--as", detected.other_source, *map(str, files)])
        detected.remarks.append(f"to read the files as {detected.other_source} instead: {command}")
    return _verified(detected)


def _verified(detected: DetectedData) -> DetectedData:
    """What was detected, with its size, after its first rows were read."""
    _verify(detected)
    _check_texts(detected)
    skip_missing_labels(detected, _source(detected), _VERIFIED_ROWS)
    detected.size = sum(Path(inner).stat().st_size for file in files_of(detected.splits["train"]) for inner in list_files(file))
    return detected


def _class_folders(given: list[str], source: str | None) -> DetectedData | None:
    folders = all(Path(file).is_dir() for file in given)
    return class_folders(given, SPLIT_OF) if folders and source in (None, "labeled-text") else None


def _detect(splits: dict[str, Paths], encoding: str, source: str | None) -> DetectedData:
    """Apply the rules to the training files, the most specific first."""
    refused: ValueError | None = None
    try:
        for found in _candidates(splits, encoding, source):
            if source in (None, found.source):
                return found
    except ValueError as error:
        if source is None:
            raise
        refused = error
    if source == "plain-text":
        return DetectedData("plain-text", splits, reason="texts without columns")
    files = files_of(splits["train"])
    try:
        return _as_asked(splits, encoding, str(source))
    except ValueError as error:
        refused = refused if refused and len(files) > 1 else error
    shown = ", ".join(files[:3])
    raise ValueError(f"{shown}: cannot be read as {source}: {refused}; leave out --as to detect the task")


def _as_asked(splits: dict[str, Paths], encoding: str, source: str) -> DetectedData:
    """The files read as a source that no rule detected, with the usual columns. Raises ValueError if they cannot be."""
    if source not in _SOURCES:
        raise ValueError(f"the sources are {', '.join(_SOURCES)}")
    first = files_of(splits["train"])[0]
    separation = detect_separation(first, encoding) if source != "tagged-text" and not is_json(first) else None
    options = separation.options(first) if separation else {}
    detected = DetectedData(source, splits, options, "read as --as demands, with the usual columns")
    bad, total, example = _count_bad(_source(detected, encoding), [[first]])
    if not total or bad > _MAX_BAD * total:
        raise ValueError(f"{example.where}: {example.problem}" if example else "it has no rows")
    return detected


def _candidates(splits: dict[str, Paths], encoding: str, source: str | None) -> Iterator[DetectedData]:
    """What the training files could be, the most specific first."""
    first = files_of(splits["train"])[0]
    if is_json(first):
        yield _squad(splits, encoding) if is_squad(first, encoding) else detect_table(splits, encoding, None)
        return
    if not is_table(first) and (several := several_files(splits, encoding, source)) is not None:
        yield several
    if data_suffix(first) != ".csv" and (options := tagged_options(first, encoding)) is not None:
        reason = "lines of a word and its tags, with empty lines between sentences"
        yield DetectedData("tagged-text", splits, options, reason)
    separation = None if source == "plain-text" else detect_separation(first, encoding)
    if not is_table(first) and (labeled := labeled_lines(splits, encoding)) is not None:
        tabs = separation is not None and separation.delimiter == "\t" and labeled.options == {"format": "label-first"}
        yield from _table_in_text(splits, encoding, separation) if tabs else ()
        yield labeled
    if separation is not None:
        if is_table(first) or separation.delimiter == "\t":
            yield detect_table(splits, encoding, separation)
        else:
            yield from _table_in_text(splits, encoding, separation)
    elif is_table(first) and source is None:
        raise ValueError(
            f"{first}: the rows have no columns, separated by tabs, commas, semicolons or vertical bars; for a text per line: "
            f"{shlex.join(['weft', 'new', '--as', 'plain-text', first])}"
        )
    other = "labeled-text" if could_be_classes(files_of(splits["train"])) else ""
    yield DetectedData("plain-text", splits, reason="texts without columns", other_source=other)


def _named_columns(splits: dict[str, Paths], encoding: str, texts: Sequence[str], label: str | None) -> DetectedData:
    """A table whose columns are given by name."""
    first = files_of(splits["train"])[0]
    separation = None if is_json(first) or Path(first).is_dir() else detect_separation(first, encoding)
    if separation is None and not is_json(first):
        raise ValueError(f"{first}: not a table, so it has no column {(*texts, label)[0]!r}; leave out --text and --label")
    return detect_table(splits, encoding, separation, texts, label)


def _table_in_text(splits: dict[str, Paths], encoding: str, separation: Any) -> Iterator[DetectedData]:
    """A table in a file whose suffix is not that of a table, if its columns have a task."""
    try:
        found = detect_table(splits, encoding, separation)
    except ValueError:
        return
    found.other_source = "plain-text"
    yield found


# ------------------------------------------------------------------------------------------------------- files and splits


def _common_encoding(files: list[str]) -> str:
    """The encoding of all files. Raises ValueError if they differ, or if a file is no text."""
    step = max(1, len(files) // _MAX_FILES)
    found: dict[str, str] = {}
    for file in files[::step]:
        found.setdefault(detect_encoding(file), file)
    found.pop("ascii", None)
    if set(found) == {"latin-1", "cp1252"}:
        found.pop("latin-1")
    if len(found) > 1:
        (one, file), (other, another), *_ = sorted(found.items(), key=lambda item: item[0] != "utf-8")
        raise ValueError(
            f"{file} is in {one}, but {another} in {other}; the files of a dataset need one encoding. Convert one of them: "
            f"iconv -f {other} -t utf-8 {shlex.quote(another)} > converted"
        )
    return next(iter(found), "utf-8")


def _squad(splits: dict[str, Paths], encoding: str) -> DetectedData:
    """Question answering in the JSON format of SQuAD, the only JSON document that is supported."""
    file = files_of(splits["train"])[0]
    source = QuestionAnswering(train=file, encoding=encoding)
    row = next(source.rows([source.cursor([file])]), None)
    if row is None or (row.problem and not row.cells):
        problem = row.problem if row else "it has no questions"
        raise ValueError(
            f"{file}: a .json file must be a list of objects, [{{...}}, ...], or have one object per line, or have the format "
            f"of SQuAD: {problem}"
        )
    reason = "a JSON file of contexts with questions and answers in the format of SQuAD"
    return DetectedData("question-answering", splits, reason=reason)


# ----------------------------------------------------------------------------------------------------------- verification


def _verify(detected: DetectedData) -> None:
    """Read the first rows of every file with the detected options; skip malformed rows, if there are few.

    Raises ValueError if a file does not fit.
    """
    source = _source(detected)
    first = files_of(detected.splits["train"])[0]
    for split in list(detected.splits):
        groups = source.files(source.paths[split])
        for files in [groups] if len(groups) > 1 else [[[file]] for file in groups[0][:_MAX_FILES]]:
            try:
                bad, total, example = _count_bad(source, files)
            except ValueError as error:
                if files[0][0] == first:
                    raise
                if split != "train" and _has_inputs(source, files):
                    unlabeled = ", ".join(files_of(detected.splits.pop(split)))
                    command = f"weft predict RUN {shlex.quote(files[0][0])}"
                    detected.remarks.append(f"left out, as it has texts but no labels: {unlabeled}; after training: {command}")
                    break
                found = f"{first} was read as {detected.source} ({detected.reason})"
                raise ValueError(f"{error}. {found}; all files of a dataset need the same format") from None
            if bad > _MAX_BAD * total and example is not None:
                raise ValueError(
                    f"{example.where}: {example.problem}. The file does not fit {detected.source} as detected from {first} "
                    f"({detected.reason}): {bad:,} of {total:,} rows are malformed; all files of a dataset need the same format"
                )
            if example is not None and "on_bad_row" not in detected.options:
                detected.options["on_bad_row"] = skip_rows(bad, total, f"of {Path(example.file).name} are malformed")
                where = f"{example.where}: {example.problem}"
                detected.remarks.append(f"{bad:,} of {total:,} rows are malformed and skipped, the first: {where}")


def _check_texts(detected: DetectedData) -> None:
    """Raise ValueError for a single text, of which none can be held out for validation; remark on a few long ones."""
    if detected.source != "plain-text" or "valid" in detected.splits:
        return
    source, files = _source(detected), list_files(files_of(detected.splits["train"]))
    rows = (row.cells.get("text", "") for row in source.rows([source.cursor(files)]))
    texts = list(islice((text for text in rows if text and not text.isspace()), _FEW_TEXTS))
    if len(texts) == _FEW_TEXTS:
        return
    command = f"fold -s -w {_LINE_BYTES} {shlex.quote(files[0])} > train.txt"
    if len(texts) < 2:
        raise ValueError(
            f"{files[0]}: the data has one text, in one line, and none can be held out for validation; add a file with 'valid' "
            f"in its name, or divide the line into lines of {_LINE_BYTES:,} bytes: {command}"
        )
    if sum(map(len, texts)) > _FEW_TEXTS * _LINE_BYTES:
        detected.remarks.append(
            f"{len(texts)} texts, one of which or more are held out for validation; for shorter lines: {command}"
        )


def _source(detected: DetectedData, encoding: str | None = None) -> TextSource:
    """The data source with the detected options."""
    values = {name: YAML(typ="safe", pure=True).load(value) for name, value in detected.options.items()}
    values |= {"encoding": encoding} if encoding else {}
    values |= {} if detected.folder is None else {"folder": detected.folder}
    splits = {
        split: paths[0] if isinstance(paths, list) and len(paths) == 1 else paths for split, paths in detected.splits.items()
    }
    source = CATALOG[Data][detected.source](**splits, **values)
    assert isinstance(source, TextSource)
    return source


def _has_inputs(source: TextSource, files: list[list[str]]) -> bool:
    """Whether rows of the files can be parsed for prediction, without what is to be predicted."""
    try:
        rows = list(islice(source.inputs([source.cursor(group) for group in files]), MAX_ROWS))
    except ValueError:
        return False
    used = [row for row in rows if row.cells or row.problem]
    return sum(not row.problem for row in used) > (1 - _MAX_BAD) * len(used)


def _count_bad(source: TextSource, files: list[list[str]]) -> tuple[int, int, ParsedRow | None]:
    """Number of malformed rows and of rows, and the first malformed one."""
    bad, total, example = 0, 0, None
    for row in islice(source.rows([source.cursor(group) for group in files]), _VERIFIED_ROWS):
        total += bool(row.cells or row.problem)
        if row.problem:
            bad, example = bad + 1, example or row
    return bad, total, example
