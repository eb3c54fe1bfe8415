"""Which of the given files are data, and the split of each."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from weft.core.io import list_files
from weft.data.sources.parsing import is_table
from weft.experiments.scaffold.detected_data import Paths
from weft.experiments.scaffold.text_layouts import are_named_apart

_SPLITS = {
    "train": ("train", "training"),
    "valid": ("valid", "validation", "val", "dev", "devel", "development", "testa"),
    "test": ("test", "testing", "testb"),
}
"""Words in the name of a file or folder that select a split; ``testa`` and ``testb`` are those of CoNLL-2003."""
SPLIT_OF = {word: split for split, words in _SPLITS.items() for word in words}
_ABOUT = re.compile(r"(readme|licen[cs]e|citation|changelog|notice|authors|sha256sums|md5sums?)([._-].*)?", re.IGNORECASE)
"""Names of files about the data, which folders of data have beside them."""
_SUBMISSION = re.compile(r"(sample|example)?[_-]?submission([._-].*)?", re.IGNORECASE)
"""Names of files that show the format of predictions, as in competitions."""


def select_files(given: Sequence[str], source: str | None) -> tuple[dict[str, str | None], list[str]]:
    """Return the data files with the split that the name of each, or of a folder, selects (None: none); and the files about the
    data, which are ignored.

    A folder of tables, of named splits or of several kinds of text becomes its files, each of them once even if there are
    links to it; a folder of texts stays one corpus.

    Args:
        given: Files and folders.
        source: The data source to read them as; None = it is detected.
    """
    several = len(given) > 1
    found: dict[str, str | None] = {}
    about: list[str] = []
    for file in given:
        if not Path(file).is_dir():
            found[file] = _named_split(file)
            continue
        inner = list({Path(each).resolve(): each for each in reversed(list_files(file))}.values())[::-1]
        about += [each for each in inner if _ABOUT.fullmatch(Path(each).name)]
        data = [each for each in inner if each not in about]
        splits = _splits_in(data, Path(file).parent if several else Path(file))
        separate = all(map(is_table, data)) or any(splits.values()) or are_named_apart(data) or source == "labeled-text"
        found |= splits if data and separate else {file: _named_split(file) if several else None}
        about = about if data and separate else []
    if any(split and is_table(file) for file, split in found.items()):  # beside named splits of tables, other files are no data
        others = [file for file, split in found.items() if _is_no_data(file, split)]
        about, found = about + others, {file: split for file, split in found.items() if file not in others}
    return found, about


def _is_no_data(file: str, split: str | None) -> bool:
    """Whether a file beside tables with a split is a list of classes, a vocabulary, or a sample of predictions."""
    return split is None and (bool(_SUBMISSION.fullmatch(Path(file).name)) or not is_table(file))


def _splits_in(files: Sequence[str], base: Path) -> dict[str, str | None]:
    """The split of each file of a folder: that of the folder it is in, where all of them are in folders of splits; else that of
    its name, or of such a folder."""
    folders = {file: _folder_split(Path(file).relative_to(base).parts[:-1]) for file in files}
    if all(folders.values()):
        return folders
    return {file: _named_split(file) or folder for file, folder in folders.items()}


def _folder_split(parents: Sequence[str]) -> str | None:
    return next((SPLIT_OF[name.lower()] for name in reversed(parents) if name.lower() in SPLIT_OF), None)


def _named_split(file: str) -> str | None:
    """The split that a word of the file name selects."""
    words = re.split(r"[^a-z]+", Path(file).name.lower())
    return next((SPLIT_OF[word] for word in words if word in SPLIT_OF), None)


def group_by_split(files: Mapping[str, str | None]) -> dict[str, Paths]:
    """Group files by their split; files without one are training files."""
    found: dict[str, list[str]] = {split: [] for split in _SPLITS}
    for file, split in files.items():
        found[split or "train"].append(file)
    if not found["train"]:
        names = ", ".join(Path(file).name for file in files)
        raise ValueError(
            f"no training file among {names}: their names select validation or test data; add a file with 'train' in its name"
        )
    return {split: named for split, named in found.items() if named}


def without_split(files: Mapping[str, str | None]) -> list[str]:
    """A remark about training files without a split in their names, where others have one: they may be test files."""
    unnamed = [Path(file).name for file, split in files.items() if split is None]
    if not unnamed or "train" not in files.values():
        return []
    shown = ", ".join(unnamed[:3]) + (", ..." if len(unnamed) > 3 else "")
    return [f"used for training too, as its name has no split (train, dev, test): {shown}; rename it if it is for evaluation"]


def whole_folders(splits: Mapping[str, Paths], given: Sequence[str]) -> dict[str, Paths]:
    """The splits, with a folder in place of the files of a split, where it is or is in a given folder and has no other files."""
    found = dict(splits)
    for split, files in splits.items():
        bases = [base for base in map(Path, given) if base in Path(str(next(iter(files)))).parents]
        for base in bases if len(files) > 1 else ():
            for folder in (base, *(each for each in base.iterdir() if each.is_dir())):
                if sorted(list_files(folder)) == sorted(files):
                    found[split] = [str(folder)]
    return found
