"""GGUF files of a model family: their metadata as config.json, and their tensor names as those of the Hugging Face layout."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch

from weft.blocks import Llama3Scaling
from weft.core.gguf import GGUFFile

TENSORS = {
    "token_embd.weight": "model.embed_tokens.weight",
    "output_norm.weight": "model.norm.weight",
    "output.weight": "lm_head.weight",
    "blk.#.attn_norm.weight": "model.layers.#.input_layernorm.weight",
    "blk.#.ffn_norm.weight": "model.layers.#.post_attention_layernorm.weight",
    "blk.#.attn_q.*": "model.layers.#.self_attn.q_proj.*",
    "blk.#.attn_k.*": "model.layers.#.self_attn.k_proj.*",
    "blk.#.attn_v.*": "model.layers.#.self_attn.v_proj.*",
    "blk.#.attn_output.*": "model.layers.#.self_attn.o_proj.*",
    "blk.#.ffn_gate.*": "model.layers.#.mlp.gate_proj.*",
    "blk.#.ffn_up.*": "model.layers.#.mlp.up_proj.*",
    "blk.#.ffn_down.*": "model.layers.#.mlp.down_proj.*",
}
"""Names of the tensors of a decoder with gated feed-forward networks; wildcards as in the rules of tensor names."""
ROPE_FACTORS = "rope_freqs.weight"
"""Tensor of the divisors of rotary frequencies, which llama.cpp writes for the scaling of Llama 3.1."""
_SIZES = {
    "hidden_size": "embedding_length",
    "num_hidden_layers": "block_count",
    "num_attention_heads": "attention.head_count",
    "intermediate_size": "feed_forward_length",
    "max_position_embeddings": "context_length",
}
_LARGEST = float(np.finfo(np.float32).max)
_LLAMA3_LENGTH, _LLAMA3_LOW, _LLAMA3_HIGH = 8192, 1.0, 4.0
"""Of all published models with this scaling; the file has only what follows from them."""


@dataclass(frozen=True)
class GGUFNames:
    """How the models of a family are stored in GGUF files.

    Args:
        architecture: Their ``general.architecture``, which is the prefix of their metadata.
        model_class: Class name of transformers.
        interleaved: Whether pairs of rotated features are neighbors in the rows of query and key, as llama.cpp stores Llama's;
            the Hugging Face layout pairs feature i with i + K / 2.
        tensors: Their tensor names and those of the Hugging Face layout.
    """

    architecture: str
    model_class: str
    interleaved: bool = False
    tensors: Mapping[str, str] = field(default_factory=lambda: TENSORS)

    def config(self, model_type: str, gguf: GGUFFile) -> dict[str, Any]:
        """config.json of a file. Raises ValueError for metadata that is missing or describes something unsupported."""
        meta = Metadata(gguf.metadata, self.architecture)
        config: dict[str, Any] = {"model_type": model_type, "architectures": [self.model_class]}
        config |= {key: meta.number(name) for key, name in _SIZES.items()}
        heads = config["num_attention_heads"]
        config["num_key_value_heads"] = meta.number("attention.head_count_kv", heads)
        config["head_dim"] = size = meta.number("attention.key_length", config["hidden_size"] // max(heads, 1))
        for name in ("attention.value_length", "rope.dimension_count"):
            meta.require(name, size)
        meta.require("expert_count", 0)
        embeddings = gguf.tensors.get("token_embd.weight")
        if embeddings is None:
            raise ValueError("there is no tensor 'token_embd.weight', the token embeddings")
        config |= {
            "vocab_size": embeddings.shape[0],
            "rms_norm_eps": meta.real("attention.layer_norm_rms_epsilon"),
            "hidden_act": "silu",
            "attention_bias": "blk.0.attn_q.bias" in gguf.tensors,
            "tie_word_embeddings": "output.weight" not in gguf.tensors,
            "rope_theta": meta.real("rope.freq_base", 10_000.0),
            "rope_scaling": _rope_scaling(meta),
        }
        return config


@dataclass(frozen=True)
class Metadata:
    """Typed access to the metadata of an architecture.

    Args:
        values: The metadata of the file.
        architecture: Prefix of the keys.
    """

    values: Mapping[str, Any]
    architecture: str

    def number(self, name: str, default: int | None = None) -> int:
        """An integer; of an array with a number for each layer, the one that all layers have."""
        found = self.get(name, default)
        if isinstance(found, np.ndarray) and len(found) and (found == found[0]).all():
            found = found[0].item()
        if type(found) is not int:
            raise ValueError(f"metadata '{self.architecture}.{name}' is {str(found)[:40]}, but must be an integer")
        return found

    def real(self, name: str, default: float | None = None) -> float:
        """A number. The file has float32; the shortest decimal number of the same float32 is what its author wrote."""
        found = self.get(name, default)
        if isinstance(found, bool) or not isinstance(found, int | float) or not abs(found) <= _LARGEST:
            raise ValueError(f"metadata '{self.architecture}.{name}' is {str(found)[:40]}, but must be a number")
        return float(str(np.float32(found)))

    def get(self, name: str, default: Any = None) -> Any:
        """A value; raises ValueError where it is missing without a default."""
        found = self.values.get(f"{self.architecture}.{name}", default)
        if found is None:
            raise ValueError(f"metadata '{self.architecture}.{name}' is missing")
        return found

    def require(self, name: str, supported: int) -> None:
        """Raise ValueError unless a number is missing or has the only supported value."""
        if (found := self.number(name, supported)) != supported:
            raise ValueError(f"metadata '{self.architecture}.{name}' is {found}, but only {supported} is supported")


def llama3_scaling(factors_k: np.ndarray, base: float) -> dict[str, Any]:
    """``rope_scaling`` of config.json from the divisors of rotary frequencies; they must be those of Llama 3.1's scaling."""
    frequency_k = base ** -(torch.arange(len(factors_k)) / len(factors_k))
    factor = float(factors_k.max())
    if math.isfinite(factor) and factor > 1:
        options = {"low": _LLAMA3_LOW, "high": _LLAMA3_HIGH, "length": _LLAMA3_LENGTH}
        expected_k = frequency_k / Llama3Scaling(factor=factor, **options).scale(frequency_k, base)
        if np.allclose(factors_k, expected_k.numpy(), rtol=1e-3):
            return {
                "rope_type": "llama3",
                "factor": factor,
                "low_freq_factor": _LLAMA3_LOW,
                "high_freq_factor": _LLAMA3_HIGH,
                "original_max_position_embeddings": _LLAMA3_LENGTH,
            }
    raise ValueError(f"tensor {ROPE_FACTORS!r} does not have the frequencies of Llama 3.1, which are the only supported ones")


def _rope_scaling(meta: Metadata) -> dict[str, Any] | None:
    kind = meta.get("rope.scaling.type", "none")
    if kind == "none":
        return None
    if kind not in ("linear", "yarn"):
        raise ValueError(f"metadata '{meta.architecture}.rope.scaling.type' is {str(kind)[:40]!r}; supported: none, linear, yarn")
    scaling: dict[str, Any] = {"rope_type": kind, "factor": meta.real("rope.scaling.factor")}
    if kind == "yarn":
        scaling["original_max_position_embeddings"] = meta.number("rope.scaling.original_context_length")
    return scaling
