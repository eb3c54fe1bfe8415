"""Faults of the disk: an OSError at every file operation of a save, a log entry, the cache, the final files, and a conversion.

``python -m benchmarks.faults [--target save] [--every 1] [--json FILE]``

The n-th operation (open for writing, write, fsync, rename, mkdir, unlink) fails with ENOSPC, EDQUOT, EIO or EROFS, for every n. A
full disk stays full and a read-only one read-only until the process ends; EIO happens once. The command must end with an error
message, or succeed. Then it is repeated without the fault: it must end with the bits of a run that met none, and leave nothing
half-written.
"""

from __future__ import annotations

import argparse
import contextlib
import errno
import itertools
import os
import shutil
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from io import FileIO
from pathlib import Path
from typing import Any

import safetensors.torch

import weft.training.trainer
from benchmarks.small_runs import SmallRun, result_of, without_pictures
from weft.core import files
from weft.core.io import read_json, read_lines, write_json
from weft.data import prepared
from weft.data.sources import text_source
from weft.inference.convert import to_published
from weft.learning import Checkpoints, read_weights
from weft.training.run_folder import RunFolder
from weft.training.trainer import Trainer

CODES = (errno.ENOSPC, errno.EDQUOT, errno.EIO, errno.EROFS)
_WRITES = ("open", "write", "fsync", "mkdir")


class Disk:
    """Counts file operations while it is watched, and lets one of them fail.

    Args:
        at: Number of the operation that fails, from 1; 0 = none.
        code: Its errno.
    """

    def __init__(self, at: int = 0, code: int = errno.EIO):
        self.at, self.code, self.seen, self.watched, self.struck = at, code, 0, False, False

    def operation(self, kind: str) -> None:
        """Count an operation; raise OSError where it fails."""
        if not self.watched and not self.struck:
            return
        self.seen += self.watched
        fails = self.watched and self.seen == self.at
        if self.struck:  # what is broken stays broken
            fails = self.code == errno.EROFS or (self.code != errno.EIO and kind in _WRITES)
        if fails:
            self.struck = True
            raise OSError(self.code, os.strerror(self.code))

    @contextlib.contextmanager
    def attached(self) -> Iterator[None]:
        """Patch every function that changes files, within the context."""
        patches: list[tuple[Any, str, Any]] = []

        def patch(owner: Any, name: str, kind: str) -> None:
            real = getattr(owner, name)

            def checked(*args: Any, **keywords: Any) -> Any:
                if kind != "open" or (len(args) > 1 and isinstance(args[1], int) and args[1] & os.O_CREAT):
                    self.operation(kind)
                return real(*args, **keywords)

            patches.append((owner, name, real))
            setattr(owner, name, checked)

        for name, kind in (("open", "open"), ("fsync", "fsync"), ("mkdir", "mkdir"), ("unlink", "unlink"), ("rmdir", "unlink")):
            patch(os, name, kind)
        for name in ("rename", "replace"):
            patch(os, name, "rename")
        disk = self

        class HalfWritten(FileIO):
            """A file of which a failing write has written half."""

            def write(self, data: Any, /) -> int:
                try:
                    disk.operation("write")
                except OSError:
                    super().write(memoryview(data)[: len(data) // 2])
                    raise
                return super().write(data)

        for owner, name, new in (
            (files, "FileIO", HalfWritten),
            (safetensors.torch, "save_file", self._half_saved(safetensors.torch.save_file)),
            (prepared._AppendFile, "write", self._checked(prepared._AppendFile.write)),
        ):
            patches.append((owner, name, getattr(owner, name)))
            setattr(owner, name, new)
        try:
            yield
        finally:
            for owner, name, real in reversed(patches):
                setattr(owner, name, real)

    def _checked(self, real: Callable[..., Any]) -> Callable[..., Any]:
        def checked(*args: Any, **keywords: Any) -> Any:
            self.operation("write")
            return real(*args, **keywords)

        return checked

    def _half_saved(self, real: Callable[..., Any]) -> Callable[..., Any]:
        def save(tensors: Any, path: Any, *args: Any, **keywords: Any) -> None:
            real(tensors, path, *args, **keywords)
            try:
                self.operation("write")
            except OSError:
                os.truncate(path, Path(path).stat().st_size // 2)
                raise

        return save

    @contextlib.contextmanager
    def watching(self, owner: Any, name: str, turn: int) -> Iterator[None]:
        """Watch the operations within a call of a function: the ``turn``-th; 0 = each."""
        real, calls = getattr(owner, name), itertools.count(1)

        def watched(*args: Any, **keywords: Any) -> Any:
            self.watched = turn in (0, next(calls))
            try:
                return real(*args, **keywords)
            finally:
                self.watched = False

        setattr(owner, name, watched)
        try:
            with self.attached():
                yield
        finally:
            setattr(owner, name, real)


class Target:
    """What is broken: a command, the function whose file operations fail, and what must be true after it was repeated."""

    def __init__(self, name: str, owner: Any, function: str, turn: int, small: SmallRun):
        self.name, self.owner, self.function, self.turn, self.small = name, owner, function, turn, small
        self.number = 0
        self.expected = self.outcome(self.fresh())

    def fresh(self) -> Path:
        """Return a new folder to work in."""
        self.number += 1
        return self.small.home / f"{self.name}-{self.number}"

    def act(self, folder: Path) -> None:
        """Run the command, or repeat it."""
        self.small.train(folder)

    def check(self, folder: Path) -> list[str]:
        """Return what is half-written after the fault."""
        found = [str(p.name) for p in folder.rglob("*.json") if not _is_whole(p)] if folder.is_dir() else []
        return [name for name in found if not name.startswith(".")]

    def outcome(self, folder: Path) -> Any:
        """Run the command to its end, and return what it must agree in."""
        self.act(folder)
        if left := [p.name for p in folder.rglob(".*") if ".tmp-" in p.name or ".old-" in p.name]:
            raise AssertionError(f"left over: {left}")
        return result_of(folder)

    def operations(self) -> int:
        """Return the number of file operations without a fault."""
        disk, folder = Disk(), self.fresh()
        with disk.watching(self.owner, self.function, self.turn):
            self.act(folder)
        self.remove(folder)
        return disk.seen

    def remove(self, folder: Path) -> None:
        shutil.rmtree(folder, ignore_errors=True)

    def case(self, at: int, code: int) -> str:
        """Let an operation fail. Returns ``reported`` or ``tolerated``; anything else is a failure."""
        folder, disk, kind = self.fresh(), Disk(at, code), "tolerated"
        try:
            with disk.watching(self.owner, self.function, self.turn):
                self.act(folder)
        except ValueError as error:
            kind = (
                "reported"
                if os.strerror(code) in str(error) or "no space left" in str(error) or "writable" in str(error)
                else (f"unclear: {error}")
            )
        except Exception as error:
            kind = f"traceback: {type(error).__name__}: {error}"
        try:
            if broken := self.check(folder):
                return f"half-written: {broken}"
            if self.outcome(folder) != self.expected:
                return "another result"
        except Exception as error:
            return f"not repeatable after {kind}: {type(error).__name__}: {error}"
        finally:
            self.remove(folder)
        return kind if disk.struck else "not reached"


class Checkpointing(Target):
    def check(self, folder: Path) -> list[str]:
        found = super().check(folder)
        latest = Checkpoints(folder / "checkpoints").latest()
        found += [path.name for path in latest.damaged]
        if (folder / "log.jsonl").exists():
            read_lines(folder / "log.jsonl")
        if (folder / "model.safetensors").exists():
            read_weights(folder / "model.safetensors")
        return found


class Preparing(Target):
    def act(self, folder: Path) -> None:
        self.small.use_cache(folder)
        try:
            self.rows = self.small.rows()
        finally:
            self.small.use_cache(self.small.cache)

    def outcome(self, folder: Path) -> Any:
        self.act(folder)
        return self.rows


class Converting(Target):
    def act(self, folder: Path) -> None:
        if not folder.exists():
            to_published(self.small.home / "whole", folder)

    def outcome(self, folder: Path) -> Any:
        self.act(folder)
        return {p.name: p.read_bytes() for p in sorted(folder.iterdir())}

    def check(self, folder: Path) -> list[str]:
        left = [p.name for p in folder.parent.glob(f".{folder.name}.tmp-*")]
        for path in folder.parent.glob(f".{folder.name}.tmp-*"):  # a disk that is read-only cannot be tidied up
            shutil.rmtree(path)
        whole = not folder.exists() or self.outcome(folder) == getattr(self, "expected", None)
        return [] if whole else [folder.name, *left]


def targets(small: SmallRun) -> dict[str, Callable[[], Target]]:
    """Return the targets by name."""
    return {
        "create": lambda: Checkpointing("create", RunFolder, "create", 1, small),
        "save": lambda: Checkpointing("save", Checkpoints, "save", 2, small),
        "log": lambda: Checkpointing("log", RunFolder, "write_log", 5, small),
        "final": lambda: Checkpointing("final", weft.training.trainer, "write_weights", 1, small),
        "artifacts": lambda: Checkpointing("artifacts", Trainer, "finish", 1, small),
        "cache": lambda: Preparing("cache", text_source, "write_split", 1, small),
        "convert": lambda: Converting("convert", sys.modules[__name__], "to_published", 1, small),
    }


def _is_whole(path: Path) -> bool:
    try:
        read_json(path)
    except ValueError:
        return False
    return True


def campaign(names: list[str] | None = None, every: int = 1, codes: tuple[int, ...] = CODES) -> dict[str, Any]:
    """Let every operation fail; prints as it goes. Returns counts by target, and the cases that failed."""
    report: dict[str, Any] = {"targets": {}, "failed": []}
    with tempfile.TemporaryDirectory(prefix="faults-") as home, without_pictures():
        small = SmallRun(Path(home))
        small.train(small.home / "whole")
        for name, build in targets(small).items():
            if names and name not in names:
                continue
            target = build()
            operations, counts = target.operations(), Counter[str]()
            for at, code in itertools.product(range(1, operations + 1, every), codes):
                kind = target.case(at, code)
                good = kind in ("reported", "tolerated", "not reached")
                counts[kind if good else "failed"] += 1
                if not good:
                    report["failed"].append({"target": name, "operation": at, "errno": errno.errorcode[code], "problem": kind})
                    print(f"  FAILED {name} {at} {errno.errorcode[code]}: {kind}", flush=True)
            report["targets"][name] = {"operations": operations, "cases": sum(counts.values()), **counts}
            print(f"{name}: {operations} operations, {dict(counts)}", flush=True)
    report["cases"] = sum(one["cases"] for one in report["targets"].values())
    return report


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.faults", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--target", action="append", help="only this one; may be repeated")
    parser.add_argument("--every", type=int, default=1, help="only every N-th operation [1]")
    parser.add_argument("--json", type=Path, help="write the counts to this file")
    asked = parser.parse_args()
    report = campaign(asked.target, asked.every)
    if asked.json:
        write_json(asked.json, report)
    print(f"{report['cases']} faults, {len(report['failed'])} failed")
    sys.exit(1 if report["failed"] else 0)


if __name__ == "__main__":
    main()
