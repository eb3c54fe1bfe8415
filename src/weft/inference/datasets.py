"""The data that a trained run is evaluated on: a split of its own data, or other files of the same format."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args, get_origin

from weft.core.contracts import Dataset
from weft.core.registry import base_of, name_of, option_parameters
from weft.data.text_files import class_and_file
from weft.training.build import plans
from weft.training.recipes import read_run
from weft.training.run_folder import RunFolder

if TYPE_CHECKING:
    from weft.inference.trained_run import TrainedRun


def open_dataset(trained: TrainedRun, split: str | None = None, files: Sequence[str | Path] = ()) -> tuple[str, Dataset]:
    """Open a split of the run's data, or other files of the same format. Returns the name of the split and the dataset.

    Args:
        trained: The run whose codec encodes the examples.
        split: Name of the split; None = test, or valid where there is no test.
        files: Other files; ``CLASS=FILE`` where each class has its own.
    """
    if files and split:
        raise ValueError(f"got both the split {split!r} and other files; pass one of them")
    if files:
        data = plans(trained.run)[-1].data
        data = functools.partial(data, test=_as_option(files, data))
        return "files", data().open(trained.codec, splits=("test",)).splits["test"]
    # read again with its files checked: the run's own data must still exist and be unchanged
    run = read_run(RunFolder(trained.folder).recipe) if trained.folder is not None else trained.run
    data = plans(run)[-1].data()
    wanted = (split,) if split else ("test", "valid")
    splits = data.open(trained.codec, splits=wanted).splits
    name = next((name for name in wanted if name in splits), None)
    if name is None:
        known = ", ".join(data.open(trained.codec).splits)
        raise ValueError(f"there is no split {' or '.join(map(repr, wanted))} in the data (splits: {known})")
    return name, splits[name]


def _as_option(files: Sequence[str | Path], data: Any) -> Any:
    """Return files in the form of the option ``test`` of a data source: one path, a list of paths, or a dict by class."""
    by_class: dict[str, list[str]] = {}
    paths: list[str] = []
    for file in files:
        if (named := class_and_file(str(file))) is not None:
            by_class.setdefault(named[0], []).append(str(Path(named[1]).absolute()))
        else:
            paths.append(str(Path(file).absolute()))
    if by_class and paths:
        raise ValueError(f"{paths[0]} has no class but other files have one; pass CLASS=FILE for all files or for none")
    if by_class and not any(get_origin(kind) is dict for kind in get_args(option_parameters(base_of(data))["test"].annotation)):
        raise ValueError(f"{files[0]}: {name_of(data)} does not take files by class; pass FILE alone")
    return by_class or (paths[0] if len(paths) == 1 else paths)
