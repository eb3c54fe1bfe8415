"""Input texts of the latent-space commands."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

from weft.data.text_files import TextWithLabel, class_and_file, read_labeled_texts, read_texts
from weft.evaluate.subsample import subsample
from weft.inference.trained_run import TrainedRun

SPLITS = ("train", "valid", "test")


def load_texts(run: TrainedRun, inputs: Sequence[str], max_texts: int) -> list[TextWithLabel]:
    """Load texts, with their labels if known, and subsample them evenly.

    Args:
        run: A trained run.
        inputs: A file, a split of the run's data (train, valid, test), or several CLASS=FILE.
        max_texts: Maximum number of texts.
    """
    first = inputs[0]
    if len(inputs) > 1 and (split := next((one for one in inputs if one in SPLITS and not Path(one).is_file()), None)):
        raise ValueError(f"{split} is a split of the run's data and cannot be combined with files; give the split, or files")
    if len(inputs) > 1 or class_and_file(first) is not None:
        return subsample(read_labeled_texts(inputs), max_texts)
    if Path(first).is_file():
        return subsample(read_texts(first), max_texts)
    if first not in SPLITS:
        raise ValueError(f"{first}: file not found; give a file, or a split: {', '.join(SPLITS)}")
    dataset = run.dataset(first)[1]
    raw = (dataset.raw(row) for row in subsample(range(len(dataset)), max_texts))
    return [TextWithLabel(row["source"], row.get("label")) for row in raw]


def text_list(texts: Iterable[str]) -> list[str]:
    """Return the texts as a list. Raises ValueError for a single string."""
    if isinstance(texts, str):
        raise ValueError(f"texts must be a list of strings, not a string; give [{texts[:40]!r}]")
    return list(texts)
