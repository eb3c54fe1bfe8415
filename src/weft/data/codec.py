"""Saving and loading the codec of a run: its fields and tokenizers."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

from weft.core.contracts import Codec, Data
from weft.core.fields import Field, Frame, Info, Special
from weft.core.files import make_folder
from weft.core.io import read_json, write_text
from weft.data.tokenizers.pretrained import PretrainedTokenizer

FORMAT = 2
"""Version of fields.json."""
KINDS = ("text", "texts", "label", "labels", "tags", "span", "number", "vector", "image")


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
    content = {"format": FORMAT, "data": info.data, "target": info.target, "fields": [asdict(f) for f in info.fields.values()]}
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
        raise ValueError(f"{file}: format {version!r} is not supported; this version of weft reads format {FORMAT}")
    try:
        fields = [_field(f) for f in content["fields"]]
        return Info({f.name: f for f in fields}, str(content["target"]), str(content["data"]))
    except (KeyError, TypeError, ValueError) as error:
        raise ValueError(f"{file}: damaged file: {type(error).__name__}: {error}") from None


def _field(content: dict[str, Any]) -> Field:
    special, labels = Special(**content["special"]), tuple(map(str, content["labels"]))
    around = content["frame"]
    first, between, last = (tuple(map(int, around[name])) for name in ("first", "between", "last"))
    single, pair = (tuple((int(i), int(of)) for i, of in around.get(name, ())) for name in ("single", "pair"))
    f = Field(
        **{
            **content,
            "special": special,
            "labels": labels,
            "sentence_ends": tuple(map(int, content["sentence_ends"])),
            "extra_eos": tuple(map(int, content.get("extra_eos", ()))),
            "frame": Frame(first, between, last, bool(around["segments"]), single, pair),
        }
    )
    for name, kind in (("name", str), ("vocab", int), ("kind", str), ("max_length", int), ("space", str)):
        if not isinstance(getattr(f, name), kind):
            raise TypeError(f"{name} is {getattr(f, name)!r}")
    if f.kind not in KINDS or f.vocab < 1 or f.max_length < 1:
        raise ValueError(
            f"the field {f.name!r} has kind {f.kind!r}, {f.vocab} ids and length {f.max_length}; kinds are {', '.join(KINDS)}"
        )
    return f
