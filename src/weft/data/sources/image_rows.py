"""Rows of images: tables of file names, and folders and archives with the files of an example side by side."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path, PurePosixPath
from typing import Any, NamedTuple

from weft.core.archive import LINKS, Members, file_exists, is_archive, list_members, read_file, split_path
from weft.core.image_file import is_image
from weft.core.io import content_hash, parse_json
from weft.data.ledger import OTHER_FILES
from weft.data.sources.cursor import Cursor
from weft.data.sources.parsing import ColumnSpec, ParsedRow, TableFormat, table, to_cell

IMAGE = ("image", "images", "file", "file_name", "filename", "path", "img", "photo")
"""Usual names of the column of file names."""
BESIDE = (".cls", ".json", ".txt")
"""Suffixes of the files beside an image, of the same name, as in WebDataset."""
_TEXT_BYTES = 1 << 20


def is_collection(path: str) -> bool:
    """Return whether a path is a folder or an archive of images, rather than a table or an image."""
    return is_archive(path) or Path(path).is_dir()


class TableOfImages(NamedTuple):
    """How the rows of a table name their images.

    Args:
        columns: Columns of file names; None = the first with a usual name.
        fields: The fields of an example, one for each of its images.
        folder: Folder or archive that file names are relative to; None = that of the table.
    """

    columns: Sequence[str] | None
    fields: Sequence[str]
    folder: str | None

    def specs(self) -> dict[str, ColumnSpec]:
        """The columns to read."""
        if self.columns is None:
            return {"image": ColumnSpec(None, IMAGE)}
        return {f"image {number}": ColumnSpec(column) for number, column in enumerate(self.columns)}

    def images(self, file: str, cells: Mapping[str, str]) -> tuple[dict[str, str], str, str]:
        """Return the cells of the images of a row, their names in the table, and the problem ("" = none)."""
        names = [name.strip() for column in self.specs() for name in cells[column].split("\t") if name.strip()]
        if not names:
            return {}, "", "image is empty"
        if len(names) != len(self.fields):
            return {}, "", f"{len(names)} images; the option image or views declares {len(self.fields)}"
        base = Path(file).parent if self.folder is None else Path(self.folder)
        return dict(zip(self.fields, (str(base / name) for name in names), strict=True)), "\t".join(names), ""


def table_rows(
    cursor: Cursor, of: TableOfImages, columns: Mapping[str, ColumnSpec], layout: TableFormat, check: bool = True
) -> Iterator[ParsedRow]:
    """Yield the rows of the current table: the paths of the images, their names (``name``) and other columns.

    Args:
        cursor: Where to read.
        of: How the rows name their images.
        columns: Other columns to read.
        layout: How the columns are separated.
        check: Whether a missing image is a problem of the row.
    """
    for row in table(cursor, {**of.specs(), **columns}, layout):
        if row.problem or not row.cells:
            yield row
            continue
        images, name, problem = of.images(row.file, row.cells)
        if check and not problem:
            missing = next((path for path in images.values() if not file_exists(path)), None)
            where = "relative to the folder of the table" if of.folder is None else "relative to the option folder"
            problem = "" if missing is None else f"image not found: {missing}; file names are {where}"
        others = {column: row.cells[column].strip() for column in columns if column in row.cells}
        yield row._replace(cells={**images, **others, "name": name}, problem=problem)


class Entry(NamedTuple):
    """An image of a folder or an archive.

    Args:
        name: Its path inside.
        path: Its path.
        beside: Suffixes of the files of the same name beside it.
        folder: The first folder that it is in, below those that all images are in; "" = none.
        end: Bytes of all files up to this one.
    """

    name: str
    path: str
    beside: frozenset[str]
    folder: str
    end: int

    def text(self, suffix: str) -> str:
        """The content of the file of this suffix beside it. Raises ValueError with its path."""
        path = self.path.removesuffix(PurePosixPath(self.name).suffix) + suffix
        try:
            data = read_file(path)
            if len(data) > _TEXT_BYTES:
                raise ValueError(f"has {len(data):,} bytes; at most {_TEXT_BYTES:,} are allowed")
            return data.decode("utf-8-sig")
        except ValueError as error:
            reason = "not in UTF-8" if isinstance(error, UnicodeDecodeError) else error
            raise ValueError(f"{path}: {reason}") from None

    def json(self) -> dict[str, Any]:
        """The object in the .json file beside it."""
        text = self.text(".json")
        path = self.path.removesuffix(PurePosixPath(self.name).suffix) + ".json"
        try:
            found = parse_json(text, constants=False)
        except ValueError as error:
            raise ValueError(f"{path}: {error}") from None
        if not isinstance(found, dict):
            raise ValueError(f"{path}: must have an object {{...}}, not {text[:40]!r}")
        return found

    def column(self, spec: ColumnSpec, option: str) -> Any:
        """The value of a key of the .json file beside it."""
        value = self.json()
        if (name := spec.find(value)) is None:
            raise ValueError(spec.missing(value, option))
        return value[name]

    def cell(self, spec: ColumnSpec, option: str) -> str:
        """The same as a cell."""
        return to_cell(self.column(spec, option), option)


class Collection:
    """The images of a folder or an archive.

    Args:
        path: The folder or archive.

    Attributes:
        beside: Suffixes of files beside images.
        other: Number of files that are neither images nor beside one.
        skipped: Number of links and devices.
    """

    def __init__(self, path: str):
        self.path, members = path, list_members(path)
        stems: dict[str, set[str]] = {}
        for name in members.sizes:
            if not is_image(name):
                stem, suffix = _split(name)
                stems.setdefault(stem, set()).add(suffix)
        self.entries = list(self._find(members, stems))
        used = sum(len(entry.beside) for entry in self.entries)
        self.beside = frozenset().union(*(entry.beside for entry in self.entries))
        self.other = len(members.sizes) - len(self.entries) - used
        self.skipped = members.skipped[LINKS]

    def _find(self, members: Members, stems: dict[str, set[str]]) -> Iterator[Entry]:
        images = [name for name in members.sizes if is_image(name)]
        above, end = _shared_folders(images) if is_archive(self.path) else 0, 0
        sizes = dict(members.sizes)
        for name in images:
            stem, _ = _split(name)
            folders = PurePosixPath(name).parts[above:-1]
            end += sizes[name]
            beside = frozenset(stems.pop(stem, ())) & set(BESIDE) if stem in stems else frozenset()
            yield Entry(name, f"{self.path}/{name}", frozenset(beside), folders[0] if folders else "", end)

    def rows(self, cursor: Cursor) -> Iterator[Entry]:
        """Yield the images that the cursor has not passed, and count the other files."""
        if not cursor.line:
            cursor.counts[OTHER_FILES] += self.other
            cursor.counts[LINKS] += self.skipped
        for entry in self.entries[cursor.line :]:
            cursor.line += 1
            cursor.advance(entry.end)
            yield entry
        cursor.leave()


def _split(name: str) -> tuple[str, str]:
    """A path without its suffix, and the suffix in lower case."""
    suffix = PurePosixPath(name).suffix
    return name.removesuffix(suffix), suffix.lower()


def _shared_folders(names: Sequence[str]) -> int:
    """Number of folders that all paths begin with; at least one is left where there are any."""
    folders = {PurePosixPath(name).parts[:-1] for name in names}
    if not folders:
        return 0
    shortest = min(map(len, folders))
    shared = next((n for n in range(shortest) if len({path[n] for path in folders}) > 1), shortest)
    return min(shared, max(0, shortest - 1))


def collection_fingerprint(path: str) -> Any:
    """Return what the images of a folder or an archive depend on: its content; of a folder, names, sizes and times of change."""
    if not Path(path).is_dir():
        return content_hash(path)
    return _hash_files(path, list_members(path).sizes)


def paths_fingerprint(paths: Iterable[str]) -> str:
    """Return what files depend on: their paths, sizes and times of change."""
    return _hash_files("", paths)


def _hash_files(base: str, names: Iterable[str]) -> str:
    digest = hashlib.blake2b(digest_size=16)
    for name in names:
        try:
            found = Path(split_path(Path(base, name))[0]).stat()
            digest.update(f"{name}\0{found.st_size}\0{found.st_mtime_ns}\n".encode("utf-8", "surrogatepass"))
        except OSError:  # reported when it is read
            digest.update(f"{name}\0missing\n".encode("utf-8", "surrogatepass"))
    return digest.hexdigest()
