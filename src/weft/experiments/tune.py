"""Fine-tune a pretrained model on files or in-memory data, with a recipe inferred from them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from weft.data.sources.python_data import data_files
from weft.experiments.scaffold import detect_data, fine_tuning_recipe
from weft.training.recipes import read_run_text

if TYPE_CHECKING:
    from weft.inference.trained_run import TrainedRun


def tune(
    model: str | Path,
    *data: Any,
    text: str | Sequence[str] = (),
    label: str | None = None,
    valid: Any = None,
    test: Any = None,
    lr: float | None = None,
    epochs: float | None = None,
    steps: int | None = None,
    batch_size: int | None = None,
    seed: int = 1,
    folder: str | Path | None = None,
    quiet: bool = False,
    device: str = "auto",
) -> TrainedRun:
    """Fine-tune a pretrained model: ``weft.tune("minilm", df, text="Review", label="Polarity").predict(["Well done."])``.

    The task is inferred from the data as ``weft new`` does; ``weft new FILE --from MODEL`` writes the same recipe.

    Args:
        model: Folder in the Hugging Face layout, name of a packaged model, or name of a model on a hub.
        data: Training data: files (train, dev and test are recognized in their names), or rows: a DataFrame of pandas or
            polars, a Dataset, a dict of columns, a list of dicts or of texts.
        text: Column of the texts, or the two columns of a pair; empty = detected.
        label: Column of the labels; None = detected.
        valid: Validation data, as ``data``; None = the files of ``data`` with such a name, or a part of the training data.
        test: Test data, as ``data``; None = the files of ``data`` with such a name.
        lr: Peak learning rate; None = 5e-5, for sequence-to-sequence models 3e-4.
        epochs: Passes over the training data; None = three, more on small data.
        steps: Optimizer steps, instead of ``epochs``.
        batch_size: Examples per batch; None = 16, or 2,000 tokens for tasks with long or generated texts.
        seed: Seed of all random number generators.
        folder: Run folder to write; None = the next free ``runs/tuned-<n>``.
        quiet: Whether to disable the progress display.
        device: Device to train on.
    """
    if not data:
        raise ValueError("no training data; pass files or rows: weft.tune(model, df, text=..., label=...)")
    if epochs is not None and steps is not None:
        raise ValueError(f"got both epochs ({epochs:g}) and steps ({steps}); pass one of them")
    for name, value in {"epochs": epochs, "steps": steps, "batch_size": batch_size, "lr": lr}.items():
        if value is not None and not value > 0:
            raise ValueError(f"{name} is {value}; it must be greater than 0")
    texts = (text,) if isinstance(text, str) else tuple(text)
    columns = (*texts, *([label] if label else [])) or ("text",)
    detected = detect_data([file for one in data for file in data_files(one, columns)], texts=texts, label=label)
    detected.splits |= {
        split: data_files(given, columns) for split, given in (("valid", valid), ("test", test)) if given is not None
    }
    choices = [f"device={device}", f"seed={seed}", *([f"learning.optimizer.lr={lr}"] if lr else [])]
    if epochs is not None:
        choices.append(f"learning.epochs={epochs}")
    if batch_size is not None:
        choices += [f"learning.batch_size={batch_size}", "learning.batch_tokens=null"]
    run = read_run_text(fine_tuning_recipe(detected, Path(), str(model), steps), "tuned.yaml", Path(), choices)
    run.name = "tuned"
    return run.train(folder, quiet=quiet)
