"""The Hugging Face layout: a folder with config.json, safetensors in one file or several, and companion files."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor

from weft.core.files import copy_file
from weft.core.io import read_json
from weft.pretrained.layout import ModelLayout

CONVERT = (
    "weft loads only safetensors, because a pickle can execute code. If you trust the file, convert it with the package "
    "transformers: transformers.{architecture}.from_pretrained(folder).save_pretrained(new_folder, safe_serialization=True), and "
    "copy the tokenizer files"
)
COMPANION_FILES = ("*.json", "*.txt", "*.model", "[0-9]_*/*.json", "[0-9]_*/*.safetensors")
"""Other files of a published model: tokenizer, generation configuration, modules of sentence-transformers."""


class HuggingFaceFolder(ModelLayout):
    """The folder of a model in the Hugging Face layout."""

    def read_config(self) -> dict[str, Any]:
        file = self.path / "config.json"
        if not file.is_file():
            raise ValueError(f"{self.path} is not the folder of a published model: it has no config.json and no .gguf file")
        config = read_json(file)
        if not isinstance(config, dict):
            raise ValueError(f"{file}: must be a JSON object with the model's hyperparameters, not a {type(config).__name__}")
        return config

    @property
    def names(self) -> Sequence[str]:
        return list(self._files)

    @cached_property
    def _files(self) -> dict[str, Path]:
        """Tensor name -> the file that holds it."""
        index, single = self.path / "model.safetensors.index.json", self.path / "model.safetensors"
        if index.is_file():
            return _shards(index)
        if not single.is_file():
            pickles = [p.name for ending in ("*.bin", "*.pt", "*.pth", "*.ckpt") for p in sorted(self.path.glob(ending))]
            if pickles:
                architecture = (self.config.get("architectures") or ["AutoModel"])[0]  # another class would drop the head
                advice = CONVERT.format(architecture=architecture)
                raise ValueError(f"{self.path} has its weights as a pickle only ({', '.join(pickles)}). {advice}")
            raise ValueError(f"{self.path} has no model.safetensors")
        with _open(single) as file:
            return dict.fromkeys(file.keys(), single)

    def read(self, names: Sequence[str]) -> dict[str, Tensor]:
        found: dict[str, Tensor] = {}
        for path in sorted({self._files[name] for name in names}):
            with _open(path) as file:
                available = set(file.keys())
            for name in (name for name in names if self._files[name] == path):
                if name not in available:
                    raise ValueError(f"{path} has no tensor {name}, although the index assigns it to this file")
                found[name] = read_safetensor(name, path)
        return found

    def document(self, name: str) -> Any:
        return read_json(self.path / name) if (self.path / name).is_file() else None

    def write_companions(self, folder: Path) -> None:
        for file in (file for pattern in COMPANION_FILES for file in self.path.glob(pattern)):
            path = file.relative_to(self.path)
            written = (folder / path).is_file() and path.parent != Path()  # modules of sentence-transformers
            if str(path) != "config.json" and not path.name.endswith(".index.json") and not written:
                copy_file(file, folder / path)


def _shards(index: Path) -> dict[str, Path]:
    """Tensor name -> file, from the index of a sharded model."""
    content = read_json(index)
    shards = content.get("weight_map") if isinstance(content, dict) else None
    if not isinstance(shards, dict):
        raise ValueError(f"{index}: must be a JSON object whose weight_map assigns a file to each tensor")
    for name, file in shards.items():
        if not isinstance(file, str) or Path(file).name != file:
            raise ValueError(f"{index}: weight_map has {file!r} for {name}; only file names in the same folder are allowed")
    files = {name: index.parent / file for name, file in shards.items()}
    if missing := sorted({path.name for path in files.values() if not path.is_file()}):
        raise ValueError(f"{index} names {', '.join(missing)}, which the folder does not have")
    return files


def _open(path: Path) -> Any:
    try:
        return safe_open(str(path), framework="pt")
    except (SafetensorError, OSError) as error:
        raise ValueError(f"{path} is not a valid safetensors file, or it is truncated: {error}") from None


def read_safetensor(name: str, path: Path) -> Tensor:
    """Read one tensor. The file is opened for each one: the pages of a memory-mapped file stay in memory until it is closed."""
    with _open(path) as file:
        try:
            tensor = file.get_tensor(name)
        except (SafetensorError, RuntimeError) as error:
            raise ValueError(f"{path}: cannot read {name}: {error}") from None
        return tensor.to(torch.float32 if tensor.is_floating_point() else tensor.dtype, copy=True)
