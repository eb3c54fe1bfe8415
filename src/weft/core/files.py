"""Every change that weft makes to files: atomic, flushed to disk, and inside a protected folder without following links.

A run folder may come from someone else. A link in it could lead a write, a rename or a removal to any file of the user. So a run
folder is protected: ``protect`` refuses it where there is a link or a special file inside, and later changes walk from it one
component at a time with ``O_NOFOLLOW``. Links on the way *to* the folder are the user's own and are followed. A file with further
hard links is replaced, never changed in place.
"""

from __future__ import annotations

import contextlib
import errno
import os
import secrets
import shutil
import stat
from collections.abc import Callable, Iterator
from io import FileIO
from pathlib import Path

MAX_ENTRIES = 1_000_000
"""Files and folders that a protected folder may have."""
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
_NO_LINK = os.O_NOFOLLOW | os.O_CLOEXEC
_protected: set[Path] = set()


class LinkError(ValueError):
    """A protected folder contains a link or a special file."""


def protect(folder: str | Path) -> None:
    """Follow no link inside a folder from now on. Raises LinkError where it contains one, or a device, pipe or socket."""
    root = Path(folder).absolute()
    waiting, entries = [root], 0
    while waiting:
        with os.scandir(waiting.pop()) as found:
            for entry in found:
                entries += 1
                mode = entry.stat(follow_symlinks=False).st_mode
                if entries > MAX_ENTRIES:
                    raise LinkError(f"{folder} has more than {MAX_ENTRIES:,} files; it is not a run folder")
                if stat.S_ISLNK(mode):
                    raise _link_error(entry.path, root)
                if stat.S_ISDIR(mode):
                    waiting.append(Path(entry.path))
                elif not stat.S_ISREG(mode):
                    raise LinkError(f"{entry.path} is a device, pipe or socket; a run folder has regular files only: remove it")
    _protected.add(root)


def _link_error(path: str | Path, root: Path) -> LinkError:
    return LinkError(
        f"{path} is a link; links inside {root} are not followed: replace it by a copy of what it points to, or remove it"
    )


@contextlib.contextmanager
def _parent(path: str | Path) -> Iterator[tuple[int, str]]:
    """Open the folder of a path; yields its descriptor and the name inside it."""
    path = Path(path).absolute()
    root = next((folder for folder in reversed(path.parents) if folder in _protected), path.parent)
    inside = path.parent.relative_to(root).parts
    if ".." in (*inside, path.name):
        raise LinkError(f"{path} leads out of {root}; use a path inside it")
    with contextlib.ExitStack() as opened:

        def enter(name: str | Path, flags: int, folder: int | None = None) -> int:
            handle = os.open(name, flags, dir_fd=folder)
            opened.callback(os.close, handle)
            return handle

        handle = enter(root, _FOLDER)
        for i, part in enumerate(inside):
            try:
                handle = enter(part, _FOLDER | os.O_NOFOLLOW, handle)
            except OSError as error:
                if error.errno in (errno.ELOOP, errno.ENOTDIR) and _is_link(part, handle):
                    raise _link_error(Path(*path.parts[: len(root.parts) + i + 1]), root) from None
                raise
        yield handle, path.name


def _is_link(name: str, folder: int) -> bool:
    return stat.S_ISLNK(os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode)


# ------------------------------------------------------------------------------------------------------------------ files


def write_bytes(path: str | Path, data: bytes) -> None:
    """Replace a file, atomically and durably. A link of that name is replaced too, not what it points to."""
    with replacing(path) as write:
        write(data)


@contextlib.contextmanager
def replacing(path: str | Path) -> Iterator[Callable[[bytes], None]]:
    """Replace a file by what is written part by part, atomically and durably, when the block succeeds; see ``write_bytes``."""
    with _named(path), _parent(path) as (folder, name):
        temporary = f".{name}.tmp-{secrets.token_hex(4)}"
        try:
            handle = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | _NO_LINK, 0o666, dir_fd=folder)
            with FileIO(handle, "w") as file:
                yield lambda data: _write_all(file, data)
                os.fsync(handle)
            os.replace(temporary, name, src_dir_fd=folder, dst_dir_fd=folder)
        except BaseException:
            with contextlib.suppress(OSError):
                os.unlink(temporary, dir_fd=folder)
            raise
        _sync(folder)


@contextlib.contextmanager
def _named(path: str | Path) -> Iterator[None]:
    """Name the requested file in an OSError, not a temporary one or a part of its path, which mean nothing to the user."""
    try:
        yield
    except OSError as error:
        error.filename, error.filename2 = str(path), None
        raise


def append_bytes(path: str | Path, data: bytes, *, sync: bool = False) -> None:
    """Append to a file, which is created if it does not exist. If that fails, the file is unchanged.

    Args:
        path: The file.
        data: What to append.
        sync: Wait until it is on disk.
    """
    with _open_regular(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT) as file:
        size = os.fstat(file.fileno()).st_size
        try:
            _write_all(file, data)
            if sync:
                os.fsync(file.fileno())
        except OSError:
            os.ftruncate(file.fileno(), size)
            raise


def open_lock(path: str | Path) -> FileIO:
    """Open a file to lock it, creating it if it does not exist."""
    return _open_regular(path, os.O_WRONLY | os.O_CREAT)


def new_file(path: str | Path) -> Path:
    """Create an empty file for a library that writes by path. An entry of that name is removed first, not written through."""
    with _parent(path) as (folder, name):
        with contextlib.suppress(FileNotFoundError):
            os.unlink(name, dir_fd=folder)
        os.close(os.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL | _NO_LINK, 0o666, dir_fd=folder))
    return Path(path)


def copy_file(old: str | Path, new: str | Path) -> None:
    """Copy the content of a file; the folder of the new one is created."""
    make_folder(Path(new).parent)
    write_bytes(new, Path(old).read_bytes())


def sync_file(path: str | Path) -> None:
    """Wait until the content of a file is on disk."""
    with _open_regular(path, os.O_WRONLY) as file:
        os.fsync(file.fileno())


def _open_regular(path: str | Path, flags: int) -> FileIO:
    with _named(path), _parent(path) as (folder, name):
        try:
            handle = os.open(name, flags | os.O_NONBLOCK | _NO_LINK, 0o666, dir_fd=folder)
        except OSError as error:
            if error.errno == errno.ELOOP:
                raise _link_error(path, Path(path).parent) from None
            raise
    found = os.fstat(handle)
    if stat.S_ISREG(found.st_mode) and found.st_nlink == 1:
        return FileIO(handle, "w")
    os.close(handle)
    if not stat.S_ISREG(found.st_mode):
        raise LinkError(f"{path} is not a regular file; remove it")
    write_bytes(path, Path(path).read_bytes())  # the other names of the file keep what they have
    return _open_regular(path, flags)


def _write_all(file: FileIO, data: bytes) -> None:
    """Write without a buffer, which would try again when it is closed."""
    rest = memoryview(data)
    while rest:
        rest = rest[file.write(rest) :]


# ---------------------------------------------------------------------------------------------------------------- folders


def make_folder(path: str | Path) -> None:
    """Create a folder and those above it, where they do not exist."""
    path = Path(path).absolute()
    if not path.parent.exists():
        make_folder(path.parent)
    with _named(path), _parent(path) as (folder, name):
        try:
            os.mkdir(name, dir_fd=folder)
        except FileExistsError:
            with _parent(path / "x"):  # a folder, and not through a link in a protected one
                pass


def check_free(out: Path) -> None:
    """Raise ValueError where existing files would be overwritten."""
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise ValueError(f"{out} already exists and is not empty; choose another folder")


@contextlib.contextmanager
def complete_folder(out: Path) -> Iterator[Path]:
    """A temporary folder that is renamed to ``out`` when the block succeeds: ``out`` is complete or absent."""
    new = out.resolve().with_name(f".{out.resolve().name}.tmp-{secrets.token_hex(4)}")
    try:
        make_folder(new)
        yield new
        rename(new, out)
    except OSError as error:
        raise ValueError(f"cannot write {out}: {error.strerror or error}") from None
    finally:
        with contextlib.suppress(OSError):
            remove_tree(new)


def rename(old: str | Path, new: str | Path) -> None:
    """Rename a file or folder. A file of the new name is replaced."""
    with _parent(old) as (source, name), _parent(new) as (target, new_name):
        os.rename(name, new_name, src_dir_fd=source, dst_dir_fd=target)


def remove(path: str | Path) -> None:
    """Remove a file or link, if there is one."""
    with contextlib.suppress(FileNotFoundError), _parent(path) as (folder, name):
        os.unlink(name, dir_fd=folder)


def remove_empty(path: str | Path) -> None:
    """Remove a folder if it is empty."""
    with contextlib.suppress(OSError), _parent(path) as (folder, name):
        os.rmdir(name, dir_fd=folder)


def remove_tree(path: str | Path) -> None:
    """Remove a folder with everything in it, if there is one. Links in it are removed, not followed."""
    with contextlib.suppress(FileNotFoundError), _parent(path) as (folder, name):
        shutil.rmtree(name, dir_fd=folder)


def sync_folder(path: str | Path) -> None:
    """Wait until the entries of a folder are on disk, where the system supports it."""
    with _parent(Path(path) / "x") as (folder, _):
        _sync(folder)


def _sync(folder: int) -> None:
    try:
        os.fsync(folder)
    except OSError as error:
        if error.errno not in (errno.EINVAL, errno.ENOTSUP):  # some network file systems do not support it
            raise
