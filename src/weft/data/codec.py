"""Saving and loading the codec of a run: its fields and tokenizers."""

from __future__ import annotations

import json
from pathlib import Path

from weft.core.contracts import Codec, Data
from weft.core.fields import Info, UnknownKind, field_from_json
from weft.core.files import make_folder
from weft.core.io import read_json, write_text
from weft.data.tokenizers.pretrained import PretrainedTokenizer

FORMAT = 3
"""Version of fields.json."""


def fields_file(source: str = "") -> str:
    """Return the name of the file with the fields of a source: ``fields.json``, or ``fields-<source>.json`` of a named one."""
    return f"fields-{source}.json" if source else "fields.json"


def save_codec(codec: Codec, folder: Path, source: str = "") -> None:
    """Write ``fields.json``, and ``tokenizer-<space>.json`` for every id space; named sources share the tokenizers."""
    folder = Path(folder)
    make_folder(folder)
    for space, tokenizer in codec.tokenizers.items():
        tokenizer.save(folder / f"tokenizer-{space}.json")
    info = codec.info
    fields = [field.to_json() for field in info.fields.values()]
    content = {"format": FORMAT, "data": info.data, "target": info.target, "fields": fields}
    write_text(folder / fields_file(source), json.dumps(content, indent=1, ensure_ascii=False) + "\n")


def load_codec(data: Data, folder: Path, source: str = "") -> Codec:
    """Load the codec of a run folder; ``data`` provides the untrained tokenizers. ``source``: its name, if it has one."""
    file = Path(folder) / fields_file(source)
    info = _read_info(file)
    tokenizers = data.tokenizers()
    spaces = {f.space for f in info.tokenized()}
    if spaces != set(tokenizers):
        raise ValueError(
            f"{file}: the id spaces are {', '.join(sorted(spaces))}, but the data of the recipe has "
            f"{', '.join(sorted(tokenizers))}; they must agree"
        )
    for space, tokenizer in tokenizers.items():
        tokenizer.load(Path(folder) / f"tokenizer-{space}.json")
    for f in info.tokenized():
        # pretrained models may have embeddings for ids that their tokenizer never produces
        if f.vocab < tokenizers[f.space].vocab or (
            f.vocab > tokenizers[f.space].vocab and not isinstance(tokenizers[f.space], PretrainedTokenizer)
        ):
            raise ValueError(
                f"{file}: the field {f.name!r} has {f.vocab} ids, but tokenizer-{f.space}.json has {tokenizers[f.space].vocab}; "
                "they must agree"
            )
    return Codec(info, tokenizers)


def _read_info(file: Path) -> Info:
    try:
        content = read_json(file)
    except FileNotFoundError:
        raise ValueError(f"{file}: file not found; is this a run folder?") from None
    except OSError as error:
        raise ValueError(f"{file}: cannot be read: {error.strerror}") from None
    version = content.get("format") if isinstance(content, dict) else None
    if version != FORMAT:
        raise ValueError(f"{file}: format {version!r} is not supported; this version of weft reads format {FORMAT}; train again")
    try:
        fields = [field_from_json(f) for f in content["fields"]]
        return Info({f.name: f for f in fields}, str(content["target"]), str(content["data"]))
    except UnknownKind as error:
        raise ValueError(f"{file}: {error}") from None
    except (KeyError, TypeError, ValueError) as error:
        raise ValueError(f"{file}: damaged file: {_reason(error)}") from None


def _reason(error: Exception) -> str:
    return str(error) if isinstance(error, ValueError) else f"{type(error).__name__}: {error}"
