"""Checkpoints: nothing is lost, whenever a run is stopped.

A checkpoint is a folder ``update-00001234`` of safetensors and JSON files. It is written as ``.tmp-...`` beside its place: every
file is flushed to the disk, then a manifest with sizes and SHA-256 of all of them; only then is the folder renamed. So a folder
with the right name is whole, and what breaks later (a failing disk, a careless hand) is found before it is used. Overwriting goes
through ``update-00001234.new``, removing through ``.old-...``: at every moment there is a whole one to go on from.
"""

from __future__ import annotations

import errno
import hashlib
import json
import os
import re
import secrets
import shutil
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import safetensors.torch
from safetensors import SafetensorError, safe_open
from torch import Tensor

from weft.core.io import read_json, sha256, sync_file, sync_folder, write_json, write_text

FORMAT = 1
MANIFEST = "manifest.json"
BEST = "best.json"
_NAME = re.compile(r"update-(\d{8,})(\.new)?")
_FILE = re.compile(r"\w[\w.-]*\.(safetensors|json)")
_FULL = (errno.ENOSPC, errno.EDQUOT)
_CLOSED = (errno.EACCES, errno.EPERM, errno.EROFS)


class CheckpointError(ValueError):
    """A checkpoint cannot be written, or what is there cannot be used. The message says what to do."""


@dataclass(frozen=True)
class Checkpoint:
    """What was saved: tensors by file and name, JSON documents by file."""

    update: int
    tensors: dict[str, dict[str, Tensor]]
    documents: dict[str, Any]


@dataclass(frozen=True)
class Latest:
    """The newest whole checkpoint (None = there is none), and newer ones that are damaged, with the reasons."""

    path: Path | None
    damaged: dict[Path, list[str]] = field(default_factory=dict)


class Checkpoints:
    """The checkpoints of a run. Opening and reading change nothing; ``save`` and ``clean`` are for the process that owns the run.

    Args:
        folder: Where they are; made by the first ``save``.
        keep: How many of the newest are kept, besides the best.

    Example:
        >>> import tempfile, torch
        >>> checkpoints = Checkpoints(tempfile.mkdtemp())
        >>> path = checkpoints.save(7, {"weights.safetensors": {"w": torch.ones(2)}}, {"state.json": {"epoch": 1}})
        >>> checkpoints.latest().path == path, load(path).documents
        (True, {'state.json': {'epoch': 1}})
    """

    def __init__(self, folder: str | Path, keep: int = 3):
        if keep < 1:
            raise ValueError(f"keep is how many checkpoints stay: at least 1, not {keep}")
        self.folder, self.keep = Path(folder), keep

    def save(
        self, update: int, tensors: Mapping[str, Mapping[str, Tensor]], documents: Mapping[str, Any], *, best: bool = False
    ) -> Path:
        """Write a checkpoint, then remove those that are too old. Returns its folder.

        A checkpoint of the same update is replaced. If anything fails, what was there before is untouched.

        Args:
            update: How many updates were made: the number of the checkpoint.
            tensors: By file name (``weights.safetensors``), then by name.
            documents: By file name (``state.json``), what JSON can say.
            best: Remember this one as the best so far, and keep it.
        """
        _check_files(update, tensors, documents)
        with _explained(f"the checkpoint of update {update}", self.folder, _size(tensors)):
            self.folder.mkdir(parents=True, exist_ok=True)
            self.clean()
            with self._temporary(update) as temporary:
                _fill(temporary, update, tensors, documents)
                path = self._place(temporary, self.folder / f"update-{update:08d}")
            if best:
                self.mark_best(update)
        with _explained("the removal of old checkpoints", self.folder):
            self._prune(path)
        return path

    def latest(self) -> Latest:
        """The newest whole checkpoint, and the damaged ones that are newer. Every byte is checked."""
        patience = 10
        while True:
            damaged: dict[Path, list[str]] = {}
            found, paths = None, self._paths()
            before = [_identity(path) for path in paths]
            for path in paths:
                if not (reasons := problems(path)):
                    found = path
                    break
                damaged[path] = reasons
            # A reader beside the owner looks again: what was replaced or removed meanwhile is not damaged, and a name that
            # changes while the folder is being listed can be missed.
            after = [_identity(path) for path in damaged]
            if after != before[: len(damaged)] or None in after:
                continue
            if found or not patience or not self.folder.exists():
                return Latest(found, damaged)
            patience -= 1
            time.sleep(0.005)

    def best(self) -> Path | None:
        """The checkpoint that was saved as the best; None if there is none."""
        try:
            update = read_json(self.folder / BEST)["update"]
        except FileNotFoundError:
            return None
        except (ValueError, TypeError, KeyError) as error:
            raise CheckpointError(
                f"{self.folder / BEST} is damaged ({error}): remove it; no checkpoint is the best then"
            ) from None
        return next((path for path in self._paths() if _number(path) == update), None)

    def mark_best(self, update: int) -> None:
        """Remember the checkpoint of that update as the best so far."""
        with _explained(f"marking update {update} as the best", self.folder):
            write_json(self.folder / BEST, {"format": FORMAT, "update": update})

    def remove(self, update: int) -> None:
        """Remove the checkpoint of that update, if there is one."""
        for path in self._paths():
            if _number(path) == update:
                self._remove(path)

    def clean(self) -> None:
        """Bring to an end what a crash left undone. For the process that owns the run, before it reads."""
        for path in [p for p in self._entries() if p.name.startswith((".tmp-", ".old-"))]:
            shutil.rmtree(path)
        for path in self.folder.glob(f".{BEST}.tmp-*"):
            path.unlink()
        for path in [p for p in self._entries() if p.name.endswith(".new") and _NAME.fullmatch(p.name)]:
            if problems(path):
                self._remove(path)
            else:
                self._place(path, path.with_suffix(""))

    def _entries(self) -> list[Path]:
        return [path for path in self.folder.iterdir() if path.is_dir()] if self.folder.is_dir() else []

    def _paths(self) -> list[Path]:
        """Newest first. One that is about to replace another of the same update stands before it."""
        found = [path for path in self._entries() if _NAME.fullmatch(path.name)]
        return sorted(found, key=lambda path: (_number(path), path.name.endswith(".new")), reverse=True)

    @contextmanager
    def _temporary(self, update: int) -> Iterator[Path]:
        """A folder that has its final name at the end, or is gone."""
        path = self.folder / f".tmp-{update:08d}-{secrets.token_hex(4)}"
        path.mkdir()
        try:
            yield path
        finally:
            shutil.rmtree(path, ignore_errors=True)

    def _place(self, whole: Path, path: Path) -> Path:
        """Give a whole checkpoint its name. Where there is one already, the new one is visible before the old one goes."""
        if path.exists():
            new = path.with_name(path.name + ".new")
            if whole != new:
                whole.rename(new)
                sync_folder(self.folder)
            self._remove(path)
            whole = new
        whole.rename(path)
        sync_folder(self.folder)
        return path

    def _remove(self, path: Path) -> None:
        """First out of sight, then piece by piece: half a checkpoint never looks like one."""
        old = path.with_name(f".old-{path.name}-{secrets.token_hex(4)}")
        path.rename(old)
        sync_folder(self.folder)
        shutil.rmtree(old)

    def _prune(self, trusted: Path) -> None:
        """Keep ``trusted``, the best, and the newest that look whole; what is newer than ``trusted`` stays."""
        try:
            best = self.best()
        except CheckpointError:
            return  # which one is the best is not known, so none can go
        older = [path for path in self._paths() if _number(path) < _number(trusted)]
        whole = [path for path in older if not problems(path, quick=True)]
        keep = [trusted, *whole[: self.keep - 1]]
        # A damaged one between those that stay is left for its owner to see; it goes when it is older than all of them.
        for path in reversed(older):
            if path not in keep and path != best and (path in whole or _number(path) < _number(keep[-1])):
                self._remove(path)


def problems(folder: str | Path, *, quick: bool = False) -> list[str]:
    """What is wrong with a checkpoint; an empty list if it is whole.

    Args:
        folder: The checkpoint's folder.
        quick: Compare sizes only, do not read the files.
    """
    folder = Path(folder)
    try:
        manifest = read_json(folder / MANIFEST)
        if manifest["format"] != FORMAT:
            return [
                f"format version {manifest['format']}, but this weft reads {FORMAT}: use the weft that wrote it, or a newer one"
            ]
        update, files = (
            manifest["update"],
            {str(name): (int(f["size"]), str(f["sha256"])) for name, f in manifest["files"].items()},
        )
    except OSError as error:
        return [f"{MANIFEST} cannot be read: {error.strerror}"]
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        return [f"{MANIFEST} is broken: {error}"]
    found: list[str] = []
    if _NAME.fullmatch(folder.name) and update != _number(folder):
        found.append(f"{MANIFEST} is of update {update}")
    for name, (size, digest) in files.items():
        path = folder / name
        try:
            if not _FILE.fullmatch(name):
                found.append(f"{MANIFEST} names {name!r}, which is not a file of a checkpoint")
            elif path.stat().st_size != size:
                found.append(f"{name} has {path.stat().st_size} bytes instead of {size}")
            elif not quick and sha256(path) != digest:
                found.append(f"{name} has changed: its SHA-256 is not the one in {MANIFEST}")
            elif not quick and path.suffix == ".json":
                read_json(path)
        except OSError as error:
            found.append(f"{name} cannot be read: {error.strerror}")
        except ValueError as error:
            found.append(str(error))
    return found


def load(path: str | Path) -> Checkpoint:
    """Read a checkpoint, after checking every byte. Tensors are on the CPU."""
    path = Path(path)
    if reasons := problems(path):
        raise CheckpointError(f"the checkpoint {path} is damaged: {'; '.join(reasons)}. Use an earlier one")
    manifest = read_json(path / MANIFEST)
    tensors = {name: read_tensors(path / name) for name in manifest["files"] if name.endswith(".safetensors")}
    documents = {name: read_json(path / name) for name in manifest["files"] if name.endswith(".json")}
    return Checkpoint(manifest["update"], tensors, documents)


def digest(path: str | Path) -> str:
    """The SHA-256 of a file, or of all tensors of a checkpoint: equal if and only if the tensors are, bit for bit."""
    path = Path(path)
    if not path.is_dir():
        return sha256(path)
    parts = [f"{file.name} {sha256(file)}\n" for file in sorted(path.glob("*.safetensors"))]
    return hashlib.sha256("".join(parts).encode()).hexdigest()


def _fill(folder: Path, update: int, tensors: Mapping[str, Mapping[str, Tensor]], documents: Mapping[str, Any]) -> None:
    """All files of a checkpoint, on the disk, the manifest last."""
    for name, named in tensors.items():
        write_tensors(folder / name, named)
    for name, document in documents.items():
        write_json(folder / name, document)
    files = {path.name: {"size": path.stat().st_size, "sha256": sha256(path)} for path in sorted(folder.iterdir())}
    write_json(folder / MANIFEST, {"format": FORMAT, "update": update, "files": files})
    sync_folder(folder)


# ---------------------------------------------------------------------------------------------------------------- tensors


def write_tensors(path: str | Path, tensors: Mapping[str, Tensor]) -> None:
    """Write named tensors as safetensors, on the disk when this returns. The same tensors give the same bytes.

    A tensor under several names is written once; the file says which names are the same, and ``read_tensors`` shares it again.
    """
    path, owners, aliases = Path(path), {}, {}
    storages: set[tuple[Any, ...]] = set()
    distinct: dict[str, Tensor] = {}
    for name in sorted(tensors):
        tensor = tensors[name].detach()
        if tensor.is_meta:
            raise ValueError(f"{name}: a tensor on the meta device has no values to save")
        if tensor.numel():
            same = (tensor.device, tensor.data_ptr(), tensor.shape, tensor.stride(), tensor.dtype)
            if same in owners:
                aliases[name] = owners[same]
                continue
            owners[same] = name
        storage = (tensor.device, tensor.untyped_storage().data_ptr())
        tensor = tensor.cpu().contiguous()
        # safetensors takes no two views of one storage: what overlaps without being the same is written apart.
        distinct[name] = tensor.clone() if storage in storages else tensor
        storages.add(storage)
    # A single entry: the order of several is not fixed in safetensors, and the bytes would not be either.
    about = {"weft": json.dumps({"format": FORMAT, "aliases": aliases}, sort_keys=True)}
    path.touch()
    mode = path.stat().st_mode  # safetensors makes files that only their owner can read, whatever the umask says
    try:
        safetensors.torch.save_file(distinct, path, metadata=about)
    except SafetensorError as error:
        if match := re.search(r"os error (\d+)", str(error)):
            raise OSError(int(match[1]), os.strerror(int(match[1])), str(path)) from None
        raise
    path.chmod(mode)
    sync_file(path)


def read_tensors(path: str | Path) -> dict[str, Tensor]:
    """Named tensors from a safetensors file, on the CPU. Names that ``write_tensors`` found to be the same share a tensor."""
    try:
        with safe_open(path, "pt") as file:
            about = json.loads((file.metadata() or {}).get("weft", "{}"))
            tensors: dict[str, Tensor] = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    except SafetensorError as error:
        raise ValueError(f"{path}: not a whole safetensors file: {error}") from None
    return tensors | {name: tensors[owner] for name, owner in about.get("aliases", {}).items()}


def write_weights(path: str | Path, tensors: Mapping[str, Tensor]) -> None:
    """Replace a file of final weights, and write its SHA-256 beside it, as the command sha256sum does."""
    path = Path(path)
    new = path.with_name(path.name + ".new")
    write_tensors(new, tensors)
    write_text(_hash_of(path), f"{sha256(new)}  {path.name}\n")
    new.replace(path)


def read_weights(path: str | Path) -> dict[str, Tensor]:
    """Final weights. Raises ValueError if they are not those that were written."""
    path = Path(path)
    try:
        wanted = _hash_of(path).read_text(encoding="utf-8").split(maxsplit=1)[0]
    except (OSError, UnicodeDecodeError, IndexError):
        raise ValueError(f"{_hash_of(path)} cannot be read: it should hold the SHA-256 of {path.name}") from None
    if (found := sha256(path)) != wanted:
        raise ValueError(f"{path} is damaged or was changed: its SHA-256 is {found[:12]}..., not {wanted[:12]}...")
    return read_tensors(path)


def _hash_of(path: Path) -> Path:
    return path.with_name(path.name + ".sha256")


# ----------------------------------------------------------------------------------------------------------------- errors


@contextmanager
def _explained(what: str, folder: Path, needed: int | None = None) -> Iterator[None]:
    """What the system says when it fails, in a sentence that helps."""
    try:
        yield
    except OSError as error:
        if error.errno in _FULL:
            there = next(place for place in (folder, *folder.absolute().parents) if place.exists())
            free = f"{_amount(shutil.disk_usage(there).free)} are free"
            room = f"about {_amount(needed)} are needed, {free}" if needed is not None else free
            reason, advice = f"the disk or the quota is full: {room}", "Make room, or keep fewer checkpoints"
        elif error.errno == errno.EFBIG:
            size = f" ({_amount(needed)} are to be saved)" if needed is not None else ""
            reason = f"a file is larger than this shell or file system allows{size}"
            advice = "Raise the limit (ulimit -f unlimited), or choose another folder"
        elif error.errno in _CLOSED:
            reason, advice = (
                f"{error.filename or folder} is not writable ({error.strerror})",
                "Change its permissions, or choose another folder",
            )
        else:
            reason, advice = error.strerror or str(error), "See whether the disk is in order, or choose another folder"
        raise CheckpointError(
            f"{what} failed in {folder}: {reason}. The last checkpoint is intact. {advice}, then resume from it"
        ) from error


def _amount(size: int) -> str:
    return f"{size / 1e9:.1f} GB" if size >= 1e9 else f"{size / 1e6:.1f} MB"


def _size(tensors: Mapping[str, Mapping[str, Tensor]]) -> int:
    return sum(tensor.numel() * tensor.element_size() for named in tensors.values() for tensor in named.values())


def _number(path: Path) -> int:
    match = _NAME.fullmatch(path.name)
    return int(match[1]) if match else -1


def _identity(path: Path) -> tuple[int, int] | None:
    try:
        return path.stat().st_ino, path.stat().st_ctime_ns
    except FileNotFoundError:
        return None


def _check_files(update: int, tensors: Mapping[str, Any], documents: Mapping[str, Any]) -> None:
    if update < 0:
        raise ValueError(f"a checkpoint is named by the number of updates made: 0 or more, not {update}")
    for names, ending in ((tensors, ".safetensors"), (documents, ".json")):
        for name in names:
            if not _FILE.fullmatch(name) or not name.endswith(ending) or name == MANIFEST:
                raise ValueError(
                    f"{name!r} cannot be a file of a checkpoint: a plain name that ends in {ending}, other than {MANIFEST}"
                )
