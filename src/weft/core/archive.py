"""Files inside a folder or an archive (.tar, .tar.gz, .zip), read by path and never unpacked.

A path may lead into an archive as into a folder: ``photos.tar/cat/1.jpg``. Archives may come from anyone: the number of members
and the size of each are checked before anything is read, links and devices are skipped and counted, and a name that leads out of
the archive is an error.
"""

from __future__ import annotations

import gzip
import os
import stat
import tarfile
import threading
import zipfile
import zlib
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path, PurePosixPath
from typing import Any, NamedTuple

from weft.core.text_stream import GZIP, MAX_EXPANSION, open_regular

ARCHIVES = (".tar", ".tar.gz", ".tgz", ".zip")
"""Suffixes of archives."""
MAX_MEMBER_BYTES = 256 << 20
"""Largest file that is read from a folder or an archive."""
MAX_MEMBERS = 2_000_000
"""Most files of a folder or an archive."""
LINKS = "links and devices"
"""Ledger entry of members that are neither files nor folders."""
_HEADER_BYTES = 1 << 20
"""Largest header of a member: long names, extended attributes."""
_FREE_BYTES = 64 << 20
_OPEN = 8
_DAMAGED = (tarfile.TarError, zipfile.BadZipFile, gzip.BadGzipFile, EOFError, zlib.error, NotImplementedError, RuntimeError)


class Members(NamedTuple):
    """The files of a folder or an archive.

    Args:
        sizes: Bytes of each, by its path inside.
        skipped: Number of members that are not read, by reason.
    """

    sizes: dict[str, int]
    skipped: Counter[str]


def is_archive(path: str | Path) -> bool:
    """Return whether the suffix is that of an archive.

    >>> is_archive("photos.tar.gz"), is_archive("photos.csv.gz")
    (True, False)
    """
    return Path(path).name.lower().endswith(ARCHIVES)


def list_members(path: str | Path) -> Members:
    """Return the files of a folder, in the order of their names, or of an archive, in its order. Hidden files are left out.

    Raises ValueError for a damaged archive, too many files, one that is too large, or a name that leads out of the archive.
    """
    if not Path(path).is_dir():
        opened = _open(str(path))
        return Members({name: member.size for name, member in opened.members.items()}, opened.skipped)
    sizes: dict[str, int] = {}
    skipped: Counter[str] = Counter()
    for file, found in sorted(_walk(Path(path))):
        if not stat.S_ISREG(found.st_mode):
            skipped[LINKS] += 1
            continue
        _check_size(file, found.st_size)
        sizes[file.relative_to(path).as_posix()] = found.st_size
        _check_count(path, len(sizes))
    return Members(sizes, skipped)


def split_path(path: str | Path) -> tuple[str, str]:
    """Return the archive that a path leads into, and the path inside; "" = the file itself.

    >>> split_path("no/such/file")
    ('no/such/file', '')
    """
    path = Path(path)
    if not path.exists():
        for parent in path.parents:
            if is_archive(parent) and parent.is_file():
                return str(parent), path.relative_to(parent).as_posix()
    return str(path), ""


def file_exists(path: str | Path) -> bool:
    """Return whether there is a file of this path, in a folder or an archive."""
    file, inside = split_path(path)
    return inside in _open(file).members if inside else Path(file).is_file()


def position(path: str | Path) -> tuple[str, int]:
    """Return the archive of a path and the position inside: files are read fastest in this order."""
    file, inside = split_path(path)
    member = _open(file).members.get(inside) if inside else None
    return file, member.offset if member else 0


def read_file(path: str | Path) -> bytes:
    """Return the content of a file, in a folder or an archive. Raises ValueError, with the reason alone."""
    file, inside = split_path(path)
    try:
        if inside:
            return _open(file).read(inside)
        with open_regular(file) as stream:
            _check_size(None, os.fstat(stream.fileno()).st_size)
            return stream.read(MAX_MEMBER_BYTES)
    except OSError as error:
        raise ValueError("the file was not found" if isinstance(error, FileNotFoundError) else error.strerror) from None


def _walk(folder: Path) -> Iterator[tuple[Path, os.stat_result]]:
    for base, folders, names in os.walk(folder):
        folders[:] = [name for name in folders if not name.startswith(".")]
        for name in names:
            if not name.startswith("."):
                file = Path(base, name)
                try:
                    yield file, file.stat()
                except OSError:  # a link to nothing
                    yield file, file.lstat()


def _check_size(file: Any, size: int) -> None:
    if size > MAX_MEMBER_BYTES:
        raise ValueError(f"{file or 'the file'} has {size:,} bytes; at most {MAX_MEMBER_BYTES:,} are allowed")


def _check_count(path: str | Path, count: int) -> None:
    if count > MAX_MEMBERS:
        raise ValueError(f"{path}: has more than {MAX_MEMBERS:,} files, which is the maximum")


def _open(path: str) -> _Archive:
    """An archive with its members; of the same file, the same object."""
    try:
        found = Path(path).stat()
    except OSError as error:
        raise ValueError(f"{path}: cannot be read: {error.strerror}") from None
    return _opened(path, found.st_size, found.st_mtime_ns)


@lru_cache(_OPEN)
def _opened(path: str, size: int, changed: int) -> _Archive:
    kind = _Zip if path.lower().endswith(".zip") else _Tar
    return kind(path)


class _Member(NamedTuple):
    size: int
    offset: int
    entry: Any = None


class _Archive(ABC):
    """An archive: its members by their path, in its order."""

    def __init__(self, path: str):
        self.path, self.members, self.skipped = path, dict[str, _Member](), Counter[str]()
        self.lock = threading.Lock()
        self.stream = open_regular(path)
        try:
            self.index()
        except _DAMAGED as error:
            raise self.damaged(error) from None
        finally:
            if not self.members:
                self.stream.close()

    @abstractmethod
    def index(self) -> None:
        """Find the members."""

    @abstractmethod
    def content(self, member: _Member) -> bytes:
        """The bytes of a member, at most one more than its size."""

    def add(self, name: str, member: _Member, is_file: bool, is_folder: bool) -> None:
        """Record a member, unless it is hidden, a folder, a link or a device."""
        path = PurePosixPath(name)
        if path.is_absolute() or ".." in path.parts or "\0" in name or "\\" in name:
            raise ValueError(
                f"{self.path}: the member {name[:200]!r} leads out of the archive; build the archive again without it"
            )
        _check_size(self.named(name), member.size)
        _check_count(self.path, len(self.members) + 1)
        if is_folder or any(part.startswith(".") or part == "__MACOSX" for part in path.parts):
            return
        if is_file:
            self.members[path.as_posix()] = member
        else:
            self.skipped[LINKS] += 1

    def named(self, name: str) -> str:
        """A member, for messages."""
        return f"{self.path}: the member {name[:200]!r}"

    def read(self, name: str) -> bytes:
        if (member := self.members.get(name)) is None:
            raise ValueError("the file was not found in the archive")
        try:
            with self.lock:
                data = self.content(member)
        except _DAMAGED as error:
            raise self.damaged(error) from None
        if len(data) != member.size:
            raise ValueError(f"the archive is truncated or damaged: {len(data):,} of {member.size:,} bytes")
        return data

    def damaged(self, error: Exception) -> ValueError:
        return ValueError(f"{self.path}: damaged or unsupported archive: {error}; get the file again")


class _Tar(_Archive):
    """A tar archive, also compressed by gzip, which is recognized by its first bytes."""

    def index(self) -> None:
        compressed = self.stream.read(2) == GZIP
        self.stream.seek(0)
        self.data: Any = gzip.GzipFile(fileobj=self.stream) if compressed else self.stream
        tar = tarfile.open(fileobj=_Bounded(self.data), mode="r:")  # noqa: SIM115  # pyright: ignore
        while (entry := tar.next()) is not None:
            is_file = entry.isreg() and not entry.issparse()
            self.add(entry.name, _Member(entry.size, entry.offset_data), is_file, entry.isdir())
            if compressed and self.data.tell() > max(_FREE_BYTES, MAX_EXPANSION * self.stream.tell()):
                raise ValueError(f"{self.path}: the gzip data expands to more than {MAX_EXPANSION} times its size")
            tar.members = []  # they would be kept for random access

    def content(self, member: _Member) -> bytes:
        self.data.seek(member.offset)
        return self.data.read(member.size)


class _Bounded:
    """A stream for tarfile, which reads headers of any declared size at once."""

    def __init__(self, stream: Any):
        self.stream = stream
        self.seek, self.tell = stream.seek, stream.tell

    def read(self, size: int = -1) -> bytes:
        if not 0 <= size <= _HEADER_BYTES:
            raise tarfile.ReadError(f"a header of {size:,} bytes; at most {_HEADER_BYTES:,} are allowed")
        return self.stream.read(size)


class _Zip(_Archive):
    """A zip archive of stored or deflated members; for other methods zipfile does not bound the memory."""

    def index(self) -> None:
        self.zip = zipfile.ZipFile(self.stream)
        for entry in self.zip.infolist():
            is_link = stat.S_IFMT(entry.external_attr >> 16) not in (0, stat.S_IFREG, stat.S_IFDIR)
            if entry.flag_bits & 1:
                raise ValueError(f"{self.named(entry.filename)} is encrypted; decrypt the archive first")
            if entry.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
                raise ValueError(f"{self.named(entry.filename)} is not deflated; build the archive with zip -Z deflate")
            self.add(entry.filename, _Member(entry.file_size, entry.header_offset, entry), not is_link, entry.is_dir())

    def content(self, member: _Member) -> bytes:
        with self.zip.open(member.entry) as file:
            return file.read(member.size + 1)
