"""What prepared rows depend on, as JSON can say it: the content of files, the options of parts, vocabularies."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

from weft.core.contracts import Codec
from weft.core.io import content_hash
from weft.core.options import IsFile
from weft.core.registry import alternatives, base_of, choices, identity, name_of, options
from weft.data.codec import save_codec


def of_files(files: list[list[str]]) -> list[Any]:
    """What the files hold. Their endings matter too: they say how a table is written."""
    try:
        return [[[Path(file).suffix.lower(), content_hash(file)] for file in some] for some in files]
    except OSError as error:
        raise ValueError(f"{error.filename}: cannot be read: {error.strerror}") from None


def of_option(value: Any) -> Any:
    """An option as JSON can say it; of a part that names a file, the file's content."""
    base = base_of(value)
    if base is None:
        return identity(value)
    files = {
        n for n, p in choices(base).items() if any(IsFile in getattr(a, "__metadata__", ()) for a in alternatives(p.annotation))
    }
    chosen = options(value).items()
    return [name_of(value), {n: content_hash(v) if n in files and v and Path(v).is_file() else of_option(v) for n, v in chosen}]


def of_codec(codec: Codec) -> list[Any]:
    """What the numbers depend on besides the rows: fields and vocabularies."""
    with tempfile.TemporaryDirectory() as folder:
        save_codec(codec, Path(folder))
        return [[path.name, content_hash(path)] for path in sorted(Path(folder).iterdir())]
