"""Rules that detect images: folders and archives of them, and tables that name them."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

import numpy as np

from weft.core.archive import file_exists, is_archive, list_members, read_file
from weft.core.image_file import header, is_image
from weft.data.sources.cursor import Cursor
from weft.data.sources.image_rows import IMAGE, Collection, Entry
from weft.data.sources.image_text import CAPTION
from weft.data.sources.json_rows import is_json
from weft.data.sources.labeled_images import LABEL
from weft.data.sources.parsing import ColumnSpec, TableFormat, is_table, records, to_cell
from weft.experiments.scaffold.columns import TableColumn
from weft.experiments.scaffold.delimiters import Separation, detect_separation
from weft.experiments.scaffold.detected_data import IMAGE_SOURCES, DetectedData, Paths, files_of, skip_rows, yaml_string

MAX_ROWS = 500
_SAMPLED = 40
"""Images whose size is read."""
_MAX_SIDE, _MIN_SIDE, _STEP = 96, 8, 8
_TEXT_WORDS = 3
"""Mean number of words of a cell from which it is a text and not a class."""


@dataclass(frozen=True)
class ImageSize:
    """The size and the channels that fit the images, and how they are resized to it."""

    side: int
    channels: int
    resize: str


def detect_images(
    given: Sequence[str], split_of: Mapping[str, str], source: str | None, label: str | None
) -> DetectedData | None:
    """Return the data source of folders, archives or tables of images; None for other files.

    Args:
        given: Files and folders.
        split_of: The split that a word in a name selects.
        source: Catalog name of the data source to read them as; None = detect it.
        label: The column of labels of a table; None = detect it.
    """
    if source not in (None, *IMAGE_SOURCES):
        return None
    splits: dict[str, Paths] = {}
    for path in [part for one in given for part in _expand(one, split_of)]:
        words = re.split(r"[^a-z]+", Path(path).name.lower())
        split = next((split_of[word] for word in reversed(words) if word in split_of), "train")
        splits[split] = [*files_of(splits.get(split, [])), path]
    if "train" not in splits:
        return None
    first = files_of(splits["train"])[0]
    if is_table(first):
        found = _read_table(first)
        return None if found is None else _table(splits, found, label)
    if any(is_table(path) for paths in splits.values() for path in files_of(paths)) or not _has_images(first):
        return None
    return _collection(splits, first, source)


def _expand(path: str, split_of: Mapping[str, str]) -> list[str]:
    """The parts of a folder: a folder or an archive for each split, or the tables that name the images beside them."""
    if not Path(path).is_dir():
        return [path]
    inside = sorted(entry for entry in Path(path).iterdir() if not entry.name.startswith("."))
    if any(entry.is_dir() or is_archive(entry) or is_image(entry) for entry in inside):
        tables = [str(entry) for entry in inside if entry.is_file() and is_table(str(entry))]
        if naming := [table for table in tables if _read_table(table) is not None]:
            return naming
    splits = [entry for entry in inside if (entry.is_dir() or is_archive(entry)) and entry.name.split(".")[0].lower() in split_of]
    return [str(entry) for entry in splits] or [path]


def _has_images(path: str) -> bool:
    """Whether at least half of the files of a folder or an archive are images, or belong to one."""
    if not (is_archive(path) or Path(path).is_dir()):
        return False
    try:
        names = list(list_members(path).sizes)
    except ValueError:  # the rules for texts report what it is
        return False
    return 2 * sum(map(is_image, names)) >= len(names) > 0 or bool(Collection(path).entries)


# ---------------------------------------------------------------------------------------------------- folders and archives


def _collection(splits: dict[str, Paths], path: str, source: str | None) -> DetectedData | None:
    collection = Collection(path)
    kind = "an archive" if is_archive(path) else "a folder"
    options = _size_options(entry.path for entry in collection.entries)
    suffix = next((suffix for suffix in (".cls", ".json", ".txt") if suffix in collection.beside), "")
    if not suffix:
        classes = sorted({entry.folder for entry in collection.entries if entry.folder})
        if len(classes) < 2:
            raise ValueError(
                f"{path}: {len(collection.entries):,} images without labels or texts: no folder for each class, no file of the "
                "same name beside an image (.cls, .json, .txt), and no table"
            )
        shown = ", ".join(classes[:5]) + (", ..." if len(classes) > 5 else "")
        reason = f"{kind} of images with a folder for each of {len(classes)} classes ({shown})"
        detected = DetectedData("labeled-images", splits, options, reason)
    else:
        entries = [entry for entry in islice(collection.entries, MAX_ROWS) if suffix in entry.beside]
        texts = source == "image-text" or (source is None and suffix != ".cls" and _are_texts(entries, suffix))
        reason = f"{kind} of images with {'texts' if texts else 'labels'} in files beside them ({suffix})"
        detected = DetectedData("image-text" if texts else "labeled-images", splits, options, reason)
    detected.rows = len(collection.entries)
    if collection.other:
        detected.remarks.append(f"not read, as they are no images: {collection.other:,} files of {path}")
    return detected


def _are_texts(entries: Sequence[Entry], suffix: str) -> bool:
    """Whether the files beside images have texts and not classes."""
    cells: list[str] = []
    for entry in entries:
        try:
            if suffix == ".txt":
                cells.append(entry.text(suffix).strip())
                continue
            value = entry.json()
            name = ColumnSpec(None, CAPTION).find(value)
            if name is None:
                return False
            cells.append(to_cell(value[name], name))
        except ValueError:  # reported when it is read
            continue
    column = TableColumn("text", [cell for cell in cells if cell])
    return column.mean_words >= _TEXT_WORDS and not column.is_label


# ----------------------------------------------------------------------------------------------------------------- tables


@dataclass(frozen=True)
class _ImageTable:
    """A table that names images: how its columns are separated (None: JSON), its cells, and its columns of images."""

    file: str
    separation: Separation | None
    cells: Mapping[str, list[str]]
    images: Sequence[str]


def _read_table(file: str) -> _ImageTable | None:
    """The first rows of a table; None where it names no images."""
    try:
        separation = None if is_json(file) else detect_separation(file, "utf-8")
        if separation is None and not is_json(file):
            return None
        layout = TableFormat() if separation is None else separation.layout
        rows = [row.values for row in islice(records(Cursor([file]), layout), MAX_ROWS) if row.values and not row.problem]
        cells: dict[str, list[str]] = {}
        for row in rows:
            for name, value in row.items():
                cells.setdefault(str(name), []).append(to_cell(value, str(name)).strip())
    except ValueError:  # not in UTF-8, or malformed: a table of images has no other reading
        return None
    images = [name for name, found in cells.items() if _are_images(found)]
    return _ImageTable(file, separation, cells, images) if images else None


def _table(splits: dict[str, Paths], table: _ImageTable, label: str | None) -> DetectedData:
    """A table that names images, with labels or texts."""
    image, options = table.images[0], table.separation.options(table.file) if table.separation else {}
    folder = _folder_of(table.file, table.cells[image])
    parts = Counter(len(cell.split("\t")) for cell in table.cells[image] if cell)
    views = parts.most_common(1)[0][0]
    if image != ColumnSpec(None, IMAGE).find([*table.cells]):
        options["image"] = yaml_string(image)
    if views > 1:
        options["views"] = str(views)
    base = Path(table.file).parent if folder is None else Path(folder)
    options |= _size_options(str(base / part) for cell in table.cells[image] for part in cell.split("\t"))
    kind = "a JSON file" if table.separation is None else f"a table, {table.separation.description},"
    others = {name: found for name, found in table.cells.items() if name not in table.images}
    detected = _labels_or_texts(splits, options, others, label, kind)
    detected.columns, detected.folder = {"image": image, **detected.columns}, folder
    if len(table.images) > 1:
        also = ", ".join(table.images[1:])
        detected.remarks.append(f"other columns of images: {also}; to use all: data.image=[{image}, {also}]")
    if views > 1 and len(parts) > 1:
        other = sum(count for number, count in parts.items() if number != views)
        detected.options["on_bad_row"] = skip_rows(other, parts.total(), f"have another number of images than {views}")
    return detected


def _labels_or_texts(
    splits: dict[str, Paths], options: dict[str, str], cells: Mapping[str, list[str]], label: str | None, kind: str
) -> DetectedData:
    """Labeled images, or images with texts, by the other columns of a table."""
    columns = [TableColumn(name, [cell for cell in found if cell]) for name, found in cells.items()]
    texts = [column for column in columns if column.cells and column.mean_words >= _TEXT_WORDS and not column.is_label]
    labels = [column for column in columns if column.distinct > 1 and (column.is_label or column.is_continuous)]
    named = [column for column in labels if column.key in LABEL]
    if label is not None:
        if label not in cells:
            raise ValueError(f"there is no column {label!r}; the columns are: {', '.join(cells)}")
        named = [column for column in columns if column.name == label]
    chosen = (named or ([] if texts else [column for column in labels if column.key not in ("id", "split")]))[:1]
    shown = ", ".join(cells)
    if chosen:
        detected = DetectedData(
            "labeled-images", splits, options, f"{kind} with file names of images and a label (columns: {shown})"
        )
        options |= {} if chosen[0].name == ColumnSpec(None, LABEL).find([*cells]) else {"label": yaml_string(chosen[0].name)}
        if chosen[0].is_continuous:
            detected.label_type, options["label_type"] = "number", "number"
        elif separator := chosen[0].separator:
            detected.label_type, options["label_type"] = "multiple", "multiple"
            options |= {"separator": repr(separator)} if separator not in ("|", "\t") else {}
        detected.columns["label"] = chosen[0].name
        return detected
    if not texts:
        raise ValueError(f"the columns {shown} beside the images hold neither labels nor texts; pass --label COLUMN")
    best = next((column for column in texts if column.key in CAPTION), max(texts, key=lambda column: column.mean_words))
    options |= {} if best.name == ColumnSpec(None, CAPTION).find([*cells]) else {"caption": yaml_string(best.name)}
    detected = DetectedData("image-text", splits, options, f"{kind} with file names of images and texts (columns: {shown})")
    detected.columns["caption"] = best.name
    return detected


def _are_images(cells: Sequence[str]) -> bool:
    """Whether 90% of the cells are names of image files, or lists of them."""
    filled = [cell for cell in cells if cell]
    return bool(filled) and sum(all(map(is_image, cell.split("\t"))) for cell in filled) >= 0.9 * len(filled)


def _folder_of(table: str, cells: Sequence[str]) -> str | None:
    """The folder or archive beside a table that its file names are relative to; None = that of the table."""
    names = [part for cell in cells[:20] for part in cell.split("\t") if part]
    base = Path(table).parent
    if any(file_exists(base / name) for name in names):
        return None
    inside = sorted(entry for entry in base.iterdir() if entry.is_dir() or is_archive(entry))
    for entry in inside:
        if any(file_exists(entry / name) for name in names):
            return str(entry)
    raise ValueError(
        f"{table}: the images were not found, such as {names[0]}: neither in the folder of the table nor in one beside it; put "
        "the table beside them, or write the recipe by hand with the option folder"
    )


# ------------------------------------------------------------------------------------------------------------------ sizes


def _size_options(paths: Iterator[str]) -> dict[str, str]:
    size = image_size(list(islice(paths, 0, MAX_ROWS, max(1, MAX_ROWS // _SAMPLED))))
    options = {"size": str(size.side), "resize": size.resize, "normalization": "measured"}
    return options if size.channels == 3 else {**options, "channels": str(size.channels)}


def image_size(paths: Sequence[str]) -> ImageSize:
    """Return the size for images: the median of their shorter sides, a multiple of 8 between 8 and 96."""
    found: list[tuple[int, int, bool]] = []
    for path in paths:
        try:
            found.append(header(read_file(path)))
        except ValueError:  # reported when it is read
            continue
    if not found:
        return ImageSize(_MAX_SIDE, 3, "stretch")
    shorter = int(np.median([min(width, height) for width, height, _ in found]))
    side = min(_MAX_SIDE, max(_MIN_SIDE, shorter // _STEP * _STEP))
    square = all(width == height for width, height, _ in found)
    return ImageSize(side, 1 if all(gray for *_, gray in found) else 3, "stretch" if square else "crop")
