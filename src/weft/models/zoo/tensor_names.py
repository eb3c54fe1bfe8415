"""Translate between the tensor names of published checkpoints and ours, in both directions."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True)
class Rule:
    """One of their tensors and the tensors of ours that hold the same values. ``#`` matches a number, ``*`` any text.

    Several of ours are chunks of one of theirs along the first dimension, in this order.

    Args:
        ours: Patterns of our names.
        theirs: Pattern of their name, with the same wildcards in the same order.
        transpose: Whether their matrix is input x output (ours are output x input).
        lead: Number of leading dimensions of size 1 that theirs has and ours lack.
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
            return [tensor]  # cannot be split: the caller reports the missing ones
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
    """Tensors under the names of the other side, and the names that no rule matches."""

    tensors: dict[str, Tensor]
    unknown: list[str]


def to_ours(tensors: Mapping[str, Tensor], known: Sequence[Rule]) -> Translated:
    """Translate the tensors of a checkpoint to our names."""
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
    """Translate our tensors to the names of a checkpoint."""
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
    """The name of one of our tensors in a checkpoint; our name where no rule matches."""
    for rule in known:
        for ours in rule.ours:
            if (parts := _match(ours, name)) is not None:
                return _fill(rule.theirs, parts)
    return name


def renamed(name: str, patterns: Mapping[str, str]) -> str | None:
    """The name that replaces one, by the first pattern that matches it; None where none does."""
    found = ((new, parts) for old, new in patterns.items() if (parts := _match(old, name)) is not None)
    return next((_fill(new, parts) for new, parts in found), None)


def shorten(names: list[str], limit: int = 6) -> str:
    """The first names, and the number of the others."""
    return ", ".join(names[:limit]) + (f" and {len(names) - limit} more" if len(names) > limit else "")


def _match(pattern: str, name: str) -> tuple[str, ...] | None:
    regex = re.escape(pattern).replace(r"\#", r"(\d+)").replace(r"\*", "(.*)")
    found = re.fullmatch(regex, name)
    return found.groups() if found else None


def _fill(pattern: str, parts: Sequence[str]) -> str:
    left = iter(parts)
    return re.sub(r"[#*]", lambda _: next(left), pattern)
