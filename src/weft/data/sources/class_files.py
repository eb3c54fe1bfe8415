"""Files given by class, as in ``{positive: good.txt, negative: bad.txt}``."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from weft.core.io import list_files
from weft.core.options import FileOrFolder
from weft.data.sources.training_scan import sort_labels

Files = FileOrFolder | list[FileOrFolder]
ClassFiles = Files | dict[str, Files]
"""Files; or the files of each class, by class name."""


def files_by_class(paths: ClassFiles, classes: Sequence[str]) -> list[list[str]]:
    """Return the files of a split: one list for each class, or a single list if files are not given by class."""
    return [list_files(paths[label]) for label in classes] if isinstance(paths, dict) else [list_files(paths)]


def classes_of(paths: Mapping[str, Any], label: str | None) -> tuple[str, ...]:
    """Return the class names by which files are given, the same in every split; empty if files are not given by class.

    Args:
        paths: Files of each split; a dict has the files of each class.
        label: The column of labels in tables; None = there is none.
    """
    by_class = {split: files for split, files in paths.items() if isinstance(files, dict)}
    for split, files in by_class.items():
        _check_class_names(split, files)
        _check_no_shared_file(split, files)
    first = next(iter(by_class), "")
    for split in by_class:
        if (own := set(by_class[split])) != (expected := set(by_class[first])):
            here, there = (", ".join(sort_labels(classes)) for classes in (own, expected))
            raise ValueError(f"{split} has files for the classes {here}, but {first} for {there}; they must be the same")
    if by_class and "train" not in by_class and label is None:
        raise ValueError(
            f"{first} has files by class, but train has none; give the files of train by class too, or name the column of labels "
            "in its tables with label"
        )
    return tuple(sort_labels(by_class[first])) if by_class else ()


def _check_class_names(split: str, files: Mapping[Any, Any]) -> None:
    if len(files) < 2:
        found = f"one class ({', '.join(files)})" if files else "no class"
        raise ValueError(f"{split} has {found}; give the files of two or more classes, or a list without classes: [file, ...]")
    for label, paths in files.items():
        if not isinstance(label, str) or not label.strip():
            raise ValueError(f"{split} has a class {label!r}; a class name must be a non-blank text")
        if label != label.strip():
            raise ValueError(f"{split} has a class {label!r}; remove the spaces around the name")
        if not paths:
            raise ValueError(f"{split} has no files for the class {label!r}")
        if label == "type":  # the result of overriding one class where a single file was given
            raise ValueError(f"{split} has a class 'type'; override all classes at once, {split}: {{one: file, another: file}}")


def _check_no_shared_file(split: str, files: Mapping[str, Any]) -> None:
    resolved = {label: {str(Path(file).resolve()) for file in list_files(paths)} for label, paths in files.items()}
    for one, other in itertools.combinations(files, 2):
        if shared := resolved[one] & resolved[other]:
            raise ValueError(f"{split} has {min(shared)} for the classes {one!r} and {other!r}; a file belongs to one class")
