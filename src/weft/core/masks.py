"""Attention masks: which query attends to which key, as predicates on positions chosen by the caller.

The same Transformer is trained under many objectives; what differs is the mask. A mask becomes a dense matrix only where
a kernel needs one. Combine with ``&`` and ``|``.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True)
class Mask:
    """A predicate on (query position, key position)."""

    def allow(self, query_BT: Tensor, key_BS: Tensor) -> Tensor | None:
        """B x T x S, True = the query attends to the key; None = no restriction."""
        raise TypeError(f"{type(self).__name__} must implement allow")

    def __and__(self, other: Mask) -> Mask:
        return Both(self, other)

    def __or__(self, other: Mask) -> Mask:
        return Either(self, other)


@dataclass(frozen=True)
class Full(Mask):
    """Every query attends to every key."""

    def allow(self, query_BT: Tensor, key_BS: Tensor) -> Tensor | None:
        return None


@dataclass(frozen=True)
class Causal(Mask):
    """A query attends to keys at its own position and before it."""

    def allow(self, query_BT: Tensor, key_BS: Tensor) -> Tensor | None:
        return key_BS[:, None, :] <= query_BT[:, :, None]


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


@dataclass(frozen=True)
class Window(Mask):
    """A query attends to keys at most ``reach`` positions away, on either side."""

    reach: int

    def allow(self, query_BT: Tensor, key_BS: Tensor) -> Tensor | None:
        return (key_BS[:, None, :] - query_BT[:, :, None]).abs() <= self.reach


@dataclass(frozen=True)
class Both(Mask):
    """The intersection of two masks."""

    left: Mask
    right: Mask

    def allow(self, query_BT: Tensor, key_BS: Tensor) -> Tensor | None:
        left, right = self.left.allow(query_BT, key_BS), self.right.allow(query_BT, key_BS)
        return right if left is None else left if right is None else left & right


@dataclass(frozen=True)
class Either(Mask):
    """The union of two masks."""

    left: Mask
    right: Mask

    def allow(self, query_BT: Tensor, key_BS: Tensor) -> Tensor | None:
        left, right = self.left.allow(query_BT, key_BS), self.right.allow(query_BT, key_BS)
        return None if left is None or right is None else torch.logical_or(left, right)
