"""What must be unchanged when a run is resumed, and which options may differ."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import Any

import torch

from weft.core.io import sha256
from weft.learning import Checkpoints, Progress, read_document
from weft.recipe import from_plain
from weft.training.build import StagePlan, plans, plans_with_data
from weft.training.display import Display
from weft.training.recipes import read_run
from weft.training.run import Run
from weft.training.run_folder import FolderError, RunFolder, compare_recipes
from weft.training.saving import RECORD, CheckpointPolicy

_MAY_CHANGE = re.compile(r"(stages\.\d+\.)?(learning\.(steps|epochs|log_every|sync(\..*)?)|evaluate(\..*)?)")
_LEARNING = re.compile(r"(?:stages\.(\d+)\.)?learning\.(steps|epochs|final|average)")
_LENGTH = ("steps", "epochs")
_FALLBACK = {"final": "last", "average": 0}


def update_recipe(folder: RunFolder, run: Run, filled: dict[str, Any]) -> None:
    """Write the options that changed since the run was started into its folder. Raises FolderError where one must not change.

    Args:
        folder: Folder of the run that is resumed.
        run: The run as it is now.
        filled: Its full recipe, with the hashes of its files.
    """
    stored = read_run(folder.recipe).dump(hashes=True)
    trained = _trained_recipe(folder, run, stored)
    if folder.recipe_is_edited():
        _refuse_edits(folder, trained, stored)
    differences = compare_recipes(trained or stored, filled)
    refused = [f"  {path}: {why}" for path, (old, new) in differences.items() if (why := _refusal(folder, run, path, old, new))]
    if refused:
        raise FolderError(
            f"{folder.path} was started with other options:\n"
            + "\n".join(refused)
            + "\nWith --resume, only steps or epochs (to a larger number), logging, sync and "
            "evaluation may change. For anything else start a new run (without --resume)"
        )
    changed = compare_recipes(stored, filled)
    if changed or folder.recipe_is_edited():
        folder.write_recipe(filled)
    if changed:
        folder.write_log({"event": "changed", "choices": {path: new for path, (_, new) in changed.items()}})


def _refuse_edits(folder: RunFolder, trained: dict[str, Any] | None, stored: dict[str, Any]) -> None:
    """Raise FolderError where recipe.yaml was edited, with its options in place of those that were trained."""
    found = compare_recipes(trained, stored) if trained is not None else {}
    if trained is not None and not found:
        return  # only comments or the layout
    listed = [f"  {path}: trained with {old!r}, recipe.yaml has {new!r}" for path, (old, new) in found.items()]
    raise FolderError(
        "\n".join(
            [f"{folder.recipe} was edited after training had started:" if listed else f"{folder.recipe} was edited", *listed]
        )
        + "\nUndo the edit. Options that may change on --resume are assigned on the command line: "
        f"weft train {folder.path} --resume learning.steps=...; for others start a new run"
    )


def _refusal(folder: RunFolder, run: Run, path: str, old: Any, new: Any) -> str | None:
    """Return why an option must not change; None where it may."""
    match = _LEARNING.fullmatch(path)
    if match is None:
        return None if _MAY_CHANGE.fullmatch(path) else f"was {old!r}, now {new!r}"
    stages = plans(run)
    stage = stages[int(match[1]) + 1 if match[1] else 0]
    if match[2] in _LENGTH and (old is None or new is None):
        return f"was {old}, now {new}; a run that was started with one of steps and epochs keeps it"
    if match[2] in _LENGTH and new < old:
        return f"was {old}, now {new}; it can only be raised"
    if stage is not stages[-1] and folder.stage_model(stage.name).exists():
        return f"was {old}, now {new}; the stage {stage.name} is finished, and later stages start from its weights"
    if match[2] in _LENGTH and folder.is_finished():
        again = shlex.join(["weft", "train", str(folder.path), "--run", "DIR", "--keep", f"{path}={new}"])
        return f"was {old}, now {new}; the run is finished and its checkpoints were removed. Train again from the start: {again}"
    if match[2] not in _LENGTH and (new != _FALLBACK[match[2]] or _can_finish(folder, run, stage, {match[2]: old})):
        return f"was {old!r}, now {new!r}; it can change to {_FALLBACK[match[2]]} only where those checkpoints are damaged"
    return None


def _can_finish(folder: RunFolder, run: Run, stage: StagePlan, options: dict[str, Any]) -> bool:
    """Return whether the checkpoints that the final weights are made of are intact, with other options of learning."""
    learning = stage.learning()
    for name, value in options.items():
        setattr(learning, name, value)
    path = folder.checkpoints(stage.name, not run.stages)
    latest = Checkpoints(path).latest().path
    if latest is None:
        return True
    try:
        progress = Progress(**read_document(latest, "state.json")["progress"])
        CheckpointPolicy(folder, path, learning, stage.index, Display()).chosen_weights(progress)
    except FolderError:
        return False
    return True


# ----------------------------------------------------------------------------------------------------------------- record


def make_record(folder: RunFolder, run: Run, filled: dict[str, Any], processes: int) -> dict[str, Any]:
    """Return what is trained, to be saved with every checkpoint: the full recipe, the hashes of vocabularies and labels, and the
    number of processes and of the threads of each, on which the last bits of the weights depend."""
    return {
        "recipe": filled,
        "files": codec_hashes(folder, run),
        "processes": processes,
        "threads": torch.get_num_threads(),
    }


def recorded_threads(folder: RunFolder, run: Run, processes: int) -> int | None:
    """Return the number of threads the run was trained with so far, by the same number of processes; None where it is unknown."""
    record = _read_record(folder, run)
    threads = record.get("threads")
    return threads if isinstance(threads, int) and record.get("processes") == processes else None


def codec_hashes(folder: RunFolder, run: Run) -> dict[str, str]:
    """Return the SHA-256 of fields.json and tokenizers of all stages, by path in the run folder."""
    found: list[Path] = []
    for plan in plans_with_data(plans(run)):
        home = plan.codec_folder(folder.path)
        found += [
            file for file in sorted(home.glob("*.json")) if re.fullmatch(r"fields(-.+)?\.json|tokenizer-.+\.json", file.name)
        ]
    return {str(file.relative_to(folder.path)): sha256(file) for file in found}


def check_codec(folder: RunFolder, run: Run) -> None:
    """Raise FolderError where fields.json or a tokenizer is not the one that the run was trained with."""
    record = _read_record(folder, run)
    now = codec_hashes(folder, run)
    for name, wanted in record.get("files", {}).items():
        if now.get(name, wanted) != wanted:
            raise FolderError(
                f"{folder.path / name} is damaged or was changed since training started: its SHA-256 is {now[name][:12]}..., "
                f"not {wanted[:12]}...; restore it from a copy, or remove fields.json and tokenizer-*.json there: they are made "
                "again from the data"
            )


def _read_record(folder: RunFolder, run: Run) -> dict[str, Any]:
    """Return the record of the latest checkpoint where it is intact, or of the finished run; empty if there is none."""
    for plan in reversed(plans(run)):
        for path in Checkpoints(folder.checkpoints(plan.name, not run.stages)).paths():
            try:
                return read_document(path, RECORD)
            except (OSError, ValueError, KeyError, TypeError, AttributeError):  # damaged: reported by whoever resumes from it
                continue
    return folder.read_finished()["record"]


def _trained_recipe(folder: RunFolder, run: Run, stored: dict[str, Any]) -> dict[str, Any] | None:
    """Return the recipe that was trained so far, with defaults for options that it did not have yet; None before a checkpoint."""
    recipe = _read_record(folder, run).get("recipe")
    if recipe is None or recipe == stored:
        return recipe
    return Run.from_tree(from_plain(recipe, "")).dump(hashes=True)
