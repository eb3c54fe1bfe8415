"""Checkpoints that survive a crash at any time.

A checkpoint is a folder ``step-00001234`` of safetensors and JSON files. It is written under a temporary name ``.tmp-...``: all
files are flushed to disk, then a manifest with the size and SHA-256 of each; only then is the folder renamed. So a folder with
the final name is complete, and later damage (a failing disk, an accidental edit) is detected before it is used. A checkpoint is
replaced through ``step-00001234.new`` and removed through ``.old-...``, so that there is an intact one at any moment.
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
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import safetensors.torch
from safetensors import SafetensorError, safe_open
from torch import Tensor

from weft.core import files
from weft.core.io import MAX_DOCUMENT_BYTES, InvalidJSON, parse_json, read_bytes, read_json, sha256, write_json, write_text

FORMAT = 1
MANIFEST = "manifest.json"
BEST = "best.json"
_NAME = re.compile(r"step-(\d{8,})(\.new)?")
_FILE = re.compile(r"\w[\w.-]*\.(safetensors|json)")
_FULL = (errno.ENOSPC, errno.EDQUOT)
_CLOSED = (errno.EACCES, errno.EPERM, errno.EROFS)


class CheckpointError(ValueError):
    """A checkpoint cannot be written or loaded. The message explains what to do."""


@dataclass(frozen=True)
class Checkpoint:
    """A loaded checkpoint: tensors by file and name, JSON documents by file."""

    step: int
    tensors: dict[str, dict[str, Tensor]]
    documents: dict[str, Any]


@dataclass(frozen=True)
class LatestCheckpoint:
    """The latest intact checkpoint (None = there is none), and later ones that are damaged, with the reasons."""

    path: Path | None
    damaged: dict[Path, list[str]] = field(default_factory=dict)


class Checkpoints:
    """The checkpoints of a run. Reading changes no files; ``save`` and ``clean`` are for the process that trains.

    Args:
        folder: Folder of the checkpoints; created by the first ``save``.
        keep: Number of checkpoints to keep, in addition to the best one.

    Example:
        >>> import tempfile, torch
        >>> checkpoints = Checkpoints(tempfile.mkdtemp())
        >>> path = checkpoints.save(7, {"weights.safetensors": {"w": torch.ones(2)}}, {"state.json": {"epoch": 1}})
        >>> checkpoints.latest().path == path, load(path).documents
        (True, {'state.json': {'epoch': 1}})
    """

    def __init__(self, folder: str | Path, keep: int = 3):
        if keep < 1:
            raise ValueError(f"keep must be at least 1, not {keep}")
        self.folder, self.keep = Path(folder), keep

    def save(
        self, step: int, tensors: Mapping[str, Mapping[str, Tensor]], documents: Mapping[str, Any], *, best: bool = False
    ) -> Path:
        """Save a checkpoint, then remove old ones. Returns its folder.

        A checkpoint of the same step is replaced. On failure, earlier checkpoints are intact.

        Args:
            step: Number of the checkpoint: the steps of training so far.
            tensors: Tensors by file name (``weights.safetensors``) and name.
            documents: JSON documents by file name (``state.json``).
            best: Mark this checkpoint as the best so far, which is always kept.
        """
        _check_files(step, tensors, documents)
        with _disk_errors(f"saving the checkpoint of step {step}", self.folder, _size(tensors)):
            files.make_folder(self.folder)
            self.clean()
            with self._temporary(step) as temporary:
                _write_files(temporary, step, tensors, documents)
                path = self._publish(temporary, self.folder / f"step-{step:08d}")
            if best:
                self.mark_best(step)
        with _disk_errors("removing old checkpoints", self.folder):
            self._prune(path)
        return path

    def latest(self) -> LatestCheckpoint:
        """Return the latest intact checkpoint, and later ones that are damaged. Every byte is verified."""
        retries = 10
        while True:
            damaged: dict[Path, list[str]] = {}
            found, paths = None, self.paths()
            before = [_identity(path) for path in paths]
            for path in paths:
                if not (reasons := problems(path)):
                    found = path
                    break
                damaged[path] = reasons
            # Another process may be saving: list again, because a checkpoint that was replaced or removed meanwhile is not
            # damaged, and a folder that is renamed during the listing can be missed.
            after = [_identity(path) for path in damaged]
            if after != before[: len(damaged)] or None in after:
                continue
            if found or not retries or not self.folder.exists():
                return LatestCheckpoint(found, damaged)
            retries -= 1
            time.sleep(0.005)

    def best(self) -> Path | None:
        """Return the checkpoint that is marked as the best; None if there is none."""
        try:
            step = read_json(self.folder / BEST)["step"]
        except FileNotFoundError:
            return None
        except (ValueError, TypeError, KeyError) as error:
            raise CheckpointError(
                f"{self.folder / BEST} is damaged ({error}); remove it, then no checkpoint is marked as the best"
            ) from None
        return next((path for path in self.paths() if _number(path) == step), None)

    def mark_best(self, step: int) -> None:
        """Mark the checkpoint of a step as the best so far."""
        with _disk_errors(f"marking step {step} as the best", self.folder):
            write_json(self.folder / BEST, {"format": FORMAT, "step": step})

    def remove(self, step: int) -> None:
        """Remove the checkpoint of a step, if there is one."""
        for path in self.paths():
            if _number(path) == step:
                self._remove(path)

    def clean(self) -> None:
        """Complete or remove what a crash has left. For the process that trains, before it reads."""
        for path in [p for p in self._entries() if p.name.startswith((".tmp-", ".old-"))]:
            files.remove_tree(path)
        for path in self.folder.glob(f".{BEST}.tmp-*"):
            files.remove(path)
        for path in [p for p in self._entries() if p.name.endswith(".new") and _NAME.fullmatch(p.name)]:
            if problems(path):
                self._remove(path)
            else:
                self._publish(path, path.with_suffix(""))

    def _entries(self) -> list[Path]:
        return [path for path in self.folder.iterdir() if path.is_dir()] if self.folder.is_dir() else []

    def paths(self) -> list[Path]:
        """Return the checkpoints, latest first. A replacement comes before the checkpoint that it replaces."""
        found = [path for path in self._entries() if _NAME.fullmatch(path.name)]
        return sorted(found, key=lambda path: (_number(path), path.name.endswith(".new")), reverse=True)

    @contextmanager
    def _temporary(self, step: int) -> Iterator[Path]:
        """A folder that is renamed within the context, or removed."""
        path = self.folder / f".tmp-{step:08d}-{secrets.token_hex(4)}"
        files.make_folder(path)
        try:
            yield path
        finally:
            with suppress(OSError):
                files.remove_tree(path)

    def _publish(self, complete: Path, path: Path) -> Path:
        """Rename a complete checkpoint. One of the same name is removed only after the new one is visible."""
        if path.exists():
            new = path.with_name(path.name + ".new")
            if complete != new:
                files.rename(complete, new)
                files.sync_folder(self.folder)
            self._remove(path)
            complete = new
        files.rename(complete, path)
        files.sync_folder(self.folder)
        return path

    def _remove(self, path: Path) -> None:
        """Rename a checkpoint, then delete it, so that a partly deleted one never has the name of a checkpoint."""
        old = path.with_name(f".old-{path.name}-{secrets.token_hex(4)}")
        files.rename(path, old)
        files.sync_folder(self.folder)
        files.remove_tree(old)

    def _prune(self, saved: Path) -> None:
        """Keep the checkpoint just saved, later ones, the best, and the latest that seem intact; remove the others."""
        try:
            best = self.best()
        except CheckpointError:
            return  # the best one is unknown, so none is removed
        older = [path for path in self.paths() if _number(path) < _number(saved)]
        intact = [path for path in older if not problems(path, quick=True)]
        keep = [saved, *intact[: self.keep - 1]]
        # Damaged ones among those that are kept stay, to be inspected; those older than all of them are removed.
        for path in reversed(older):
            if path not in keep and path != best and (path in intact or _number(path) < _number(keep[-1])):
                self._remove(path)


def problems(folder: str | Path, *, quick: bool = False) -> list[str]:
    """Return what is wrong with a checkpoint; an empty list if it is intact.

    Args:
        folder: Folder of the checkpoint.
        quick: Compare only the sizes of the files.
    """
    folder = Path(folder)
    try:
        manifest = read_json(folder / MANIFEST)
        if manifest["format"] != FORMAT:
            return [
                f"format version is {manifest['format']}, but this version of weft reads {FORMAT}; use the version that wrote it"
            ]
        step, listed = (
            manifest["step"],
            {str(name): (int(f["size"]), str(f["sha256"])) for name, f in manifest["files"].items()},
        )
    except OSError as error:
        return [f"{MANIFEST} cannot be read: {error.strerror}"]
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        return [f"{MANIFEST} is invalid: {error}"]
    found: list[str] = []
    if _NAME.fullmatch(folder.name) and step != _number(folder):
        found.append(f"{MANIFEST} belongs to step {step}")
    for name, (size, digest) in listed.items():
        path = folder / name
        try:
            if not _FILE.fullmatch(name):
                found.append(f"{MANIFEST} lists {name!r}, which is not a checkpoint file")
            elif path.stat().st_size != size:
                found.append(f"{name} has {path.stat().st_size} bytes, expected {size}")
            elif not quick and sha256(path) != digest:
                found.append(f"{name} has changed: its SHA-256 differs from {MANIFEST}")
            elif not quick and path.suffix == ".json":
                read_json(path)
        except OSError as error:
            found.append(f"{name} cannot be read: {error.strerror}")
        except ValueError as error:
            found.append(str(error))
    return found


def load(path: str | Path) -> Checkpoint:
    """Load a checkpoint after verifying every byte. Tensors are on the CPU."""
    path = Path(path)
    if reasons := problems(path):
        raise CheckpointError(f"the checkpoint {path} is damaged: {'; '.join(reasons)}; use an earlier one")
    manifest = read_json(path / MANIFEST)
    tensors = {name: read_tensors(path / name) for name in manifest["files"] if name.endswith(".safetensors")}
    documents = {name: read_json(path / name) for name in manifest["files"] if name.endswith(".json")}
    return Checkpoint(manifest["step"], tensors, documents)


def read_document(path: str | Path, name: str) -> Any:
    """Return a JSON document of a checkpoint after verifying it, without reading the tensors. Raises ValueError."""
    path = Path(path)
    listed = read_json(path / MANIFEST)["files"].get(name, {})
    if listed.get("sha256") != sha256(path / name):
        raise CheckpointError(f"{path / name} is damaged: its SHA-256 differs from {MANIFEST}")
    return read_json(path / name)


def digest(path: str | Path) -> str:
    """Return the SHA-256 of a file, or of all tensors of a checkpoint: equal if and only if all bits are equal."""
    path = Path(path)
    if not path.is_dir():
        return sha256(path)
    parts = [f"{file.name} {sha256(file)}\n" for file in sorted(path.glob("*.safetensors"))]
    return hashlib.sha256("".join(parts).encode()).hexdigest()


def _write_files(folder: Path, step: int, tensors: Mapping[str, Mapping[str, Tensor]], documents: Mapping[str, Any]) -> None:
    """Write all files of a checkpoint and flush them to disk, the manifest last."""
    for name, named in tensors.items():
        write_tensors(folder / name, named)
    for name, document in documents.items():
        write_json(folder / name, document)
    listed = {path.name: {"size": path.stat().st_size, "sha256": sha256(path)} for path in sorted(folder.iterdir())}
    write_json(folder / MANIFEST, {"format": FORMAT, "step": step, "files": listed})
    files.sync_folder(folder)


# ---------------------------------------------------------------------------------------------------------------- tensors


def write_tensors(path: str | Path, tensors: Mapping[str, Tensor]) -> None:
    """Write named tensors as safetensors and flush them to disk. Equal tensors give equal bytes.

    A tensor with several names (tied weights) is written once; the metadata lists the aliases, which ``read_tensors`` restores.
    """
    path, owners, aliases = Path(path), {}, {}
    storages: set[tuple[Any, ...]] = set()
    distinct: dict[str, Tensor] = {}
    for name in sorted(tensors):
        tensor = tensors[name].detach()
        if tensor.is_meta:
            raise ValueError(f"{name} is on the meta device and has no values to save")
        if tensor.numel():
            same = (tensor.device, tensor.data_ptr(), tensor.shape, tensor.stride(), tensor.dtype)
            if same in owners:
                aliases[name] = owners[same]
                continue
            owners[same] = name
        storage = (tensor.device, tensor.untyped_storage().data_ptr())
        tensor = tensor.cpu().contiguous()
        # safetensors refuses two views of one storage: tensors that overlap without being equal are written separately.
        distinct[name] = tensor.clone() if storage in storages else tensor
        storages.add(storage)
    # A single entry: safetensors does not fix the order of several, so the bytes could differ.
    metadata = {"weft": json.dumps({"format": FORMAT, "aliases": aliases}, sort_keys=True)}
    files.new_file(path)
    mode = path.stat().st_mode  # safetensors creates files with mode 600, whatever the umask is
    try:
        safetensors.torch.save_file(distinct, path, metadata=metadata)
    except SafetensorError as error:
        if match := re.search(r"os error (\d+)", str(error)):
            raise OSError(int(match[1]), os.strerror(int(match[1])), str(path)) from None
        raise
    path.chmod(mode)
    files.sync_file(path)


def read_tensors(path: str | Path) -> dict[str, Tensor]:
    """Read named tensors from a safetensors file, on the CPU. Aliases of tied weights share a tensor."""
    try:
        with safe_open(path, "pt") as file:
            metadata = parse_json((file.metadata() or {}).get("weft", "{}"))
            tensors: dict[str, Tensor] = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    except SafetensorError as error:
        raise ValueError(f"{path}: not a complete safetensors file: {error}") from None
    except InvalidJSON as error:
        raise ValueError(f"{path}: metadata: {error}") from None
    aliases = metadata.get("aliases", {}) if isinstance(metadata, dict) else None
    if not isinstance(aliases, dict) or not all(isinstance(owner, str) and owner in tensors for owner in aliases.values()):
        raise ValueError(f"{path}: metadata: aliases must name tensors of the file")
    return tensors | {name: tensors[owner] for name, owner in aliases.items()}


def write_weights(path: str | Path, tensors: Mapping[str, Tensor], beside: Mapping[str, str] | None = None) -> None:
    """Write a file of final weights, and its SHA-256 next to it in the format of ``sha256sum``.

    Args:
        path: The file.
        tensors: Weights by name.
        beside: SHA-256 of other files that the weights depend on, by path relative to that of the weights.
    """
    path = Path(path)
    new = path.with_name(path.name + ".new")
    write_tensors(new, tensors)
    hashes = {path.name: sha256(new), **(beside or {})}
    write_text(_hash_file(path), "".join(f"{found}  {name}\n" for name, found in hashes.items()))
    files.rename(new, path)


def read_weights(path: str | Path) -> dict[str, Tensor]:
    """Read a file of final weights. Raises ValueError if its SHA-256 has changed, or that of a file it depends on."""
    path = Path(path)
    for name, wanted in _hashes(path).items():
        file = path.parent / name
        if file != path and not file.exists():  # the weights can be used without it; who needs it reports it
            continue
        if (found := sha256(file)) != wanted:
            raise ValueError(f"{file} is damaged or was changed: its SHA-256 is {found[:12]}..., not {wanted[:12]}...")
    return read_tensors(path)


def _hashes(path: Path) -> dict[str, str]:
    """Return the content of the hash file of weights: path -> SHA-256, the weights first."""
    try:
        text = read_bytes(_hash_file(path), MAX_DOCUMENT_BYTES).decode()
        lines = [line.split("  ", 1) for line in text.splitlines()]
        hashes = {name: found for found, name in lines}
        if next(iter(hashes)) == path.name and all(_inside(name) for name in hashes):
            return hashes
    except (OSError, ValueError, StopIteration):
        pass
    raise ValueError(f"{_hash_file(path)} cannot be read; it must contain the SHA-256 of {path.name}, as sha256sum writes it")


def _inside(name: str) -> bool:
    return not Path(name).is_absolute() and ".." not in Path(name).parts


def _hash_file(path: Path) -> Path:
    return path.with_name(path.name + ".sha256")


# ----------------------------------------------------------------------------------------------------------------- errors


@contextmanager
def _disk_errors(what: str, folder: Path, needed: int | None = None) -> Iterator[None]:
    """Turn an OSError into a CheckpointError that explains the cause and what to do."""
    try:
        yield
    except OSError as error:
        if error.errno in _FULL:
            existing = next(path for path in (folder, *folder.absolute().parents) if path.exists())
            free = f"{_amount(shutil.disk_usage(existing).free)} are free"
            sizes = f"about {_amount(needed)} are needed, {free}" if needed is not None else free
            reason, advice = f"no space left on the disk or in the quota ({sizes})", "Free some space, or keep fewer checkpoints"
        elif error.errno == errno.EFBIG:
            size = f" (about {_amount(needed)} are needed)" if needed is not None else ""
            reason = f"a file exceeds the size limit of the shell or the file system{size}"
            advice = "Raise the limit (ulimit -f unlimited), or use another folder"
        elif error.errno in _CLOSED:
            reason, advice = (
                f"{error.filename or folder} is not writable ({error.strerror})",
                "Change its permissions, or use another folder",
            )
        else:
            reason, advice = error.strerror or str(error), "Check the disk, or use another folder"
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


def _check_files(step: int, tensors: Mapping[str, Any], documents: Mapping[str, Any]) -> None:
    if step < 0:
        raise ValueError(f"the number of a checkpoint must be at least 0, not {step}")
    for names, suffix in ((tensors, ".safetensors"), (documents, ".json")):
        for name in names:
            if not _FILE.fullmatch(name) or not name.endswith(suffix) or name == MANIFEST:
                raise ValueError(
                    f"invalid name {name!r} of a checkpoint file; use a plain name that ends in {suffix}, other than {MANIFEST}"
                )
