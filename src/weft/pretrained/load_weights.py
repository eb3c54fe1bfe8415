"""Tensors by our names, copied into a structure: what fits is taken, what is missing or does not fit is said."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from torch import Tensor, nn

from weft.blocks import Interpolated
from weft.models.zoo.tensor_names import Rule, some, their_name


@dataclass(frozen=True)
class Taken:
    """What came of taking weights: how many of ours have one now, which have none, and which of theirs had no place."""

    taken: list[str]
    new: list[str]
    unused: list[str]

    def __str__(self) -> str:
        text = f"{len(self.taken)} of {len(self.taken) + len(self.new)} tensors taken"
        for title, names in (("new", self.new), ("not used", self.unused)):
            if names:
                text += f"; {title}: {some(names)}"
        return text


BODY = ("embedder.", "target_embedder.", "encoder.", "decoder.")
"""Parts that must have all their weights, or the published model is not this one; heads and poolers may be new."""


def _needed(name: str) -> bool:
    return name.startswith(BODY) and not name.startswith("encoder.mix.")  # no published model mixes its layers


BY_ID = ("embedder.parts.0.weight", "head.bias", "head.out.weight", "head.out.bias")
"""Tensors with a row for each id. Published ones may have rows for ids that their tokenizer never gives: those are left out."""


def take(
    model: nn.Module,
    source: Mapping[str, Tensor],
    where: str | Path,
    rules: Sequence[Rule] = (),
    *,
    unknown: Sequence[str] = (),
    whole: bool = False,
    ids: int | None = None,
) -> Taken:
    """Copy tensors of the same name into a structure. Raises ValueError that lists what is missing or does not fit.

    Args:
        model: The structure.
        source: Tensors by our names.
        where: Where they are from.
        rules: Their names there.
        unknown: Names there that no rule knows.
        whole: Whether nothing of the body may be left over, no layer and no id.
        ids: How many ids the tokenizer there gives: a structure with as many or more may do without the rows after them.
    """
    own = dict(model.named_parameters()) | dict(model.named_buffers())
    kept = set(model.state_dict())
    own = {name: tensor for name, tensor in own.items() if name in kept}

    def shown(name: str) -> str:
        theirs = their_name(name, rules)
        return name if theirs == name else f"{theirs} ({name})"

    for place, module in model.named_modules():
        if isinstance(module, Interpolated) and (name := f"{place}.weight") in source:
            source = {**source, name: module.fitted(source[name])}
    if ids is not None:
        fitting = (n for n, t in own.items() if n in source and n in BY_ID and longer(source[n], t) and len(t) >= ids)
        source = {**source, **{n: source[n][: len(own[n])] for n in fitting}}
    taken, new = [n for n in own if n in source], [n for n in own if n not in source]
    left = [n for n in source if n not in own]
    wrong = [why for n in taken if (why := _unfit(shown(n), source[n], own[n]))]
    if any(source[n].shape[1:] == own[n].shape[1:] and len(source[n]) != len(own[n]) for n in BY_ID if n in taken):
        wrong.append("its rows are the ids of another tokenizer: read the data with the one that it came with")
    missing = [shown(n) for n in new if _needed(n)]
    if len(missing) == len([n for n in own if _needed(n)]):
        wrong.append("nothing of it has a place here")
    elif missing:
        wrong.append(f"missing: {some(missing)}")
    elif whole and (over := [their_name(n, rules) for n in left if n.startswith(BODY)] + _of_body(unknown, rules)):
        has, said = _layers(source), _layers(own)
        wrong += [f"config.json says {said} layers, the file has {has}"] if has != said else []
        wrong.append(f"no place for: {some(over)}")
    if wrong:
        more = f"; and {len(wrong) - 8} more" if len(wrong) > 8 else ""
        raise ValueError(f"{where}: its weights do not fit this structure: {'; '.join(wrong[:8])}{more}")
    for name in taken:
        _put(model, name, own[name], source[name])
    return Taken(taken, new, [*dict.fromkeys(their_name(n, rules) for n in left), *unknown])


def _put(model: nn.Module, name: str, ours: Tensor, theirs: Tensor) -> None:
    """Give one of a structure's tensors its numbers, or be it where it has no memory yet."""
    if not ours.is_meta:
        ours.detach().copy_(theirs)
        return
    whole = theirs.untyped_storage().nbytes() == theirs.nbytes
    tensor = theirs.to(ours.dtype, copy=not whole)  # a part of another tensor would keep all of it
    part, _, last = name.rpartition(".")
    new = nn.Parameter(tensor, ours.requires_grad) if isinstance(ours, nn.Parameter) else tensor
    setattr(model.get_submodule(part), last, new)


def _unfit(name: str, theirs: Tensor, ours: Tensor) -> str | None:
    """Why a tensor cannot be taken."""
    if theirs.shape != ours.shape:
        return f"{name} has shape {tuple(theirs.shape)}, here it is {tuple(ours.shape)}"
    if theirs.is_floating_point() != ours.is_floating_point():
        return f"{name} holds {str(theirs.dtype).removeprefix('torch.')}, here it is {str(ours.dtype).removeprefix('torch.')}"
    # A sum is finite only if all are; it needs no memory, and can be infinite otherwise only for very large numbers.
    finite = theirs.sum().isfinite() or theirs.isfinite().all()
    return None if finite else f"{name} holds NaN or infinite numbers"


def _of_body(unknown: Sequence[str], rules: Sequence[Rule]) -> list[str]:
    """Those that stand where the body's tensors are: ``bert.`` or ``encoder.``."""
    roots = {rule.theirs.split(".")[0] for rule in rules if rule.ours[0].startswith(BODY)}
    return [name for name in unknown if name.split(".")[0] in roots]


def _layers(names: Iterable[str]) -> int:
    return len({found[0] for name in names if (found := re.match(r"\w+\.stack\.layers\.\d+\.", name))})


def longer(theirs: Tensor, ours: Tensor) -> bool:
    """Whether theirs has more rows, and is alike otherwise."""
    return theirs.ndim == ours.ndim and theirs.shape[1:] == ours.shape[1:] and len(theirs) > len(ours)
