"""The layout of sentence-transformers: modules, pooling, and a linear classifier over the pooled vector.

A classifier that transformers has no class for, such as one with mean pooling, is published as three modules: the transformer,
the pooling, and a linear layer that maps the sentence embedding to ``logits``. The embedding itself stays available.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from torch import Tensor, nn

from weft.blocks import ClassifierHead, FirstPooler, LastPooler, MaxPooler, MeanPooler
from weft.core.contracts import Pooler, Structure
from weft.core.files import make_folder
from weft.core.io import read_json, write_json
from weft.core.registry import Build, name_of, option_values
from weft.models import TextEncoder

POOLING, MODULES = "1_Pooling/config.json", "modules.json"
"""Files with the pooling mode, and with the list of modules."""
KEYS = {
    "pooling_mode_cls_token": "cls",
    "pooling_mode_max_tokens": "max",
    "pooling_mode_mean_tokens": "mean",
    "pooling_mode_mean_sqrt_len_tokens": "mean_sqrt_len_tokens",
    "pooling_mode_weightedmean_tokens": "weightedmean",
    "pooling_mode_lasttoken": "lasttoken",
}
"""Keys of the older format, one for each mode; current versions read them too."""
POOLERS: dict[str, Build[Pooler]] = {"cls": FirstPooler, "max": MaxPooler, "mean": MeanPooler, "lasttoken": LastPooler}
"""Poolers of classifiers by pooling mode."""
LOGITS = "logits"
"""Name of the output of the linear layer."""
_HEAD = "2_Dense"
_IDENTITY = "torch.nn.modules.linear.Identity"
_BODY = ("dim", "embedder", "encoder")


def pooling_modes(file: Path) -> list[str]:
    """Pooling modes from a file of sentence-transformers, in the current or the older format."""
    content = read_object(file)
    named = content.get("pooling_mode") or [mode for key, mode in KEYS.items() if content.get(key)] or ["mean"]
    modes = [named] if isinstance(named, str) else list(named)
    if unknown := [mode for mode in modes if mode not in KEYS.values()]:
        raise ValueError(f"{file}: unknown pooling_mode {unknown[0]!r}; supported: {', '.join(KEYS.values())}")
    return modes


def read_object(file: Path) -> dict[str, Any]:
    """Return the content of a JSON file; empty if it does not exist."""
    content = read_json(file) if file.is_file() else {}
    if not isinstance(content, dict):
        raise ValueError(f"{file}: expected a JSON object")
    return content


def read_modules(folder: Path) -> list[tuple[str, str]]:
    """Class and path of each module; empty for a folder without modules. Raises ValueError for an invalid list."""
    file = folder / MODULES
    if not file.is_file():
        return []
    modules = read_json(file)
    if not isinstance(modules, list) or not all(isinstance(m, dict) and isinstance(m.get("type"), str) for m in modules):
        raise ValueError(f"{file}: expected a list of modules with their types")
    return [(module["type"].rpartition(".")[2], str(module.get("path", ""))) for module in modules]


@dataclass(frozen=True)
class PooledHead:
    """A linear classifier over a pooled vector in a published folder.

    Args:
        pooler: Pools the hidden states.
        weights: The file with the tensors ``linear.weight`` and ``linear.bias``.
    """

    pooler: Build[Pooler]
    weights: Path

    def structure(self, classifier: Build[Structure]) -> Build[Structure]:
        """The classifier with this pooler, and with a linear head without a hidden layer."""
        return partial(classifier, pooler=self.pooler, head=ClassifierHead)


def read_head(folder: Path) -> PooledHead | None:
    """The linear classifier of a folder; None where its modules have none."""
    for kind, path in read_modules(folder):
        if kind != "Dense" or Path(path).name != path:
            continue
        config = read_object(folder / path / "config.json")
        if config.get("module_output_name") != LOGITS:
            continue
        if config.get("activation_function") != _IDENTITY:
            raise ValueError(f"{folder / path / 'config.json'}: activation_function of the classifier must be {_IDENTITY}")
        pooling = next((p for kind, p in read_modules(folder) if kind == "Pooling" and Path(p).name == p), "1_Pooling")
        modes = pooling_modes(folder / pooling / "config.json")
        if len(modes) > 1 or modes[0] not in POOLERS:
            raise ValueError(f"{folder / pooling}: pooling {', '.join(modes)} of a classifier; supported: {', '.join(POOLERS)}")
        return PooledHead(POOLERS[modes[0]], folder / path / "model.safetensors")
    return None


def pooling_of(structure: Build[Structure]) -> str | None:
    """The pooling mode of a classifier that can be published as these modules; None for other structures."""
    if name_of(structure) != "classifier":
        return None
    own = option_values(structure)
    pooler, head = own["pooler"], own["head"]
    if name_of(head) != "classifier" or option_values(head)["hidden"] is not None:
        return None
    if option_values(pooler).get("transform") is not None:
        return None
    return next((mode for mode, build in POOLERS.items() if name_of(build) == name_of(pooler)), None)


def body_of(model: Any, structure: Build[Structure]) -> tuple[nn.Module, Build[Structure]]:
    """The encoder of a classifier, without its pooler and head: the modules, and the factory of a text encoder."""
    body = nn.Module()
    body.embedder, body.encoder = model.embedder, model.encoder
    own = option_values(structure)
    return body, partial(TextEncoder, head=None, **{name: own[name] for name in _BODY})


def write_modules(folder: Path, mode: str, dim: int, head: Mapping[str, Tensor]) -> Path:
    """Write modules.json and the configurations of the pooling and the linear classifier; return the file for its tensors.

    Args:
        folder: The folder of the transformer.
        mode: Pooling mode.
        dim: Hidden size.
        head: Weight and bias of the linear layer, by these names.
    """
    write_pooling(folder, mode, dim)
    make_folder(folder / _HEAD)
    config = {"in_features": dim, "out_features": len(head["weight"]), "bias": "bias" in head, "activation_function": _IDENTITY}
    write_json(
        folder / _HEAD / "config.json",
        {**config, "module_input_name": "sentence_embedding", "module_output_name": LOGITS},
    )
    write_module_list(folder, {"Transformer": "", "Pooling": "1_Pooling", "Dense": _HEAD})
    return folder / _HEAD / "model.safetensors"


def write_pooling(folder: Path, mode: str, dim: int) -> None:
    """Write the pooling mode with the keys that all versions read."""
    make_folder((folder / POOLING).parent)
    write_json(folder / POOLING, {"word_embedding_dimension": dim, **{key: other == mode for key, other in KEYS.items()}})


def write_module_list(folder: Path, parts: Mapping[str, str]) -> None:
    """Write modules.json. ``parts``: the path of each module by its class."""
    kinds = [(path, f"sentence_transformers.models.{kind}") for kind, path in parts.items()]
    write_json(folder / MODULES, [{"idx": i, "name": str(i), "path": path, "type": kind} for i, (path, kind) in enumerate(kinds)])
