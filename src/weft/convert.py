"""Between a run's folder and the published (Hugging Face) layout."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

from weft.batch import PLACES
from weft.build import plans
from weft.catalog import is_composition, name_of
from weft.files import write_text
from weft.folder import RunFolder
from weft.models import save
from weft.slots import Codec


def to_published(run_folder: str | Path, out: str | Path, kind: str | None = None) -> Path:
    """Write a trained run as a published model: config.json, model.safetensors, and its tokenizer.json.

    Args:
        run_folder: The run.
        out: A folder that is not there yet, or is empty.
        kind: The family (``bert``, ``gpt2``, ...); None = the one that is exactly this structure.
    """
    from weft.run import load

    out = Path(out)
    if out.exists() and any(out.iterdir()):
        raise ValueError(f"{out} is there already and not empty: choose another folder")
    run = load(run_folder, "cpu")
    assert run.codec is not None
    structure = plans(run)[-1].structure
    structure = structure() if is_composition(structure) else structure
    config = _ids(run.codec)
    if name_of(structure) == "seq2seq-classifier":  # its decoder begins with the end mark
        config["decoder_start_token_id"] = config["eos_token_id"]
    save(run.model, structure, out, kind=kind, config=config)
    for space in run.codec.tokenizers:
        own = RunFolder(run_folder).path / f"tokenizer-{space}.json"
        name = "tokenizer.json" if len(run.codec.tokenizers) == 1 else f"tokenizer-{space}.json"
        if own.is_file():
            shutil.copyfile(own, out / name)
    write_text(out / "README.md", f"Written by weft from the run {RunFolder(run_folder).path.name}.\n")
    return out


def _ids(codec: Codec) -> dict[str, Any]:
    """What config.json says of ids and classes."""
    info = codec.info
    field = info[info.target] if info.target in info else info.texts()[0]
    special = field.special
    found: dict[str, Any] = {"bos_token_id": special.bos, "eos_token_id": special.eos}
    if len(info.texts()) > 1:
        found["decoder_start_token_id"] = special.bos
    for name in ("label", "tags"):
        if name in info and info[name].labels and info[name].labels != PLACES:  # those of choices are no classes of the model
            labels = info[name].labels
            found |= {"id2label": {str(i): n for i, n in enumerate(labels)}, "label2id": {n: i for i, n in enumerate(labels)}}
    return found | ({"pad_token_id": special.pad} if special.pad >= 0 else {})
