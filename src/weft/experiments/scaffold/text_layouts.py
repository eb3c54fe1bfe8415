"""Rules that detect the task of text files without columns: tagged words, lines with labels, files by class, parallel files."""

from __future__ import annotations

import re
import shlex
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from weft.core.io import list_files
from weft.data.sources.cursor import Cursor
from weft.data.sources.parsing import is_table
from weft.data.sources.tagged_text import DOCUMENT
from weft.data.sources.text_source import SPLITS
from weft.experiments.scaffold.detected_data import DetectedData, Paths, first_lines

TAG = re.compile(r"O|[BIESLU]-\S+")
_MAX_TAGS = 100
_MAX_LABELS = 100
_MAX_CLASS_FILES = 30
_LABEL = re.compile(r"[A-Z][A-Z0-9_-]*(:\S+)?|[-+]?\d{1,3}|[A-Za-z]\w*:\w+")
_CLASS_NAMES = (
    "pos neg positive negative neutral good bad ham spam subjective objective subj obj quote plot fake real true false hate "
    "offensive normal toxic clean formal informal polite impolite humorous romantic factual sarcastic serious male female yes no"
)
_CLASS_WORDS = frozenset(_CLASS_NAMES.split())
"""Words in file names that are classes."""
_UNLABELED = ("unsup", "unsupervised", "unlabeled", "unlabelled")
"""Names of folders of texts without labels."""
_SIDES = "src tgt trg source target input output ref reference simple complex"
_LANGUAGE_CODES = (
    "af am ar az be bg bn bs ca cs cy da de el en eo es et eu fa fi fr ga gl gu he hi hr hu hy id is it ja ka kk km kn ko ku ky "
    "lo lt lv mk ml mn mr ms mt my nb ne nl nn pa pl ps pt ro ru si sk sl so sq sr sv sw ta te tg th tl tr uk ur uz vi xh yi zh "
    "eng deu ger fra fre spa ita nld dut por rus zho chi jpn kor ara ces cze pol tur ukr"
)
_LANGUAGES = frozenset(_LANGUAGE_CODES.split())
_SIDE_WORDS = frozenset(_SIDES.split()) | _LANGUAGES
"""Words in file names that are the sides of a parallel text."""
_TEXT_FILES, _LABEL_FILES = ("text", "texts", "sentence", "sentences"), ("label", "labels")
"""Words in the names of files with the texts and of files with their labels."""
_CORRELATED = 0.3
"""Correlation of the lengths of corresponding lines, from which two files are taken for parallel text."""


# ---------------------------------------------------------------------------------------------------------- tagged words


def tagged_options(file: str, encoding: str) -> dict[str, str] | None:
    """The options of tagged text, None for other files: equally many columns per line, one of them with few distinct tags."""
    lines = [(line, line.split()) for line in first_lines(file, encoding)]
    rows = [(line, cells) for line, cells in lines if cells and cells[0] != DOCUMENT]
    if not rows or all(cells for _, cells in lines):
        return None
    columns = Counter(len(cells) for _, cells in rows).most_common(1)[0][0]
    words = [cells for line, cells in rows if not (len(cells) != columns and line.startswith("#"))]
    if columns < 2 or sum(len(cells) == columns for cells in words) < 0.98 * len(words):
        return None
    options: dict[str, str] = {} if len(words) == len(rows) else {"comments": "true"}
    words = [cells for cells in words if len(cells) == columns]
    if columns == 10 and all(re.fullmatch(r"\d+([-.]\d+)?", cells[0]) for cells in words):  # CoNLL-U
        return options | {"word_column": "1", "tag_column": "3", "scheme": "null"}
    last, first = ({cells[at] for cells in words} for at in (-1, 0))
    if all(map(TAG.fullmatch, last)):
        return options
    if all(map(TAG.fullmatch, first)) and len(first) > 1:
        return options | {"word_column": str(columns - 1), "tag_column": "0"}
    if len(last) > _MAX_TAGS or len(last) * 5 > len(words):
        return None
    return options | {"scheme": "null"}


# ------------------------------------------------------------------------------------------------------ lines with labels


def labeled_lines(splits: dict[str, Paths], encoding: str) -> DetectedData | None:
    """Lines with ``__label__NAME`` (fastText), or lines that start with a label (TREC: ``DESC:manner How did ...``)."""
    lines = [line.split() for file in splits["train"] for line in first_lines(file, encoding)]
    lines = [words for words in lines if words]
    marked = [[word for word in words if word.startswith("__label__")] for words in lines]
    if lines and sum(map(bool, marked)) >= 0.8 * len(lines):
        several = any(len(labels) > 1 for labels in marked)
        found = DetectedData("labeled-text", splits, {"format": "fasttext"}, "lines with labels in the format of fastText")
        if several:
            found.label_type, found.options["label_type"] = "multiple", "multiple"
        return found
    labels = Counter(words[0] for words in lines)
    usual = sum(count for label, count in labels.items() if _LABEL.fullmatch(label) or label.lower() in _CLASS_WORDS)
    if not 2 <= len(labels) <= _MAX_LABELS or len(labels) * 2 > len(lines) or usual < 0.95 * len(lines):
        return None
    if sum(len(words) > 1 for words in lines) < 0.95 * len(lines):
        return None
    options = {"format": "label-first"}
    found = DetectedData("labeled-text", splits, options, "lines that start with a label", other_source="plain-text")
    if all(":" in label for label in labels):
        coarse = len({label.partition(":")[0] for label in labels})
        if coarse > 1:
            options["coarse_labels"] = "true"
            found.remarks.append(
                f"labels such as {min(labels)} have two levels: the {coarse} classes before the colon are used; for all "
                f"{len(labels)} set data.coarse_labels=false"
            )
    return found


# ---------------------------------------------------------------------------------------------------------- several files


def several_files(splits: dict[str, Paths], encoding: str, wanted: str | None) -> DetectedData | None:
    """Files by class, or two parallel files, by the words in which the names of the training files differ.

    Raises ValueError for files of several languages that are not parallel.
    """
    if len(splits["train"]) < 2 or any(isinstance(files, dict) for files in splits.values()):
        return None
    keys = {split: _keys(list(files)) for split, files in splits.items()}
    train = list(splits["train"])
    if wanted is None:
        _check_label_files(keys["train"])
    words = set(keys["train"].values())
    named_classes = words <= _CLASS_WORDS and len(words) == len(train)
    named_sides = words <= _SIDE_WORDS and len(words) == len(train)
    if wanted == "labeled-text" or (wanted is None and named_classes):
        return _by_class(splits, keys)
    if len(train) != 2:
        if named_sides and wanted in (None, "parallel-text"):
            raise ValueError(
                f"{', '.join(train)}: texts in {len(train)} languages, but parallel text has two sides; pass the files of "
                f"two, such as: {shlex.join(['weft', 'new', *train[:2]])}"
            )
        return None
    if wanted == "parallel-text" or (wanted is None and (named_sides or _looks_parallel(train))):
        return _parallel(splits, keys, encoding, wanted is not None or named_sides)
    return None


def _check_label_files(keys: Mapping[str, str]) -> None:
    """Raise ValueError for texts in one file and their labels in another."""
    texts, labels = ([file for file, key in keys.items() if key in words] for words in (_TEXT_FILES, _LABEL_FILES))
    if len(texts) == len(labels) == 1:
        command = f"paste {shlex.quote(labels[0])} {shlex.quote(texts[0])} > train.tsv"
        raise ValueError(
            f"{texts[0]} has texts and {labels[0]} their labels; join the lines of the two files of each split: {command}"
        )


def are_named_apart(files: Sequence[str]) -> bool:
    """Whether the names of the files differ in a class or a language, so that they are not parts of one text."""
    words = set(_keys(files).values())
    return 1 < len(files) == len(words) and (words <= _CLASS_WORDS or words <= _SIDE_WORDS)


def could_be_classes(files: Sequence[str]) -> bool:
    """Whether several files, or those of a folder, have names of their own, so that each could hold the texts of a class."""
    if len(files) == 1 and Path(files[0]).is_dir():
        files = [str(file) for file in Path(files[0]).iterdir() if file.is_file()]
    words = list(_keys(files).values()) if 2 <= len(files) <= _MAX_CLASS_FILES else []
    return bool(words) and all(words) and len(set(words)) == len(words)


def _looks_parallel(files: Sequence[str]) -> bool:
    """Whether two files differ only in their suffix."""
    one, other = map(Path, files)
    return one.stem == other.stem and one.suffix != other.suffix and one.parent == other.parent


def _keys(files: Sequence[str]) -> dict[str, str]:
    """The words of each file name that the others lack, joined by a blank."""
    words = {file: [word for word in re.split(r"[^a-z0-9]+", Path(file).name.lower()) if word != "gz"] for file in files}
    shared = set.intersection(*map(set, words.values())) | {"txt", "train", "training", "dev", "val", "valid", "test"}
    own = {file: [word for word in found if word not in shared] for file, found in words.items()}
    sides = _SIDE_WORDS | _CLASS_WORDS
    return {file: found[-1] if found and found[-1] in sides else " ".join(found) for file, found in own.items()}


def _by_class(splits: dict[str, Paths], keys: Mapping[str, Mapping[str, str]]) -> DetectedData:
    found: dict[str, Paths] = {}
    for split, files in splits.items():
        own = {label: [file for file in files if keys[split][file] == label] for label in sorted(set(keys[split].values()))}
        if "" in own or set(own) != set(keys["train"].values()):
            names = ", ".join(sorted(set(keys["train"].values())))
            raise ValueError(f"{split} needs one file for each class of the training files ({names}), got {', '.join(files)}")
        found[split] = own
    classes = ", ".join(sorted(set(keys["train"].values())))
    other = "parallel-text" if len(splits["train"]) == 2 else "plain-text"
    return DetectedData("labeled-text", found, reason=f"one file per class ({classes}), with a text per line", other_source=other)


def _parallel(
    splits: dict[str, Paths], keys: Mapping[str, Mapping[str, str]], encoding: str, certain: bool
) -> DetectedData | None:
    """Two files with corresponding lines; files by class or plain text if their lines do not correspond."""
    source, target = splits["train"]
    lengths = [[len(line) for line, _ in Cursor(list_files(file)[:1], encoding=encoding).lines()] for file in (source, target)]
    if len(lengths[0]) != len(lengths[1]):
        raise ValueError(
            f"{source} and {target} have {len(lengths[0])} and {len(lengths[1])} lines; parallel texts need the same number of "
            "lines. If they are no parallel texts, add --as plain-text, or --as labeled-text for one file per class"
        )
    if not certain and len(lengths[0]) >= 20 and _correlation(*lengths) < _CORRELATED:
        found = _by_class(splits, keys)
        found.reason += "; the lengths of their lines are not correlated, as those of translations are"
        return found
    order = [keys["train"][str(file)] for file in (source, target)]
    ordered: dict[str, Paths] = {}
    for split, files in splits.items():
        if len(files) != 2 or (set(keys[split].values()) != set(order) and len(files) != 2):
            raise ValueError(f"{split} needs one file {order[0]} and one file {order[1]}, got {', '.join(files)}")
        own = keys[split]
        ordered[split] = sorted(files, key=lambda file: own[file] != order[0]) if set(own.values()) == set(order) else list(files)
    reason = f"two files of {len(lengths[0]):,} lines each"
    return DetectedData("parallel-text", ordered, reason=reason, other_source="labeled-text")


def _correlation(one: Sequence[int], other: Sequence[int]) -> float:
    if len(set(one)) < 2 or len(set(other)) < 2:
        return 1.0
    return float(np.corrcoef(one, other)[0, 1])


def class_folders(folders: Sequence[str], split_of: Mapping[str, str]) -> DetectedData | None:
    """Text files in one folder per class, inside a folder for each split or not.

    Args:
        folders: The folders.
        split_of: The split that a word in a name selects.
    """
    found: dict[str, dict[str, dict[str, None]]] = {}
    ignored: list[str] = []
    files = list_files(list(folders))
    if any(map(is_table, files)):
        return None
    for folder in folders:
        base = Path(folder) if len(folders) == 1 else Path(folder).parent
        for file in list_files(folder):
            *parents, name = Path(file).relative_to(base).parts
            classes = [part for part in parents if part.lower() not in split_of]
            if not classes:
                ignored.append(file)
                continue
            named = next((split_of[word] for word in re.split(r"[^a-z]+", name.lower()) if word in split_of), None)
            split = named or next((split_of[part.lower()] for part in parents if part.lower() in split_of), "train")
            own = found.setdefault(split, {}).setdefault(classes[-1], {})
            own[file if named else str(Path(file).parent)] = None
    unlabeled = _leave_unlabeled(found)
    if "train" not in found or len(found["train"]) < 2 or set(found["train"]) <= _LANGUAGES:
        return None
    if len(ignored) * (4 if len(found) > 1 else 20) > len(files):
        return None
    if any(set(classes) != set(found["train"]) for classes in found.values()):
        return None
    classes = sorted(found["train"])
    per_class = sum(len(list_files(list(own))) for own in found["train"].values()) / len(classes)
    unit = "file" if per_class > 1 else "line"
    order = [split for split in SPLITS if split in found]
    splits: dict[str, Paths] = {split: {label: list(found[split][label]) for label in classes} for split in order}
    detected = DetectedData(
        "labeled-text", splits, {"unit": unit}, f"one folder per class ({', '.join(classes)}), a text per {unit}"
    )
    detected.other_source = "plain-text"
    if unit == "file":
        detected.remarks.append("a text is a whole file; if every line is a text of its own: data.unit=line")
    if ignored:
        shown = ", ".join(ignored[:3]) + (", ..." if len(ignored) > 3 else "")
        detected.remarks.append(f"ignored, because they are in no class folder: {shown}")
    if unlabeled:
        detected.remarks.append(f"left out, as texts without labels or of no class of every split: {unlabeled}")
    return detected


def _leave_unlabeled(found: dict[str, dict[str, dict[str, None]]]) -> str:
    """Remove folders of texts without labels: by their names, or because a validation or test split lacks them; return them."""
    others = [set(classes) for split, classes in found.items() if split != "train"]
    shared = set.intersection(*others) if others else set[str]()
    removed: list[str] = []
    for split, classes in found.items():
        named = {label for label in classes if label.lower() in _UNLABELED}
        absent = set(classes) - shared if split == "train" and len(shared & set(classes)) > 1 else set[str]()
        for label in sorted(named | absent):
            removed += classes.pop(label)
    return ", ".join(removed)
