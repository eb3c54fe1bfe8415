"""Rules that detect the task of data files."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from itertools import islice
from pathlib import Path

from weft.core.io import list_files
from weft.core.options import find_file, missing_file_message
from weft.data.sources.cursor import Cursor
from weft.data.sources.question_answering import QuestionAnswering
from weft.experiments.scaffold.detected_data import MAX_ROWS, DetectedData, first_lines
from weft.experiments.scaffold.table import detect_table

_SPLITS = {
    "train": ("train", "training"),
    "valid": ("valid", "validation", "val", "dev"),
    "test": ("test", "testing"),
}
"""Words in a file name that select a split."""
_TABLES = (".tsv", ".csv", ".jsonl", ".ndjson")
_TAG = re.compile(r"O|[BIESLU]-\S+")
_MAX_TAGS = 100


def detect_data(files: list[str], texts: Sequence[str] = (), label: str | None = None) -> DetectedData:
    """Detect the data source that fits the files, its splits and its options.

    Args:
        files: Files or folders. Relative paths are also searched in the folder ``WEFT_DATA``.
        texts: The column of a table with the text, or the two columns of a pair; empty = detected.
        label: The column of a table with the label; None = detected.

    Raises ValueError if a file is missing, empty or not UTF-8 text, or if no rule fits.
    """
    found: list[str] = []
    for name in files:
        file = name if Path(name).exists() else str(find_file(name))
        if not Path(file).exists():
            raise ValueError(missing_file_message(name))
        if not sum(Path(inner).stat().st_size for inner in list_files(file)):
            raise ValueError(f"{file}: the {'folder' if Path(file).is_dir() else 'file'} is empty")
        found += _expand_folder(file)
    splits = _by_split(found)
    detected = detect_table(splits, texts, label) if texts or label else _detect(splits)
    detected.size = sum(Path(inner).stat().st_size for file in splits["train"] for inner in list_files(file))
    return detected


def _detect(splits: dict[str, list[str]]) -> DetectedData:
    """Apply the rules to the training files, the most specific first."""
    first = splits["train"][0]
    if len(splits["train"]) == 2 and (parallel := _parallel(splits)) is not None:
        return parallel
    if Path(first).suffix.lower() == ".json":
        return _squad(splits)
    if Path(first).suffix.lower() in _TABLES or _is_tab_separated(first):
        return detect_table(splits)
    if (options := _tagged(first)) is not None:
        reason = "lines of a word and its tags, with empty lines between sentences"
        return DetectedData("tagged-text", splits, options, reason)
    return DetectedData("plain-text", splits, reason="texts without columns")


# ---------------------------------------------------------------------------------------------------------------- splits


def _expand_folder(file: str) -> list[str]:
    """Return the files of a folder of tables or of named splits; a folder of texts stays one corpus.

    Raises ValueError if the first file is not UTF-8 text.
    """
    inner = list_files(file)
    problems = [problem for _, problem in islice(Cursor(inner[:1]).lines(), MAX_ROWS)]
    if sum(map(bool, problems)) > len(problems) / 2:
        raise ValueError(f"{inner[0]}: not a text file: {next(filter(None, problems))}")
    separate = all(Path(f).suffix.lower() in (*_TABLES, ".json") for f in inner) or any(map(_split_of, inner))
    return inner if Path(file).is_dir() and separate else [file]


def _split_of(file: str) -> str | None:
    """The split that a word of the file name selects."""
    words = re.split(r"[^a-z]+", Path(file).name.lower())
    return next((split for word in words for split, names in _SPLITS.items() if word in names), None)


def _by_split(files: list[str]) -> dict[str, list[str]]:
    """Group files by the split in their names; files without one are training files."""
    found: dict[str, list[str]] = {split: [] for split in _SPLITS}
    for file in files:
        found[_split_of(file) or "train"].append(file)
    if not found["train"]:
        names = ", ".join(Path(file).name for file in files)
        raise ValueError(
            f"no training file among {names}: their names select validation or test data; add a file with 'train' in its name"
        )
    return {split: named for split, named in found.items() if named}


# ----------------------------------------------------------------------------------------------------------------- rules


def _parallel(splits: dict[str, list[str]]) -> DetectedData | None:
    """Two files that differ only in their suffix (train.de, train.en) and have the same number of lines."""
    source, target = map(Path, splits["train"])
    if source.stem != target.stem or source.suffix in _TABLES or source.suffix == target.suffix:
        return None
    counts = [sum(1 for _ in Cursor(list_files(str(file))[:1]).lines()) for file in (source, target)]
    if counts[0] != counts[1]:
        raise ValueError(
            f"{source} and {target} have {counts[0]} and {counts[1]} lines; parallel texts need the same number of lines"
        )
    ordered = {split: sorted(files, key=lambda file: Path(file).suffix != source.suffix) for split, files in splits.items()}
    for split, files in ordered.items():
        if [Path(file).suffix for file in files] != [source.suffix, target.suffix]:
            raise ValueError(f"{split} needs one file {source.suffix} and one file {target.suffix}, got {', '.join(files)}")
    return DetectedData("parallel-text", ordered, reason=f"two files of {counts[0]:,} lines each")


def _squad(splits: dict[str, list[str]]) -> DetectedData:
    """Question answering in the JSON format of SQuAD, the only JSON document that is supported."""
    file = splits["train"][0]
    row = next(QuestionAnswering(train=file).rows([Cursor([file])]), None)
    if row is None or (row.problem and not row.cells):
        problem = row.problem if row else "it has no questions"
        raise ValueError(
            f"{file}: a .json file must have the format of SQuAD: {problem}; write a list of objects as JSON Lines "
            "(suffix .jsonl, one object per line)"
        )
    reason = "a JSON file of contexts with questions and answers in the format of SQuAD"
    return DetectedData("question-answering", splits, reason=reason)


def _is_tab_separated(file: str) -> bool:
    """Whether at least 95% of the lines have the same number of tabs, at least one."""
    counts = Counter(line.count("\t") for line in first_lines(file) if line.strip())
    return bool(counts) and counts.most_common(1)[0][0] > 0 and counts.most_common(1)[0][1] > 0.95 * counts.total()


def _tagged(file: str) -> dict[str, str] | None:
    """The options of a CoNLL file, None for other files: equally many columns per line, the last with few distinct tags."""
    lines = [line.split() for line in first_lines(file)]
    rows = [cells for cells in lines if cells and cells[0] != "-DOCSTART-" and not cells[0].startswith("#")]
    column_counts = set(map(len, rows))
    if not rows or [] not in lines or len(column_counts) != 1 or len(rows[0]) < 2:
        return None
    tags = {cells[-1] for cells in rows}
    if len(tags) > _MAX_TAGS or len(tags) * 5 > len(rows):
        return None
    return {} if all(map(_TAG.fullmatch, tags)) else {"scheme": "null"}
