"""Generation settings of published models: BOS, EOS and forced tokens."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from weft.core.fields import Field, Frame, Info, Special
from weft.core.io import read_json
from weft.data.requests import encoder_field
from weft.models.zoo.family import FAMILIES

GENERATION_CONFIG = "generation_config.json"


def merge_generation_config(config: Mapping[str, Any], folder: Path) -> dict[str, Any]:
    """config.json updated with generation_config.json of the same folder, where there is one."""
    file = folder / GENERATION_CONFIG
    found = read_json(file) if file.is_file() else {}
    if not isinstance(found, dict):
        raise ValueError(f"{file}: must be a JSON object, not a {type(found).__name__}")
    return {**config, **{key: value for key, value in found.items() if value is not None}}


def special_ids(special: Special, config: Mapping[str, Any], field: Field, encoder_decoder: bool) -> Special:
    """The special token ids of the generated field: those of the config where it has them, otherwise the tokenizer's.

    Args:
        special: The tokenizer's ids.
        config: See ``merge_generation_config``.
        field: Ids outside of its vocabulary are ignored. Of several EOS ids the first one is used; see ``eos_ids``.
        encoder_decoder: Whether the model has an encoder; then the decoder starts with ``decoder_start_token_id``.
    """
    bos = "decoder_start_token_id" if encoder_decoder else "bos_token_id"
    names = {"bos": bos, "eos": "eos_token_id", "pad": "pad_token_id"}
    found = {ours: first_valid_id(config.get(theirs), field) for ours, theirs in names.items()}
    return replace(special, **{name: id_ for name, id_ in found.items() if id_ is not None})


def eos_ids(config: Mapping[str, Any], field: Field) -> tuple[int, ...]:
    """The EOS ids of the config, where there are several valid ones."""
    found = _valid_ids(config.get("eos_token_id"), field)
    return tuple(found) if len(found) > 1 else ()


def start_ids(model: Any, info: Info, config: Mapping[str, Any]) -> tuple[int, ...] | None:
    """The ids that every generated text starts with; None = BOS, or what ``Field.decoder_prefix`` returns.

    A decoder-only model starts as its tokenizer does: GPT-2's adds nothing. An encoder-decoder may have a forced first token
    (``forced_bos_token_id``).
    """
    target = info[info.target]
    if encoder_field(model, info) is None:
        return None if target.frame == Frame() else target.frame.first
    forced = first_valid_id(config.get("forced_bos_token_id"), target)
    prefix = (target.special.bos,) if forced is None else (target.special.bos, forced)
    return None if prefix == target.decoder_prefix() else prefix


def check_padding(config: Mapping[str, Any], special: Special, names: Sequence[str]) -> None:
    """Raise ValueError where position ids derive from the padding id, and tokenizer and config have different ones."""
    found, family = config.get("pad_token_id"), FAMILIES.get(str(config.get("model_type")))
    counted = family is not None and any(row.name == "pad_token_id" for row in family.config)
    if not counted or found == special.pad or "pad" not in names[special.pad].lower():
        return
    raise ValueError(
        f"pad_token_id is {found!r} in config.json but {special.pad} ({names[special.pad]}) in the tokenizer; "
        f"a {config['model_type']} derives position ids from it, so they must agree"
    )


def first_valid_id(value: Any, field: Field) -> int | None:
    """The first of these ids (one, or a list) that is in the field's vocabulary."""
    return next(iter(_valid_ids(value, field)), None)


def _valid_ids(value: Any, field: Field) -> list[int]:
    ids = value if isinstance(value, list) else [value]
    return [i for i in ids if isinstance(i, int) and not isinstance(i, bool) and 0 <= i < field.vocab]
