"""Between the names of a published checkpoint's tensors and our own, both ways."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True)
class Rule:
    """Tensors of ours and the tensor of theirs that says the same. ``#`` stands for a number, ``*`` for any text.

    Several of ours are parts of one of theirs, in this order, cut along the first dimension.

    Args:
        ours: Patterns of our names.
        theirs: Pattern of their name, with the same wildcards in the same order.
        transpose: Whether theirs is a matrix from input to output (ours are from output to input).
        lead: How many first dimensions of 1 theirs has that ours have not.
    """

    ours: tuple[str, ...]
    theirs: str
    transpose: bool = False
    lead: int = 0

    def to_ours(self, tensor: Tensor) -> list[Tensor]:
        for _ in range(self.lead):
            if tensor.ndim and tensor.shape[0] == 1:
                tensor = tensor[0]
        if self.transpose and tensor.ndim == 2:
            tensor = tensor.T
        if not tensor.ndim or tensor.shape[0] % len(self.ours):
            return [tensor]  # it does not fit: whoever asks sees that there are too few
        return [part.contiguous() for part in tensor.chunk(len(self.ours))]

    def to_theirs(self, tensors: Sequence[Tensor]) -> Tensor:
        tensor = torch.cat(list(tensors)) if len(tensors) > 1 else tensors[0]
        if self.transpose and tensor.ndim == 2:
            tensor = tensor.T
        return tensor.reshape((1,) * self.lead + tensor.shape).contiguous()


def rules(named: Mapping[str, str | tuple[str, ...]], *, transpose: bool = False, lead: int = 0) -> list[Rule]:
    """Rules from pairs ``theirs: ours``."""
    return [
        Rule((ours,) if isinstance(ours, str) else ours, theirs, transpose=transpose, lead=lead) for theirs, ours in named.items()
    ]


@dataclass(frozen=True)
class Translated:
    """Tensors under the other side's names, and the names that no rule knows."""

    tensors: dict[str, Tensor]
    unknown: list[str]


def to_ours(tensors: Mapping[str, Tensor], known: Sequence[Rule]) -> Translated:
    """A checkpoint's tensors under our names."""
    found: dict[str, Tensor] = {}
    unknown: list[str] = []
    for name, tensor in tensors.items():
        for rule in known:
            if (parts := _match(rule.theirs, name)) is not None:
                found |= dict(zip((_fill(ours, parts) for ours in rule.ours), rule.to_ours(tensor), strict=False))
                break
        else:
            unknown.append(name)
    return Translated(found, unknown)


def to_theirs(tensors: Mapping[str, Tensor], known: Sequence[Rule]) -> Translated:
    """Our tensors under a checkpoint's names."""
    found: dict[str, Tensor] = {}
    unknown: list[str] = []
    for name in tensors:
        for rule in known:
            at, parts = next(((i, m) for i, ours in enumerate(rule.ours) if (m := _match(ours, name)) is not None), (0, None))
            if parts is None:
                continue
            if at == 0:
                together = [tensors[other] for ours in rule.ours if (other := _fill(ours, parts)) in tensors]
                found[_fill(rule.theirs, parts)] = rule.to_theirs(together)
            break
        else:
            unknown.append(name)
    return Translated(found, unknown)


def their_name(name: str, known: Sequence[Rule]) -> str:
    """What a checkpoint calls a tensor of ours; our own name where no rule knows it."""
    for rule in known:
        for ours in rule.ours:
            if (parts := _match(ours, name)) is not None:
                return _fill(rule.theirs, parts)
    return name


def some(names: list[str], most: int = 6) -> str:
    """The first of the names, and how many more there are."""
    return ", ".join(names[:most]) + (f" and {len(names) - most} more" if len(names) > most else "")


def _match(pattern: str, name: str) -> tuple[str, ...] | None:
    regex = re.escape(pattern).replace(r"\#", r"(\d+)").replace(r"\*", "(.*)")
    found = re.fullmatch(regex, name)
    return found.groups() if found else None


def _fill(pattern: str, parts: Sequence[str]) -> str:
    left = iter(parts)
    return re.sub(r"[#*]", lambda _: next(left), pattern)
