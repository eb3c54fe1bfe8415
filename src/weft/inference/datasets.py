"""The data that a trained run is evaluated on: a split of its own data, or other files of the same format."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, get_args, get_origin

from weft.core.contracts import Corpus, Dataset
from weft.core.registry import base_of, name_of, option_parameters, option_values
from weft.data.ledger import LEFT_OUT
from weft.data.requests import ReadsInputs, has_data_format
from weft.data.sources.detect_encoding import detect_encoding
from weft.data.sources.sentence_pairs import SentencePairs
from weft.data.sources.text_source import MissingSplitError
from weft.data.text_files import class_and_file
from weft.training.build import plans
from weft.training.recipes import read_run
from weft.training.run_folder import RunFolder
from weft.training.sources import factories, main_source, parts

if TYPE_CHECKING:
    from weft.inference.trained_run import TrainedRun
    from weft.training.run import Run


class OpenedSplit(NamedTuple):
    """A split: its name, its examples, and the counts of what happened to its rows."""

    name: str
    dataset: Dataset
    counts: Mapping[str, Any]

    def left_out(self) -> str:
        """Return a sentence about the rows that are not in the dataset, and why; empty if all are."""
        reasons = {name: int(self.counts.get(name, 0)) for name in LEFT_OUT}
        found = [f"{count:,} {name}" for name, count in reasons.items() if count]
        if not found:
            return ""
        # rows of another split, which shares the files, are not missing
        elsewhere = sum(int(self.counts.get(name, 0)) for name in ("rows held out for validation", "rows left to training"))
        read = int(self.counts["rows read"]) - elsewhere
        return f"{sum(reasons.values()):,} of {read:,} rows were left out of {self.name}: {', '.join(found)}"


def input_source(trained: TrainedRun, file: str | Path, forced: bool = False) -> ReadsInputs | None:
    """Return the data source of a run where it reads a file for prediction; None where the file has one text per line.

    Args:
        trained: The run.
        file: The file.
        forced: Whether the file is in the format of the data whatever it looks like.
    """
    factory = data_factory(trained)
    source = functools.partial(factory, **_own_encoding(factory, [file]))()
    if not isinstance(source, ReadsInputs):
        if forced:
            raise ValueError(f"{name_of(type(source))} reads no files; give one text per line")
        return None
    if trained.pair_format is not None and not source.recognizes(str(file)):  # published for texts or for pairs
        pairs = SentencePairs(train=str(file))
        source = pairs if pairs.recognizes(str(file)) else source
    return source if forced or has_data_format(source, file) else None


def open_split(trained: TrainedRun, split: str | None = None, files: Sequence[str | Path] = ()) -> OpenedSplit:
    """Open a split of the run's data, or other files of the same format.

    Args:
        trained: The run whose codec encodes the examples.
        split: Name of the split; None = test, or valid where there is no test.
        files: Other files; ``CLASS=FILE`` where each class has its own.
    """
    if files and split:
        raise ValueError(f"got both the split {split!r} and other files; pass one of them")
    if files:
        data = _with_test(data_factory(trained), files)
        corpus = data().open(trained.codec, splits=("test",))
        return OpenedSplit("files", corpus.splits["test"], _counts(corpus, "test"))
    # read again with its files checked: the run's own data must still exist and be unchanged
    run = read_run(RunFolder(trained.folder).recipe) if trained.folder is not None else trained.run
    data = data_factory(trained, run)()
    wanted = (split,) if split else ("test", "valid")
    corpus = data.open(trained.codec, splits=wanted)
    name = next((name for name in wanted if name in corpus.splits), None)
    if name is None:
        known = ", ".join(data.open(trained.codec).splits)
        raise MissingSplitError(f"there is no split {' or '.join(map(repr, wanted))} in the data (splits: {known})")
    return OpenedSplit(name, corpus.splits[name], _counts(corpus, name))


def data_factory(trained: TrainedRun, run: Run | None = None) -> Any:
    """Return the factory of the data that a run predicts: of its source, or of the source of a mixture.

    Args:
        trained: The run.
        run: Its specification, read again; None = as it is.
    """
    plan = plans(run or trained.run)[-1]
    if not trained.part:
        return factories(plan.data)[main_source(plan)]
    part = parts(plan)[trained.part]
    factory = factories(plan.data)[part.source]
    return option_values(factory)["of"][part.member] if part.member else factory


def _with_test(data: Any, files: Sequence[str | Path]) -> Any:
    """Return the factory of a source with other test files; of a source that wraps another, the other one gets them."""
    known = option_parameters(base_of(data))
    if "test" in known:
        return functools.partial(data, test=_as_option(files, data), **_own_encoding(data, files))
    inner = option_values(data).get("of")
    if isinstance(inner, Mapping):
        raise ValueError(
            f"the data mixes several sources ({', '.join(inner)}); name the one that {files[0]} belongs to (--source)"
        )
    if base_of(inner) is None:
        raise ValueError(f"{name_of(data)} reads no files, so it cannot be evaluated on {files[0]}")
    return functools.partial(data, of=_with_test(inner, files))


def _own_encoding(data: Any, files: Sequence[str | Path]) -> dict[str, str]:
    """The option ``encoding`` for files in another one than the run's data: in UTF-8, or with a byte-order mark of UTF-16."""
    if "encoding" not in option_parameters(base_of(data)):
        return {}
    named = (class_and_file(str(file)) for file in files)
    paths = [Path(found[1] if found else file) for file, found in zip(files, named, strict=True)]
    try:
        own = {detect_encoding(str(path)) for path in paths if path.is_file()} - {"ascii"}
    except ValueError:  # no text: the source gives the reason
        return {}
    return {"encoding": own.pop()} if len(own) == 1 and next(iter(own)).startswith("utf-") else {}


def _counts(corpus: Corpus, split: str) -> Mapping[str, Any]:
    counts = corpus.ledger.get(split)
    return counts if isinstance(counts, Mapping) else {}


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
