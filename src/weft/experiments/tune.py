"""Fine-tune a pretrained model on files, with a recipe inferred from them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from weft.experiments.scaffold import detect_data, fine_tuning_recipe
from weft.training.recipes import read_run_text

if TYPE_CHECKING:
    from weft.inference.trained_run import TrainedRun


def tune(
    name: str | Path,
    *files: str | Path,
    steps: int | None = None,
    folder: str | Path | None = None,
    quiet: bool = False,
    device: str = "auto",
) -> TrainedRun:
    """Fine-tune a pretrained model: ``weft.tune("minilm", "train.tsv").predict(["Well done."])``.

    The task is inferred from the files as ``weft new`` does; ``weft new FILE --from MODEL`` writes the same recipe.

    Args:
        name: Folder in the Hugging Face layout, name of a packaged model, or name of a model on a hub.
        files: Data files; train, dev and test are recognized in their names.
        steps: Optimizer steps; None = about three epochs.
        folder: Run folder to write; None = the next free ``runs/tuned-<n>``.
        quiet: Whether to disable the progress display.
        device: Device to train on.
    """
    text = fine_tuning_recipe(detect_data([str(file) for file in files]), Path(), str(name), steps)
    run = read_run_text(text, "tuned.yaml", Path(), [f"device={device}"])
    run.name = "tuned"
    return run.train(folder, quiet=quiet)
