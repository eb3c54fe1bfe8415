"""The one-line recipe of each part of the catalog."""

from __future__ import annotations

import functools
from dataclasses import dataclass

from tools.docs.package import Option, Part, Yaml, catalog, inline, top_level

MOST = 3
"""Options that a one-line recipe shows, besides required ones."""
FILES = {
    "parallel-text": ["train.de", "train.en"],
    "plain-text": "train.txt",
    "question-answering": "train.json",
    "multiple-choice": "train.jsonl",
    "tagged-text": "train.conll",
    "autoencoding-text": {"positive": "positive.txt", "negative": "negative.txt"},
    "labeled-images": "photos",
    "image-text": "captions.jsonl",
}
"""What the option ``train`` of a data source is in an example; others read a table."""
VALUES = {
    "steps": 1000,
    "name": "fine-tune",
    "from": "minilm",
    "oracle": "runs/oracle",
    "train": "train.tsv",
    "length": 100,
    "reach": 256,
    "stride": 64,
    "masks": ["causal", {"type": "window", "reach": 256}],
}
"""Values of required options by name."""


@dataclass(frozen=True)
class Use:
    """An option that accepts the parts of a slot."""

    owner: Part | None
    """None for a key at the top of a recipe."""
    option: Option


@functools.cache
def uses() -> dict[str, list[Use]]:
    """By slot: every option that accepts its parts."""
    found: dict[str, list[Use]] = {slot.name: [] for slot in catalog()}
    owners = [(None, top_level()), *((part, part.options) for slot in catalog() for part in slot.parts)]
    for owner, options in owners:
        for option in options:
            for slot in dict.fromkeys(option.slots):
                found[slot].append(Use(owner, option))
    return found


def use_of(slot: str) -> Use | None:
    """The option that examples of a slot use: the one of the slot's own name, or the most frequent."""
    found = uses()[slot]
    named = slot.replace("-", "_")
    names = [use.option.name for use in found]
    return max(found, key=lambda use: (use.option.name in (named, f"{named}s"), names.count(use.option.name)), default=None)


def example(part: Part) -> tuple[Use, str] | None:
    """An option and the line of a recipe that gives it this part; None where no option accepts the slot."""
    use = use_of(part.slot)
    if use is None:
        return None
    value = inline(_value(part))
    if use.option.type.startswith("a list of"):
        value = f"[{value}]"
    return use, f"{use.option.name}: {value}"


def _value(part: Part, shown: int = MOST) -> object:
    """A part as a recipe names it: required options, and the first plain ones with their defaults."""
    required = {option.name: _sample(part, option) for option in part.options if option.default is None}
    plain = [o for o in part.options if o.default not in (None, "null", "[]", "{}") and not o.slots and len(str(o.default)) < 20]
    raw = {option.name: Yaml(str(option.default)) for option in plain[:shown]}
    return {"type": part.name, **required, **raw} if required or raw else part.name


def _sample(part: Part, option: Option) -> object:
    if option.slots and option.name not in VALUES:
        first = next(slot for slot in catalog() if slot.name == option.slots[0]).parts
        plain = next((p for p in first if all(o.default is not None for o in p.options)), first[0])
        inner = _value(plain, shown=0)
        return {plain.name: inner} if option.type.startswith("a mapping") else inner
    return FILES.get(part.name, VALUES[option.name]) if option.name == "train" else VALUES[option.name]
