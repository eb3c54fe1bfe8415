"""Fingerprints of what prepared rows depend on: file contents, options and vocabularies, as JSON values."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

from weft.core.contracts import Codec
from weft.core.io import content_hash
from weft.core.options import IsFile
from weft.core.registry import alternatives, base_of, identity, name_of, option_parameters, option_values
from weft.core.text_stream import data_suffix
from weft.data.codec import save_codec


def of_files(files: list[list[str]]) -> list[Any]:
    """Return suffix and content hash of each file; the suffix decides how a table is parsed."""
    try:
        return [[[data_suffix(file), content_hash(file)] for file in group] for group in files]
    except OSError as error:
        raise ValueError(f"{error.filename}: cannot be read: {error.strerror}") from None


def of_option(value: Any) -> Any:
    """Return an option as a JSON value, with content hashes in place of the files of its parts."""
    base = base_of(value)
    if base is None:
        return identity(value)
    files = {
        n
        for n, p in option_parameters(base).items()
        if any(IsFile in getattr(a, "__metadata__", ()) for a in alternatives(p.annotation))
    }
    chosen = option_values(value).items()
    return [name_of(value), {n: content_hash(v) if n in files and v and Path(v).is_file() else of_option(v) for n, v in chosen}]


def of_codec(codec: Codec) -> list[Any]:
    """Return the content hashes of fields and vocabularies."""
    with tempfile.TemporaryDirectory() as folder:
        save_codec(codec, Path(folder))
        return [[path.name, content_hash(path)] for path in sorted(Path(folder).iterdir())]
