"""Folders and archives are listed and read by path; hostile ones are refused or counted before anything is read."""

from __future__ import annotations

import gzip
import io
import os
import tarfile
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from weft.core import archive
from weft.core.archive import LINKS, file_exists, list_members, read_file, split_path

FILES = {"cat/1.jpg": b"one", "cat/2.jpg": b"two" * 1000, "dog/deep/3.jpg": b""}


def write(path: Path, files: dict[str, bytes], *special: tarfile.TarInfo) -> Path:
    """A folder or an archive of these files, by suffix."""
    if path.suffix == ".zip":
        with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as zipped:
            for name, data in files.items():
                zipped.writestr(name, data)
    elif path.suffix:
        with tarfile.open(path, "w:gz" if path.suffix == ".gz" else "w") as tar:
            for name, data in files.items():
                entry = tarfile.TarInfo(name)
                entry.size = len(data)
                tar.addfile(entry, io.BytesIO(data))
            for entry in special:
                tar.addfile(entry)
    else:
        for name, data in files.items():
            (path / name).parent.mkdir(parents=True, exist_ok=True)
            (path / name).write_bytes(data)
    return path


@pytest.mark.parametrize("name", ["photos", "photos.tar", "photos.tar.gz", "photos.zip"])
def test_members_are_listed_and_read_in_any_order(tmp_path: Path, name: str) -> None:
    path = write(tmp_path / name, {**FILES, ".hidden/x.jpg": b"x", "__MACOSX/._1.jpg" if name != "photos" else ".y": b"y"})
    assert list_members(path).sizes == {name: len(data) for name, data in FILES.items()}
    for _ in range(2):
        assert {member: read_file(path / member) for member in reversed(FILES)} == FILES
    assert file_exists(path / "cat/1.jpg") and not file_exists(path / "cat/9.jpg") and not file_exists(path / "cat")
    with pytest.raises(ValueError, match="not found"):
        read_file(path / "cat/9.jpg")


def test_a_path_leads_into_an_archive_only_where_there_is_one(tmp_path: Path) -> None:
    write(tmp_path / "a.zip", FILES)
    write(tmp_path / "folder.tar", {})  # an archive by name, of no members
    assert split_path(tmp_path / "a.zip/cat/1.jpg") == (str(tmp_path / "a.zip"), "cat/1.jpg")
    assert split_path(tmp_path / "a.txt/cat/1.jpg") == (str(tmp_path / "a.txt/cat/1.jpg"), "")
    assert list_members(tmp_path / "folder.tar").sizes == {}


def test_an_archive_that_is_replaced_is_read_again(tmp_path: Path) -> None:
    path = write(tmp_path / "a.tar", {"1": b"old"})
    assert read_file(path / "1") == b"old"
    write(tmp_path / "b.tar", {"1": b"newer"}).replace(path)
    os.utime(path, ns=(1, 1))
    assert read_file(path / "1") == b"newer"


def special(name: str, kind: bytes, link: str = "") -> tarfile.TarInfo:
    entry = tarfile.TarInfo(name)
    entry.type, entry.linkname = kind, link
    return entry


def test_links_and_devices_are_counted_and_not_read(tmp_path: Path) -> None:
    kinds = [(tarfile.SYMTYPE, "/etc/passwd"), (tarfile.LNKTYPE, "cat/1.jpg"), (tarfile.CHRTYPE, ""), (tarfile.FIFOTYPE, "")]
    entries = [special(f"{number}.jpg", kind, link) for number, (kind, link) in enumerate(kinds)]
    found = list_members(write(tmp_path / "a.tar", FILES, *entries))
    assert found.sizes.keys() == FILES.keys() and found.skipped == {LINKS: 4}
    path = tmp_path / "a.zip"
    with zipfile.ZipFile(path, "w") as zipped:
        entry = zipfile.ZipInfo("link.jpg")
        entry.external_attr = 0o120777 << 16
        zipped.writestr(entry, "/etc/passwd")
    assert list_members(path) == ({}, {LINKS: 1})
    folder = write(tmp_path / "photos", FILES)
    os.mkfifo(folder / "pipe.jpg")
    (folder / "nowhere.jpg").symlink_to(tmp_path / "nowhere")
    found = list_members(folder)
    assert found.sizes.keys() == FILES.keys() and found.skipped == {LINKS: 2}


@pytest.mark.parametrize("name", ["../x.jpg", "cat/../../x.jpg", "/etc/x.jpg", "..\\x.jpg"])
@pytest.mark.parametrize("suffix", ["tar", "zip"])
def test_names_that_lead_out_are_refused(tmp_path: Path, name: str, suffix: str) -> None:
    path = write(tmp_path / f"a.{suffix}", {**FILES, name: b"x"})
    with pytest.raises(ValueError, match=r"a\.(tar|zip): the member '.*' leads out of the archive"):
        list_members(path)


def big_zip(path: Path) -> None:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as zipped, zipped.open("big.jpg", "w") as member:
        for _ in range(3):
            member.write(bytes(1 << 20))


def lying_zip(path: Path) -> None:
    """Declares that a member of 3 MB has 10 bytes."""
    big_zip(path)
    data = path.read_bytes()
    size = (3 << 20).to_bytes(4, "little")
    path.write_bytes(data.replace(size, (10).to_bytes(4, "little")))


def huge_header(path: Path) -> None:
    entry = special("x", tarfile.XHDTYPE)
    entry.size = 1 << 32
    path.write_bytes(entry.tobuf())


def gzip_bomb(path: Path) -> None:
    entry = tarfile.TarInfo("a.jpg")
    entry.size = 1 << 20
    block = entry.tobuf() + bytes(1 << 20)
    path.write_bytes(gzip.compress(block * 80))


def encrypted(path: Path) -> None:
    write(path, FILES)
    data = bytearray(path.read_bytes())
    at = data.index(b"PK\x01\x02")
    data[at + 8] |= 1
    path.write_bytes(data)


@pytest.mark.parametrize(
    ("name", "make", "message"),
    [
        ("a.zip", big_zip, r"the member 'big.jpg' has 3,145,728 bytes; at most 2,000,000 are allowed"),
        ("a.tar", huge_header, r"a header of 4,294,967,296 bytes"),
        ("a.tar.gz", gzip_bomb, r"expands to more than 200 times its size"),
        ("a.zip", encrypted, r"the member 'cat/1.jpg' is encrypted"),
        ("a.zip", lambda path: path.write_bytes(b"PK no archive"), r"a\.zip: damaged or unsupported archive"),
        ("a.tar", lambda path: path.write_bytes(b"no archive" * 100), r"a\.tar: damaged or unsupported archive"),
        ("a.tar.gz", lambda path: path.write_bytes(gzip.compress(b"x" * 2000)[:-10]), r"damaged or unsupported archive"),
        ("a.tar", lambda path: write(path, dict.fromkeys(map(str, range(11)), b"")), r"has more than 10 files"),
        ("a.zip", lambda path: write(path, dict.fromkeys(map(str, range(11)), b"")), r"has more than 10 files"),
        ("a", lambda path: write(path, dict.fromkeys(map(str, range(11)), b"")), r"has more than 10 files"),
    ],
)
def test_bombs_and_damaged_archives_are_refused(
    tmp_path: Path, name: str, make: Callable[[Path], object], message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(archive, "MAX_MEMBER_BYTES", 2_000_000)
    monkeypatch.setattr(archive, "MAX_MEMBERS", 10)
    make(tmp_path / name)
    with pytest.raises(ValueError, match=message):
        list_members(tmp_path / name)


def test_a_member_with_another_size_than_declared_is_an_error(tmp_path: Path) -> None:
    lying_zip(tmp_path / "a.zip")
    with pytest.raises(ValueError, match=r"damaged"):
        read_file(tmp_path / "a.zip/big.jpg")
    write(tmp_path / "b.tar", {"1.jpg": b"x" * 10_000})
    (tmp_path / "b.tar").write_bytes((tmp_path / "b.tar").read_bytes()[:5000])
    with pytest.raises(ValueError, match=r"damaged"):
        read_file(tmp_path / "b.tar/1.jpg")
