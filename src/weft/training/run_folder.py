"""A run's folder: what is in it, and who may write to it."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import platform
import re
import shutil
import sys
import time
from pathlib import Path
from typing import Any

from weft import __version__
from weft.core.io import append_line, read_json, read_lines, repair_lines, truncate_lines, write_json, write_text
from weft.recipe import to_yaml
from weft.training.resources import total

FORMAT = 1
_BEGINNING = re.compile(r"\.lock|\.?(recipe\.yaml|environment\.json|log\.jsonl)(\.tmp-\w+)?")
_MEASURED = re.compile(r"(fields|tokenizer-.+)\.json(\.new)?")
_TORN = re.compile(r"\..+\.tmp-[0-9a-f]{8}")


class FolderError(ValueError):
    """A run's folder cannot be used as asked. The message says what to do."""


class RunFolder:
    """The files of a run, readable by a person and a script.

    recipe.yaml (every default written), log.jsonl, checkpoints/, model.safetensors (the final weights), tokenizer-*.json and
    fields.json, metrics.json, predictions.jsonl, ledger.json, usage.json, environment.json, curve.png.
    """

    def __init__(self, path: str | Path):
        self.path = Path(path)
        self._lock: Any = None
        self._was_there = True
        self.created = False
        """Whether this object made the folder."""

    recipe = property(lambda self: self.path / "recipe.yaml")
    log = property(lambda self: self.path / "log.jsonl")
    model = property(lambda self: self.path / "model.safetensors")
    metrics = property(lambda self: self.path / "metrics.json")
    ledger = property(lambda self: self.path / "ledger.json")
    environment = property(lambda self: self.path / "environment.json")
    curve = property(lambda self: self.path / "curve.png")
    origin = property(lambda self: self.path / "published.json")

    def checkpoints(self, stage: str, only: bool) -> Path:
        return self.path / "checkpoints" if only else self.path / "checkpoints" / stage

    def stage_model(self, stage: str) -> Path:
        """The final weights of a stage that others follow."""
        return self.path / f"model-{stage}.safetensors"

    def is_run(self) -> bool:
        return self.recipe.is_file()

    def is_stub(self) -> bool:
        """Whether the making of the folder was cut short: nothing to go on from, and nothing to lose."""
        return (self.path / ".lock").is_file() and not self.is_run() and all(map(_is_beginning, self.path.iterdir()))

    # ---------------------------------------------------------------------------------------------------------- opening

    def create(self, recipe: dict[str, Any], plugins: list[str]) -> None:
        """Make the folder for a new run. Raises FolderError if there is anything in it already."""
        try:
            self._check_free()
            self._was_there = self.path.exists()
            self.path.mkdir(parents=True, exist_ok=True)
            self.lock()
            self._check_free()  # another process may have been faster
            self._clear()
            write_json(self.environment, _environment(plugins))
            append_line(self.log, {"event": "begun", "format": FORMAT, "weft": __version__})
            self.write_recipe(recipe)
            self.created = True
        except OSError as error:
            raise FolderError(f"cannot make the run's folder {self.path}: {error.strerror} ({error.filename})") from None

    def _check_free(self) -> None:
        if self.path.exists() and not self.path.is_dir():
            raise FolderError(f"{self.path} is a file: choose another folder with --run")
        if self.is_run():
            raise FolderError(f"{self.path} already holds a run: go on with it by --resume, or choose another folder with --run")
        if self.path.is_dir() and not self.is_stub() and any(self.path.iterdir()):
            raise FolderError(f"{self.path} is not empty and not a run's folder: choose another one with --run")

    def _clear(self) -> None:
        self.recipe.unlink(missing_ok=True)  # first: without it the rest is a stub
        for path in filter(_is_beginning, self.path.iterdir()):
            if path.is_dir():
                shutil.rmtree(path)
            elif path.name != ".lock":
                path.unlink()

    def remove_created(self) -> None:
        """Remove what was made for a run that never began: the mistake can be mended and the same folder used."""
        self._clear()
        (self.path / ".lock").unlink(missing_ok=True)
        if not self._was_there:
            with contextlib.suppress(OSError):  # somebody put a file there
                self.path.rmdir()

    def discard_if_made_by(self, command: str) -> None:
        """Remove a whole run that this command of weft made earlier, so that it can start afresh. Others stay."""
        if self.is_run() and self._about("command")[1:2] == [command]:
            self.lock()
            shutil.rmtree(self.path)
            self.close()

    def write_recipe(self, recipe: dict[str, Any]) -> None:
        head = f"# weft {__version__}: every choice of this run. Repeat it: weft train {self.recipe}\n"
        write_text(self.recipe, head + to_yaml(recipe))

    def open(self) -> None:
        """Take an existing run, to go on with it."""
        if not self.path.is_dir():
            raise FolderError(f"there is no folder {self.path} to go on with: leave out --resume to begin")
        if not self.is_run():
            raise FolderError(f"{self.path} is not a run's folder (it has no recipe.yaml)")
        self.lock()
        repair_lines(self.log)
        for number, row in enumerate(self.read_log(), 1):
            places = [row.get("stage", 0), row.get("round", 0)] if isinstance(row, dict) else [None]
            if not all(isinstance(place, int) for place in places) or (row.get("event") == "update" and "round" not in row):
                raise FolderError(f"{self.log}:{number}: not a line of a run's log; remove it to go on")
        for path in self.path.iterdir():
            if _TORN.fullmatch(path.name):  # a process was killed before it could rename what it had written
                path.unlink()

    def lock(self) -> None:
        """Only one process trains into a folder. The lock ends with the process, however it ends."""
        try:
            stream = (self.path / ".lock").open("a")
            fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise FolderError(f"another process is training into {self.path}: wait for it, or choose another folder") from None
        except OSError as error:
            raise FolderError(f"cannot write to {self.path}: {error.strerror}") from None
        self._lock = stream

    def close(self) -> None:
        if self._lock:
            self._lock.close()
            self._lock = None

    # -------------------------------------------------------------------------------------------------------------- log

    def write_log(self, row: dict[str, Any]) -> None:
        append_line(self.log, {"event": "update", **row})

    def truncate_log(self, stage: int, round_: int) -> None:
        """Take out of the log what a resumed run will do again. Events of saving and resuming stay: they happened."""
        if self.log.exists():
            redone = ("update", "valid", "skip")
            truncate_lines(
                self.log,
                lambda r: r.get("event") not in redone or (r.get("stage", 0), r.get("round", 0)) <= (stage, round_),
            )

    def write_predictions(self, predictions: dict[int, str], references: dict[int, dict[str, str]]) -> None:
        """predictions.jsonl: what was predicted for each row of the last evaluation, beside the row."""
        if predictions:
            lines = [{"row": row, "prediction": text, "reference": references[row]} for row, text in sorted(predictions.items())]
            write_text(self.path / "predictions.jsonl", "".join(json.dumps(line, ensure_ascii=False) + "\n" for line in lines))

    def add_usage(self, session: dict[str, Any], stages: dict[str, Any]) -> dict[str, Any]:
        """usage.json: what each session of the run cost, what went into each stage, and all together, which is returned."""
        path = self.path / "usage.json"
        try:
            before = read_json(path)
            whole = {"stages": {**before["stages"], **stages}, "sessions": [*before["sessions"], session]}
            found = total(whole["sessions"], whole["stages"])
        except (OSError, ValueError, KeyError, TypeError):  # not there yet; or damaged, and then nobody knows what was before
            whole = {"stages": stages, "sessions": [session]}
            found = total([session], stages)
        write_json(path, {"format": FORMAT, **found, **whole})
        return found

    def read_log(self) -> list[dict[str, Any]]:
        return read_lines(self.log) if self.log.exists() else []

    def plugins(self) -> list[str]:
        return self._about("plugins")

    def _about(self, what: str) -> list[str]:
        """A list of words in environment.json."""
        try:
            return [str(word) for word in read_json(self.environment)[what]]
        except (OSError, ValueError, KeyError, TypeError):  # it only helps to explain: a damaged one explains nothing
            return []


def _is_beginning(path: Path) -> bool:
    """A file that a run begins with, or the folder of a stage that has only such files."""
    if path.is_dir() and not path.is_symlink():
        within = list(path.iterdir())
        return bool(within) and all(inner.is_file() and _MEASURED.fullmatch(inner.name) for inner in within)
    return bool(_BEGINNING.fullmatch(path.name) or _MEASURED.fullmatch(path.name)) and path.is_file()


def next_folder(recipe: str, parent: Path = Path("runs")) -> Path:
    """``runs/<recipe>-<n>`` with the next free number."""
    return parent / f"{recipe}-{_newest_number(recipe, parent) + 1}"


def newest_folder(recipe: str, parent: Path = Path("runs")) -> Path:
    """The run of that recipe begun last. Raises FolderError if there is none."""
    number = _newest_number(recipe, parent)
    if not number:
        raise FolderError(
            f"there is no run {parent / recipe}-<n> to go on with: leave out --resume, or name the folder with --run"
        )
    return parent / f"{recipe}-{number}"


def _newest_number(recipe: str, parent: Path) -> int:
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
    """What differs between two filled recipes: path -> (old, new)."""
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
