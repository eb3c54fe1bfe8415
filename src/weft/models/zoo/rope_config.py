"""Rotary positions in config.json: ``rope_parameters``, or ``rope_theta`` and ``rope_scaling`` of older versions."""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import partial
from typing import Any

from weft.blocks import LinearScaling, Llama3Scaling, YaRNScaling
from weft.core.contracts import RotaryScaling, Structure
from weft.core.options import Positive
from weft.core.registry import Build, name_of, option_values
from weft.models.zoo.config import ModelConfig
from weft.models.zoo.config_table import Computed
from weft.models.zoo.option_paths import option_at


def _rope(config: ModelConfig) -> dict[str, Any]:
    """The options of rotary positions: ``rope_scaling``, or ``rope_parameters``; as in transformers, the first one wins."""
    given = config.get("rope_scaling") or config.get("rope_parameters") or {}
    rope = {"rope_theta": config["rope_theta"], **{key: value for key, value in given.items() if value is not None}}
    rope.setdefault("rope_type", rope.pop("type", "default"))
    if rope.get("partial_rotary_factor", 1.0) != 1.0:
        raise ValueError(f"config.json: partial_rotary_factor is {rope['partial_rotary_factor']!r}, but only 1.0 is supported")
    return rope


_ROPE_TYPES = ("default", "linear", "dynamic", "llama3", "yarn")


def rope_base(config: ModelConfig) -> float:
    """The base of the frequencies."""
    return _positive(_rope(config), "rope_theta")


def rope_scaling(config: ModelConfig) -> Build[RotaryScaling] | None:
    """The scaling of the frequencies; None for none."""
    rope = _rope(config)
    kind = rope["rope_type"]
    if kind not in _ROPE_TYPES:
        raise ValueError(f"config.json: rope_type is {str(kind)[:40]!r}; supported are {', '.join(_ROPE_TYPES)}")
    if kind in ("default", "dynamic"):  # dynamic: the same up to max_position_embeddings, which longer texts are cut to
        return None
    factor = _positive(rope, "factor")
    if kind == "linear":
        return partial(LinearScaling, factor=factor)
    length = rope.get("original_max_position_embeddings", config["max_position_embeddings"])
    if type(length) is not int or not 1 <= length <= 10**9:
        raise ValueError(f"config.json: original_max_position_embeddings is {str(length)[:40]}, but must be an integer from 1")
    if kind == "llama3":
        low, high = _positive(rope, "low_freq_factor"), _positive(rope, "high_freq_factor")
        return partial(Llama3Scaling, factor=factor, low=low, high=high, length=length)
    if rope.get("truncate", True) is not True:
        raise ValueError(f"config.json: truncate is {str(rope['truncate'])[:40]}, but only true is supported")
    amplitude = _positive(rope, "attention_factor") if "attention_factor" in rope else None
    if amplitude is None and rope.get("mscale") and rope.get("mscale_all_dim"):
        log = 0.1 * math.log(max(factor, 1.0))
        amplitude = (1 + _positive(rope, "mscale") * log) / (1 + _positive(rope, "mscale_all_dim") * log)
    fast, slow = (
        _positive(rope, key) if rope.get(key) else default for key, default in (("beta_fast", 32.0), ("beta_slow", 1.0))
    )
    return partial(YaRNScaling, factor=factor, length=length, fast=fast, slow=slow, amplitude=amplitude)


def _positive(rope: Mapping[str, Any], key: str) -> float:
    value = rope.get(key)
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value <= 1e12:
        raise ValueError(f"config.json: {key} is {str(value)[:40]}, but must be a number above 0")
    return float(value)


def _written_scaling(structure: Build[Structure]) -> dict[str, Any] | None:
    """``rope_scaling`` of config.json."""
    scaling = option_at(structure, "decoder.position.scaling")
    if scaling is None:
        return None
    options = option_values(scaling)
    found: dict[str, Any] = {"rope_type": name_of(scaling), "factor": options["factor"]}
    if name_of(scaling) == "llama3":
        found |= {"low_freq_factor": options["low"], "high_freq_factor": options["high"]}
    if name_of(scaling) == "yarn":
        found |= {"beta_fast": options["fast"], "beta_slow": options["slow"]}
        found |= {} if options["amplitude"] is None else {"attention_factor": options["amplitude"]}
    return found | ({"original_max_position_embeddings": options["length"]} if "length" in options else {})


ROPE_KEYS = (
    Computed("rope_theta", Positive, lambda structure: option_at(structure, "decoder.position.base"), default=10_000.0),
    Computed("rope_scaling", dict[str, Any], _written_scaling, default=None),
    Computed("rope_parameters", dict[str, Any], lambda _: None, default=None),
)
"""Rows of config.json. Saving writes the older keys, which all versions of transformers read."""
