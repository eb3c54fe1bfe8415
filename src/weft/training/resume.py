"""Which options may differ when a run is resumed."""

from __future__ import annotations

import re
from typing import Any

from weft.training.build import plans
from weft.training.recipes import read_run
from weft.training.run import Run
from weft.training.run_folder import FolderError, RunFolder, compare_recipes

_MAY_CHANGE = re.compile(r"(stages\.\d+\.)?(learning\.(steps|log_every|sync(\..*)?)|evaluate(\..*)?)")
_STEPS = re.compile(r"(?:stages\.(\d+)\.)?learning\.steps")


def update_recipe(folder: RunFolder, run: Run, filled: dict[str, Any]) -> None:
    """Write the options that changed since the run was started into its folder. Raises FolderError where one must not change.

    Args:
        folder: Folder of the run that is resumed.
        run: The run as it is now.
        filled: Its full recipe, with the hashes of its files.
    """
    differences = compare_recipes(read_run(folder.recipe).dump(hashes=True), filled)
    refused = [f"  {path}: {why}" for path, (old, new) in differences.items() if (why := _refusal(folder, run, path, old, new))]
    if refused:
        raise FolderError(
            f"{folder.path} was started with other options:\n"
            + "\n".join(refused)
            + "\nWith --resume, only steps (to a larger number), logging, sync and "
            "evaluation may change. For anything else start a new run (without --resume)"
        )
    if differences:
        folder.write_recipe(filled)
        folder.write_log({"event": "changed", "choices": {path: new for path, (_, new) in differences.items()}})


def _refusal(folder: RunFolder, run: Run, path: str, old: Any, new: Any) -> str | None:
    """Return why an option must not change; None where it may."""
    if not _MAY_CHANGE.fullmatch(path):
        return f"was {old!r}, now {new!r}"
    steps = _STEPS.fullmatch(path)
    if steps is None:
        return None
    stages = plans(run)
    stage = stages[int(steps[1]) + 1 if steps[1] else 0]
    if new < old:
        return f"was {old}, now {new}; it can only be raised"
    if stage is not stages[-1] and folder.stage_model(stage.name).exists():
        return f"was {old}, now {new}; the stage {stage.name} is finished, and later stages start from its weights"
    return None
