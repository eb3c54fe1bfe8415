"""Where a converted run folder comes from: config.json and companion files of the published model, in published.json."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from weft.core.io import read_json, write_json
from weft.pretrained import PublishedModel
from weft.pretrained.generation_config import GENERATION_CONFIG
from weft.training.run_folder import FORMAT, RunFolder

COMPANIONS = (GENERATION_CONFIG, "tokenizer_config.json", "special_tokens_map.json")
"""Files of a published model that are stored with its config.json. No others are written back."""


@dataclass(frozen=True)
class PublishedFiles:
    """config.json and companion files of the published model that a run folder was converted from.

    Args:
        config: Content of config.json; empty for a run that weft trained.
        files: Content of the companion files by name.
    """

    config: dict[str, Any] = field(default_factory=dict)
    files: dict[str, dict[str, Any]] = field(default_factory=dict)


def read_origin(folder: Path) -> PublishedFiles:
    """Read published.json of a run folder; empty if there is none. Raises ValueError where it is not as weft writes it."""
    file = RunFolder(folder).origin
    if not file.is_file():
        return PublishedFiles()
    found = read_json(file)
    if not isinstance(found, dict) or found.get("format") != FORMAT:
        raise ValueError(f"{file}: not a file that this version of weft wrote (format {FORMAT}); convert the model again")
    config, files = found.get("config"), found.get("files", {})
    if not isinstance(config, dict) or not isinstance(files, dict):
        raise ValueError(f"{file}: config and files must be JSON objects; convert the model again")
    for name, content in files.items():
        if name not in COMPANIONS:
            raise ValueError(f"{file}: files: unknown name {name!r}; allowed are {', '.join(COMPANIONS)}")
        if not isinstance(content, dict):
            raise ValueError(f"{file}: files.{name} must be a JSON object, not {type(content).__name__}")
    return PublishedFiles(config, files)


def write_origin(folder: Path, model: PublishedModel) -> None:
    """Write published.json: the config of a published model and its companion files."""
    files = {name: found for name in COMPANIONS if (found := model.layout.document(name)) is not None}
    origin = {"format": FORMAT, "from": str(model.path.resolve()), "config": model.config, "files": files}
    write_json(RunFolder(folder).origin, origin)
