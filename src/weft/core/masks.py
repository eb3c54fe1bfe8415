"""Attention masks: which query attends to which key, as predicates on positions.

The same Transformer is trained under many objectives; what differs is the mask. A mask becomes a dense matrix only where
a kernel needs one. Combine with ``&`` and ``|``; in a recipe with ``all-of`` and ``any-of``.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import reduce
from typing import Any

import torch
from torch import Tensor

from weft.core.options import Count, Natural
from weft.core.registry import Build, block, slot

UNBOUNDED = 2**62
"""Reach of a mask that does not limit distances."""


@dataclass(frozen=True)
class Locality:
    """A bound on what a mask allows, which kernels use to skip keys: nearby keys, and pairs with one of the first positions.

    Args:
        back: A query attends to keys at most this far before it.
        ahead: A query attends to keys at most this far after it.
        first: The first positions, which the bounds do not concern, neither as queries nor as keys.
    """

    back: int = UNBOUNDED
    ahead: int = UNBOUNDED
    first: int = 0


@slot
@dataclass(frozen=True)
class Mask:
    """A predicate on (query position, key position)."""

    def allow(self, query_BT: Tensor, key_BS: Tensor) -> Tensor | None:
        """B x T x S, True = the query attends to the key; None = no restriction."""
        raise TypeError(f"{type(self).__name__} must implement allow")

    def locality(self) -> Locality | None:
        """A bound on the allowed distances; None = it cannot be computed for parts of a sequence."""
        return Locality()

    def __and__(self, other: Mask) -> Mask:
        if isinstance(self, Full) or (type(self) is Causal and isinstance(other, Causal)):
            return other
        if isinstance(other, Full) or (isinstance(self, Causal) and type(other) is Causal):
            return self
        return Both(self, other)

    def __or__(self, other: Mask) -> Mask:
        return next((mask for mask in (self, other) if isinstance(mask, Full)), Either(self, other))


def check_mask(module: Any, mask: Mask) -> None:
    """Raise ValueError for a mask that is not among the ``supported_masks`` of a module, which would ignore it."""
    if not isinstance(mask, module.supported_masks):
        known = ", ".join(m.__name__ for m in module.supported_masks)
        raise ValueError(f"{type(module).__name__} does not support the mask {type(mask).__name__}; supported: {known}")


@block("full")
@dataclass(frozen=True)
class Full(Mask):
    """Every query attends to every key.

    Example:
        >>> Full().allow(torch.tensor([[0, 1]]), torch.tensor([[0, 1]])) is None
        True
    """

    def allow(self, query_BT: Tensor, key_BS: Tensor) -> Tensor | None:
        return None


@block("causal")
@dataclass(frozen=True)
class Causal(Mask):
    """A query attends to keys at its own position and before it.

    Example:
        >>> Causal().allow(torch.tensor([[0, 1]]), torch.tensor([[0, 1]])).tolist()
        [[[True, False], [True, True]]]
    """

    def allow(self, query_BT: Tensor, key_BS: Tensor) -> Tensor | None:
        return key_BS[:, None, :] <= query_BT[:, :, None]

    def locality(self) -> Locality | None:
        return Locality(ahead=0)


@dataclass(frozen=True)
class Latest(Causal):
    """The causal mask of the one newest token of each row, which no key follows: no restriction to compute."""

    def allow(self, query_BT: Tensor, key_BS: Tensor) -> Tensor | None:
        return None


@dataclass(frozen=True)
class Prefix(Mask):
    """Full attention among the first ``length`` positions, causal attention after them (prefix language model, T5).

    The length is a number, or one for each row (B).
    """

    length: int | Tensor

    def allow(self, query_BT: Tensor, key_BS: Tensor) -> Tensor | None:
        key = key_BS[:, None, :]
        length = self.length[:, None, None] if isinstance(self.length, Tensor) else self.length
        return (key <= query_BT[:, :, None]) | (key < length)

    def locality(self) -> Locality | None:
        return None


@block("window")
@dataclass(frozen=True)
class Window(Mask):
    """Sliding window: a query attends to keys at most ``reach`` positions away, on either side.

    allowed(t, s) = |t - s| <= reach

    Beltagy et al. 2020 (Longformer), https://arxiv.org/abs/2004.05150

    Args:
        reach: Largest distance between query and key.

    Example:
        >>> Window(reach=1).allow(torch.tensor([[2]]), torch.tensor([[0, 1, 2, 3, 4]])).tolist()
        [[[False, True, True, True, False]]]
    """

    reach: Natural = field(kw_only=True)

    def allow(self, query_BT: Tensor, key_BS: Tensor) -> Tensor | None:
        return _offset(query_BT, key_BS).abs() <= self.reach

    def locality(self) -> Locality | None:
        return Locality(self.reach, self.reach)


@block("global")
@dataclass(frozen=True)
class Global(Mask):
    """Global attention: the first tokens attend to every token, and every token attends to them and to itself.

    allowed(t, s) = t < tokens or s < tokens or t = s

    Combined with a window it is the pattern of Longformer: ``{type: any-of, masks: [{type: window, reach: 256}, global]}``.

    Beltagy et al. 2020 (Longformer), https://arxiv.org/abs/2004.05150

    Args:
        tokens: Number of global tokens at the start of the sequence.

    Example:
        >>> Global().allow(torch.tensor([[0, 2]]), torch.tensor([[0, 1, 2]])).tolist()
        [[[True, True, True], [True, False, True]]]
    """

    tokens: Count = field(default=1, kw_only=True)

    def allow(self, query_BT: Tensor, key_BS: Tensor) -> Tensor | None:
        query, key = query_BT[:, :, None], key_BS[:, None, :]
        return (query < self.tokens) | (key < self.tokens) | (query == key)

    def locality(self) -> Locality | None:
        return Locality(0, 0, self.tokens)


@block("strided")
@dataclass(frozen=True)
class Strided(Mask):
    """Strided pattern of the Sparse Transformer: nearby keys, and every key whose distance is a multiple of the stride.

    allowed(t, s) = |t - s| < stride or (t - s) mod stride = 0

    Child et al. 2019, https://arxiv.org/abs/1904.10509

    Args:
        stride: Number of nearby positions, and distance between the others.

    Example:
        >>> Strided(stride=2).allow(torch.tensor([[4]]), torch.tensor([[0, 1, 2, 3, 4]])).tolist()
        [[[True, False, True, True, True]]]
    """

    stride: Count = field(kw_only=True)

    def allow(self, query_BT: Tensor, key_BS: Tensor) -> Tensor | None:
        offset_BTS = _offset(query_BT, key_BS)
        return (offset_BTS.abs() < self.stride) | (offset_BTS % self.stride == 0)


@block("fixed")
@dataclass(frozen=True)
class Fixed(Mask):
    """Fixed pattern of the Sparse Transformer: keys of the query's own block, and the last positions of every block.

    allowed(t, s) = floor(t / stride) = floor(s / stride) or s mod stride >= stride - summary

    Child et al. 2019, https://arxiv.org/abs/1904.10509

    Args:
        stride: Length of a block.
        summary: Number of positions at the end of each block that every query attends to.

    Example:
        >>> Fixed(stride=3).allow(torch.tensor([[4]]), torch.tensor([[0, 1, 2, 3, 4]])).tolist()
        [[[False, False, True, True, True]]]
    """

    stride: Count = field(kw_only=True)
    summary: Count = field(default=1, kw_only=True)

    def __post_init__(self) -> None:
        if self.summary > self.stride:
            raise ValueError(f"summary is {self.summary}, but must be at most the stride, which is {self.stride}")

    def allow(self, query_BT: Tensor, key_BS: Tensor) -> Tensor | None:
        query, key = query_BT[:, :, None], key_BS[:, None, :]
        return (query // self.stride == key // self.stride) | (key % self.stride >= self.stride - self.summary)


@dataclass(frozen=True)
class Both(Mask):
    """The intersection of two masks."""

    left: Mask
    right: Mask

    def allow(self, query_BT: Tensor, key_BS: Tensor) -> Tensor | None:
        left, right = self.left.allow(query_BT, key_BS), self.right.allow(query_BT, key_BS)
        return right if left is None else left if right is None else left & right

    def locality(self) -> Locality | None:
        return _combine(min, self.left.locality(), self.right.locality())


@dataclass(frozen=True)
class Either(Mask):
    """The union of two masks."""

    left: Mask
    right: Mask

    def allow(self, query_BT: Tensor, key_BS: Tensor) -> Tensor | None:
        left, right = self.left.allow(query_BT, key_BS), self.right.allow(query_BT, key_BS)
        return None if left is None or right is None else torch.logical_or(left, right)

    def locality(self) -> Locality | None:
        return _combine(max, self.left.locality(), self.right.locality())


@block("all-of")
class AllOf(Both):
    """The intersection of masks: a query attends to the keys that every one of them allows.

    Args:
        masks: Two masks or more.

    Example:
        >>> window = AllOf(masks=[Causal, lambda: Window(reach=1)])
        >>> window.allow(torch.tensor([[2]]), torch.tensor([[0, 1, 2, 3]])).tolist()
        [[[False, True, True, False]]]
    """

    def __init__(self, *, masks: list[Build[Mask]]):
        super().__init__(*_two(masks, operator.and_))


@block("any-of")
class AnyOf(Either):
    """The union of masks: a query attends to the keys that at least one of them allows.

    Args:
        masks: Two masks or more.

    Example:
        >>> longformer = AnyOf(masks=[lambda: Window(reach=1), Global])
        >>> longformer.allow(torch.tensor([[3]]), torch.tensor([[0, 1, 2, 3]])).tolist()
        [[[True, False, True, True]]]
    """

    def __init__(self, *, masks: list[Build[Mask]]):
        super().__init__(*_two(masks, operator.or_))


def _offset(query_BT: Tensor, key_BS: Tensor) -> Tensor:
    """B x T x S: relative positions s - t."""
    return key_BS[:, None, :] - query_BT[:, :, None]


def _combine(choose: Callable[[int, int], int], left: Locality | None, right: Locality | None) -> Locality | None:
    """The bound of a combination of masks. The first positions of either mask stay exempt: a bound may be too wide."""
    if left is None or right is None:
        return None
    return Locality(choose(left.back, right.back), choose(left.ahead, right.ahead), max(left.first, right.first))


def _two(masks: list[Build[Mask]], combine: Callable[[Mask, Mask], Mask]) -> tuple[Mask, Mask]:
    if len(masks) < 2:
        raise ValueError(f"masks has {len(masks)} entr{'y' if len(masks) == 1 else 'ies'}, but must have at least two")
    first, *others = [mask() for mask in masks]
    return first, reduce(combine, others)
