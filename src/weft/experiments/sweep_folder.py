"""The folder of a sweep: which sweep it belongs to, in ``sweep.json``."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from weft.core.files import make_folder
from weft.core.io import append_line, read_json, read_lines, repair_lines, write_json
from weft.experiments.sweep_search import Configuration
from weft.training.run_folder import FolderError, RunFolder, compare_recipes

FORMAT = 1
_FILE = "sweep.json"
_CONFIGURATIONS = "configurations.jsonl"
_CHOOSE = "choose another folder with --run"


def holds_sweep(folder: RunFolder, values: Mapping[str, list[str]], recipe: dict[str, Any]) -> bool:
    """Return whether the folder holds this sweep already.

    Args:
        folder: The folder of the sweep.
        values: YAML values by path.
        recipe: The filled recipe of the first trial.

    Raises FolderError if the folder holds something else.
    """
    path, file = folder.path, folder.path / _FILE
    if path.exists() and not path.is_dir():
        raise FolderError(f"{path} is a file; {_CHOOSE}")
    if folder.is_run():
        raise FolderError(f"{path} holds a single run; {_CHOOSE}")
    if not file.is_file():
        if path.is_dir() and any(p.name != ".lock" for p in path.iterdir()):
            raise FolderError(f"{path} is not empty and holds no sweep; {_CHOOSE}")
        return False
    stored = read_json(file)
    if not isinstance(stored, dict) or stored.get("format") != FORMAT or not {"assignments", "recipe"} <= set(stored):
        raise FolderError(f"{file} is not a sweep file that this version of weft supports (format {FORMAT}); {_CHOOSE}")
    differences = _assignment_differences(dict(stored["assignments"]), values)
    if not differences:  # with other assignments the recipe of the first trial differs anyway
        differences = [f"{p}: was {a!r}, now {b!r}" for p, (a, b) in compare_recipes(stored["recipe"], recipe).items()]
    if differences:
        lines = "".join(f"\n  {line}" for line in differences)
        raise FolderError(f"{path} holds another sweep:{lines}\n{_CHOOSE}")
    return True


def read_configurations(folder: Path) -> list[Configuration]:
    """Return the configurations that a search with Optuna has proposed, in order."""
    file = folder / _CONFIGURATIONS
    found = read_lines(file)
    for number, line in enumerate(found, 1):
        if not isinstance(line, dict) or not all(isinstance(text, str) for text in line.values()):
            raise FolderError(f"{file}:{number}: is not a configuration of options; {_CHOOSE}")
    return found


def add_configuration(folder: Path, configuration: Configuration) -> None:
    """Record a proposed configuration before it is trained."""
    repair_lines(folder / _CONFIGURATIONS)
    append_line(folder / _CONFIGURATIONS, configuration, sync=True)


def lock_sweep(folder: RunFolder, values: Mapping[str, list[str]], recipe: dict[str, Any]) -> None:
    """Create the folder of a sweep and lock it against other processes; the arguments are those of ``holds_sweep``."""
    try:
        make_folder(folder.path)
    except OSError as error:
        raise FolderError(f"cannot create the folder of the sweep, {folder.path}: {error.strerror}") from None
    folder.lock()
    if not holds_sweep(folder, values, recipe):  # again: another process may have created it in the meantime
        content = {"format": FORMAT, "assignments": [[path, texts] for path, texts in values.items()], "recipe": recipe}
        write_json(folder.path / _FILE, content)


def _assignment_differences(stored: Mapping[str, list[str]], values: Mapping[str, list[str]]) -> list[str]:
    found = [
        f"{path}: was {','.join(stored.get(path, [])) or 'not given'}, now {','.join(values.get(path, [])) or 'not given'}"
        for path in dict.fromkeys([*stored, *values])
        if stored.get(path) != values.get(path)
    ]
    if not found and list(stored) != list(values):
        return [f"the order was {', '.join(stored)}, now {', '.join(values)}"]
    return found
