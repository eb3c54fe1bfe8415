"""The GGUF layout: one file with metadata, tokenizer and quantized tensors, as llama.cpp reads it."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

from torch import Tensor

from weft.core.gguf import GGUFFile, read_gguf
from weft.core.io import write_json
from weft.core.printable import printable_line
from weft.data.tokenizers.gguf_tokenizer import special_ids, tokenizer_config
from weft.data.tokenizers.pretrained import PretrainedTokenizer
from weft.models.zoo.family import FAMILIES, Family
from weft.models.zoo.gguf_names import ROPE_FACTORS, GGUFNames, llama3_scaling
from weft.models.zoo.tensor_names import renamed, shorten
from weft.pretrained.dequantize import read_tensor
from weft.pretrained.layout import ModelLayout

TOKENIZER_CONFIG = "tokenizer_config.json"
_ROTATED = {".self_attn.q_proj.": "num_attention_heads", ".self_attn.k_proj.": "num_key_value_heads"}
"""Parts of names of tensors with rows for each head whose features are rotated, and the key of their number of heads."""


class GGUFModel(ModelLayout):
    """A model in a GGUF file."""

    @cached_property
    def file(self) -> GGUFFile:
        return read_gguf(self.path)

    @cached_property
    def _stored(self) -> tuple[Family, GGUFNames]:
        """The family of the architecture, and how its models are stored."""
        known = {family.gguf.architecture: (family, family.gguf) for family in FAMILIES.values() if family.gguf is not None}
        found = self.file.metadata.get("general.architecture")
        if not isinstance(found, str) or found not in known:
            shown = printable_line(str(found)[:40])
            raise ValueError(f"{self.path}: unknown general.architecture {shown!r} (supported: {', '.join(known)})")
        return known[found]

    @contextlib.contextmanager
    def _located(self) -> Iterator[None]:
        try:
            yield
        except ValueError as error:
            raise ValueError(f"{self.path}: {error}") from None

    def read_config(self) -> dict[str, Any]:
        family, stored = self._stored
        with self._located():
            config = stored.config(family.model_type, self.file)
            if ROPE_FACTORS in self.file.tensors:
                config["rope_scaling"] = llama3_scaling(read_tensor(self.file, ROPE_FACTORS).numpy(), config["rope_theta"])
            names = {"bos": "bos_token_id", "eos": "eos_token_id", "pad": "pad_token_id"}
            ids = special_ids(self.file.metadata)
            return config | {theirs: ids.get(ours) for ours, theirs in names.items()}

    @cached_property
    def _tensors(self) -> dict[str, str]:
        """Name in the Hugging Face layout -> name in the file."""
        _, stored = self._stored
        found = {name: renamed(name, stored.tensors) for name in self.file.tensors if name != ROPE_FACTORS}
        if unknown := [name for name, new in found.items() if new is None]:
            shown = printable_line(shorten(unknown))
            raise ValueError(f"{self.path}: a {stored.architecture} of this kind is not supported: unknown tensors {shown}")
        return {new: name for name, new in found.items() if new is not None}

    @property
    def names(self) -> Sequence[str]:
        return list(self._tensors)

    def read(self, names: Sequence[str]) -> dict[str, Tensor]:
        return {name: self._read(name) for name in names}

    def _read(self, name: str) -> Tensor:
        tensor, (_, stored) = read_tensor(self.file, self._tensors[name]), self._stored
        key = next((key for part, key in _ROTATED.items() if part in name), None)
        if key is None or not stored.interleaved:
            return tensor
        heads = self.config[key]
        if heads < 1 or len(tensor) % (2 * heads):
            shown = printable_line(self._tensors[name])
            raise ValueError(f"{self.path}: tensor {shown!r} has {len(tensor):,} rows, which {heads} heads cannot share")
        return tensor.unflatten(0, (heads, -1, 2)).transpose(1, 2).flatten(0, 2).contiguous()

    def document(self, name: str) -> Any:
        if name != TOKENIZER_CONFIG:
            return None
        with self._located():
            return tokenizer_config(self.file.metadata)

    def write_companions(self, folder: Path) -> None:
        PretrainedTokenizer(from_=str(self.path)).save(folder / "tokenizer.json")
        write_json(folder / TOKENIZER_CONFIG, self.document(TOKENIZER_CONFIG))
