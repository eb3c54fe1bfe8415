"""What a published model's folder says of generation: the ids that its texts begin and end with."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from weft.core.fields import Field, Frame, Info, Special
from weft.core.io import read_json
from weft.data.requests import encoder_field

GENERATION = "generation_config.json"


def with_generation(config: Mapping[str, Any], folder: Path) -> dict[str, Any]:
    """config.json with what generation_config.json beside it says, which counts where both say something."""
    file = folder / GENERATION
    found = read_json(file) if file.is_file() else {}
    if not isinstance(found, dict):
        raise ValueError(f"{file}: is not an object of JSON")
    return {**config, **{key: value for key, value in found.items() if value is not None}}


def special_of(special: Special, config: Mapping[str, Any], field: Field, apart: bool) -> Special:
    """The special ids of the field that is written: those of the config, where it has them, and else the tokenizer's.

    Args:
        special: The tokenizer's.
        config: See ``with_generation``.
        field: Ids that it does not have do not count. Of several end marks, the first one does; see ``ends_of``.
        apart: Whether it is written by a decoder with an encoder before it, which says itself what it begins with.
    """
    names = {"bos": "decoder_start_token_id" if apart else "bos_token_id", "eos": "eos_token_id", "pad": "pad_token_id"}
    told = {ours: first_known(config.get(theirs), field) for ours, theirs in names.items()}
    return replace(special, **{name: number for name, number in told.items() if number is not None})


def ends_of(config: Mapping[str, Any], field: Field) -> tuple[int, ...]:
    """All end marks of the config that the field has, where there are several."""
    found = _known(config.get("eos_token_id"), field)
    return tuple(found) if len(found) > 1 else ()


def beginning(model: Any, info: Info, config: Mapping[str, Any]) -> tuple[int, ...] | None:
    """What a text that a published model writes begins with; None = the begin mark, or what ``Field.opening`` says.

    A model that goes on from a text begins as its tokenizer does: GPT-2's adds nothing. One with an encoder may have an id that
    it must write first (``forced_bos_token_id``).
    """
    target = info[info.target]
    if encoder_field(model, info) is None:
        return None if target.frame == Frame() else target.frame.first
    forced = first_known(config.get("forced_bos_token_id"), target)
    begin = (target.special.bos,) if forced is None else (target.special.bos, forced)
    return None if begin == target.decoder_prefix() else begin


def check_padding(config: Mapping[str, Any], special: Special, names: Sequence[str]) -> None:
    """Refuse a RoBERTa whose tokenizer pads with another id than its config says: positions are counted by that id, so that where
    it stands in a text they would not be the ones it was trained with."""
    said = config.get("pad_token_id")
    if config.get("model_type") != "roberta" or said == special.pad or "pad" not in names[special.pad].lower():
        return
    own = f"the tokenizer's {names[special.pad]} is {special.pad}"
    raise ValueError(
        f"config.json has pad_token_id {said!r}, from which positions are counted, but {own}: they do not belong together"
    )


def first_known(said: Any, field: Field) -> int | None:
    """The first of these ids (one, or a list) that the field has."""
    return next(iter(_known(said, field)), None)


def _known(said: Any, field: Field) -> list[int]:
    ids = said if isinstance(said, list) else [said]
    return [i for i in ids if isinstance(i, int) and not isinstance(i, bool) and 0 <= i < field.vocab]
