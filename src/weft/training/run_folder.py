"""The run folder: its files, and the lock that lets only one process write to it."""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import platform
import re
import secrets
import sys
import time
from pathlib import Path
from typing import Any

from weft import __version__
from weft.core import files
from weft.core.io import append_line, read_json, read_lines, repair_lines, truncate_lines, write_json, write_text
from weft.core.printable import printable_line
from weft.recipe import to_yaml
from weft.training.resources import sum_usage

FORMAT = 1
_INITIAL = re.compile(r"\.lock|\.?(recipe\.yaml|environment\.json|log\.jsonl)(\.tmp-\w+)?")
_CODEC = re.compile(r"\.?(fields(-.+)?|tokenizer-.+)\.json(\.tmp-\w+)?")
_TEMPORARY = re.compile(r"\..+\.tmp-[0-9a-f]{8}")


_HASH = "# SHA-256 of the options below: "


class FolderError(ValueError):
    """A run folder cannot be used. The message explains what to do."""


class RunFolder:
    """The files of a run.

    recipe.yaml (with every default), log.jsonl, checkpoints/ (until the run is finished) or finished.json, model.safetensors (the
    final weights), tokenizer-*.json and fields.json, metrics.json, predictions.jsonl, ledger.json, usage.json, environment.json,
    curve.png.

    Args:
        path: The folder; it need not exist.
    """

    def __init__(self, path: str | Path):
        self.path = Path(path)
        self._lock: Any = None
        self._existed = True
        self.created = False
        """Whether this object created the run."""

    recipe = property(lambda self: self.path / "recipe.yaml")
    log = property(lambda self: self.path / "log.jsonl")
    model = property(lambda self: self.path / "model.safetensors")
    metrics = property(lambda self: self.path / "metrics.json")
    ledger = property(lambda self: self.path / "ledger.json")
    environment = property(lambda self: self.path / "environment.json")
    curve = property(lambda self: self.path / "curve.png")
    origin = property(lambda self: self.path / "published.json")
    finished = property(lambda self: self.path / "finished.json")

    def checkpoints(self, stage: str, only: bool) -> Path:
        """Return the folder of a stage's checkpoints. ``only``: whether the run has a single stage."""
        return self.path / "checkpoints" if only else self.path / "checkpoints" / stage

    def stage_model(self, stage: str) -> Path:
        """Return the file of the final weights of a stage that is not the last."""
        return self.path / f"model-{stage}.safetensors"

    def is_finished(self) -> bool:
        """Return whether the run is finished and its checkpoints were removed, so that it cannot be continued."""
        return self.finished.is_file() and self.model.is_file() and not (self.path / "checkpoints").exists()

    def remove_checkpoints(self, progress: dict[str, Any], record: dict[str, Any]) -> int:
        """Remove the checkpoints of a finished run, all at once. Returns their size in bytes.

        Args:
            progress: Progress of each stage at its end, by name.
            record: What was trained, as in the checkpoints.
        """
        folder = self.path / "checkpoints"
        size = sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())
        write_json(self.finished, {"format": FORMAT, "progress": progress, "record": record})
        removed = self.path / f".checkpoints.tmp-{secrets.token_hex(4)}"  # at no moment a part of them is left under their name
        files.rename(folder, removed)
        files.sync_folder(self.path)
        files.remove_tree(removed)
        return size

    def read_finished(self) -> dict[str, Any]:
        """Return what ``remove_checkpoints`` has written; the values are empty if the file is missing or damaged."""
        try:
            found = read_json(self.finished)
            return {name: dict(found[name]) for name in ("progress", "record")}
        except (OSError, ValueError, KeyError, TypeError):  # the weights and metrics do not depend on it
            return {"progress": {}, "record": {}}

    def is_run(self) -> bool:
        """Return whether the folder contains a run. Raises FolderError if it contains links, which could lead anywhere."""
        if not self.recipe.is_file():
            return False
        self._protect()
        return True

    def _protect(self) -> None:
        try:
            files.protect(self.path)
        except files.LinkError as error:
            raise FolderError(f"{error}. Open only run folders that you trust") from None

    def is_incomplete(self) -> bool:
        """Return whether the process was killed while it created the folder: there is nothing to resume and nothing to lose."""
        return (self.path / ".lock").is_file() and not self.is_run() and all(map(_is_initial, self.path.iterdir()))

    # ---------------------------------------------------------------------------------------------------------- opening

    def create(self, recipe: dict[str, Any], plugins: list[str]) -> None:
        """Create the folder of a new run. Raises FolderError if it contains other files."""
        try:
            self._check_free()
            self._existed = self.path.exists()
            files.make_folder(self.path)
            self.lock()
            self._check_free()  # another process may have been faster
            self._clear()
            write_json(self.environment, _environment(plugins))
            append_line(self.log, {"event": "begun", "format": FORMAT, "weft": __version__})
            self.write_recipe(recipe)
            self.created = True
        except OSError as error:
            raise FolderError(f"cannot create the run folder {self.path}: {error.strerror} ({error.filename})") from None

    def _check_free(self) -> None:
        if self.path.exists() and not self.path.is_dir():
            raise FolderError(f"{self.path} is a file; use another folder with --run")
        if self.is_run():
            raise FolderError(f"{self.path} already contains a run; resume it with --resume, or use another folder with --run")
        if self.path.is_dir() and not self.is_incomplete() and any(self.path.iterdir()):
            raise FolderError(f"{self.path} is not empty and not a run folder; use another folder with --run")

    def _clear(self) -> None:
        files.remove(self.recipe)  # first: without it the folder counts as incomplete
        for path in filter(_is_initial, self.path.iterdir()):
            if path.is_dir():
                files.remove_tree(path)
            elif path.name != ".lock":
                files.remove(path)

    def remove_created(self) -> None:
        """Remove the files of a run that failed before training, so that the folder can be used again."""
        self._clear()
        files.remove(self.path / ".lock")
        if not self._existed:
            files.remove_empty(self.path)  # another process may have added a file

    def remove_if_created_by(self, command: str) -> None:
        """Remove the run if it was created by this command of weft, so that the command can start a new one."""
        if self.is_run() and self._environment_list("command")[1:2] == [command]:
            self.lock()
            files.remove_tree(self.path)
            self.close()

    def write_recipe(self, recipe: dict[str, Any]) -> None:
        """Write recipe.yaml, with the SHA-256 of the options in its head."""
        text = to_yaml(recipe)
        head = f"# weft {__version__}: all options of this run. Repeat it: weft train {printable_line(str(self.recipe))}\n"
        write_text(self.recipe, f"{head}{_HASH}{_sha256(text.encode())}\n{text}")

    def recipe_is_edited(self) -> bool:
        """Return whether recipe.yaml was changed by anyone but weft since it was written. Without its hash, this is unknown."""
        head, mark, rest = self.recipe.read_bytes().partition(_HASH.encode())
        written, _, text = rest.partition(b"\n")
        return bool(mark) and head.count(b"\n") <= 1 and written.strip().decode(errors="replace") != _sha256(text)

    def open(self) -> None:
        """Open an existing run to resume it."""
        if not self.path.is_dir():
            raise FolderError(f"there is no folder {self.path} to resume; leave out --resume to start a new run")
        if not self.is_run():
            raise FolderError(f"{self.path} is not a run folder (it has no recipe.yaml)")
        self.lock()
        repair_lines(self.log)
        for line, row in enumerate(self.read_log(), 1):
            position = [row.get("stage", 0), row.get("step", 0)] if isinstance(row, dict) else [None]
            if not all(isinstance(number, int) for number in position) or (row.get("event") == "train" and "step" not in row):
                raise FolderError(f"{self.log}:{line}: not a log entry of a run; remove the line to resume")
        for path in self.path.iterdir():
            if _TEMPORARY.fullmatch(path.name):  # a process was killed before it renamed a file, or in a removal
                (files.remove_tree if path.is_dir() else files.remove)(path)

    def lock(self) -> None:
        """Lock the folder, so that only one process trains into it. The lock is released when the process ends."""
        self._protect()
        try:
            stream = files.open_lock(self.path / ".lock")
            fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise FolderError(f"another process is training into {self.path}; wait for it, or use another folder") from None
        except OSError as error:
            raise FolderError(f"cannot write to {self.path}: {error.strerror}") from None
        self._lock = stream

    def close(self) -> None:
        """Release the lock."""
        if self._lock:
            self._lock.close()
            self._lock = None

    # -------------------------------------------------------------------------------------------------------------- log

    def write_log(self, row: dict[str, Any]) -> None:
        """Append an entry to log.jsonl."""
        append_line(self.log, {"event": "train", **row})

    def truncate_log(self, stage: int, step: int) -> None:
        """Remove the entries that a resumed run will write again. Events such as saved and resumed stay."""
        if self.log.exists():
            repeated = ("train", "valid", "skip")
            truncate_lines(
                self.log,
                lambda r: r.get("event") not in repeated or (r.get("stage", 0), r.get("step", 0)) <= (stage, step),
            )

    def write_predictions(self, predictions: dict[int, str], references: dict[int, dict[str, str]], source: str = "") -> None:
        """Write predictions.jsonl, or predictions-<source>.jsonl: the prediction for each example of the final evaluation, with
        the example."""
        if predictions:
            lines = [{"row": row, "prediction": text, "reference": references[row]} for row, text in sorted(predictions.items())]
            text = "".join(json.dumps(line, ensure_ascii=False) + "\n" for line in lines)
            write_text(self.path / (f"predictions-{source}.jsonl" if source else "predictions.jsonl"), text)

    def add_usage(self, session: dict[str, Any], stages: dict[str, Any]) -> dict[str, Any]:
        """Write usage.json: the usage of each session and stage, and of the full run, which is returned."""
        path = self.path / "usage.json"
        try:
            before = read_json(path)
            parts = {"stages": {**before["stages"], **stages}, "sessions": [*before["sessions"], session]}
            found = sum_usage(parts["sessions"], parts["stages"])
        except (OSError, ValueError, KeyError, TypeError):  # missing or damaged: earlier sessions are unknown
            parts = {"stages": stages, "sessions": [session]}
            found = sum_usage([session], stages)
        write_json(path, {"format": FORMAT, **found, **parts})
        return found

    def read_log(self) -> list[dict[str, Any]]:
        """Return the entries of log.jsonl."""
        return read_lines(self.log) if self.log.exists() else []

    def plugins(self) -> list[str]:
        """Return the plug-ins that the run was started with."""
        return self._environment_list("plugins")

    def _environment_list(self, key: str) -> list[str]:
        """Return a list in environment.json; empty if the file is damaged."""
        try:
            return [str(word) for word in read_json(self.environment)[key]]
        except (OSError, ValueError, KeyError, TypeError):  # the file is only informative
            return []


def _sha256(text: bytes) -> str:
    return hashlib.sha256(text).hexdigest()


def _is_initial(path: Path) -> bool:
    """Return whether a file is written before training, or a stage folder contains only such files."""
    if path.is_dir() and not path.is_symlink():
        within = list(path.iterdir())
        return bool(within) and all(inner.is_file() and _CODEC.fullmatch(inner.name) for inner in within)
    return bool(_INITIAL.fullmatch(path.name) or _CODEC.fullmatch(path.name)) and path.is_file()


def next_folder(recipe: str, parent: Path = Path("runs")) -> Path:
    """Return ``runs/<recipe>-<n>`` with the next free number."""
    return parent / f"{recipe}-{_latest_number(recipe, parent) + 1}"


def latest_folder(recipe: str, parent: Path = Path("runs")) -> Path:
    """Return the latest run of a recipe. Raises FolderError if there is none."""
    number = _latest_number(recipe, parent)
    if not number:
        raise FolderError(f"there is no run {parent / recipe}-<n> to resume; leave out --resume, or name the folder with --run")
    return parent / f"{recipe}-{number}"


def _latest_number(recipe: str, parent: Path) -> int:
    pattern = re.compile(re.escape(recipe) + r"-(\d+)")
    found = [int(m[1]) for p in parent.iterdir() if (m := pattern.fullmatch(p.name))] if parent.is_dir() else []
    return max(found, default=0)


def _environment(plugins: list[str]) -> dict[str, Any]:
    import numpy
    import torch

    return {
        "format": FORMAT,
        "weft": __version__,
        "python": platform.python_version(),
        "torch": str(torch.__version__),
        "numpy": numpy.__version__,
        "platform": platform.platform(),
        "processors": os.cpu_count(),
        "threads": torch.get_num_threads(),
        "plugins": plugins,
        "command": [Path(sys.argv[0]).name, *sys.argv[1:]],
        "started": time.strftime("%Y-%m-%dT%H:%M:%S%z"),
    }


def compare_recipes(old: Any, new: Any, path: str = "") -> dict[str, tuple[Any, Any]]:
    """Return the differences between two full recipes: path -> (old, new)."""
    if isinstance(old, dict) and isinstance(new, dict):
        found: dict[str, tuple[Any, Any]] = {}
        for name in [*old, *(k for k in new if k not in old)]:
            found |= compare_recipes(old.get(name), new.get(name), f"{path}.{name}" if path else name)
        return found
    if isinstance(old, list) and isinstance(new, list) and len(old) == len(new):
        return {
            k: v for i, (a, b) in enumerate(zip(old, new, strict=True)) for k, v in compare_recipes(a, b, f"{path}.{i}").items()
        }
    return {} if json.dumps(old) == json.dumps(new) else {path: (old, new)}
