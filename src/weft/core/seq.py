"""Tensors that travel between blocks: sequences, the memory of a decoder, keys and values.

Shape suffixes used all over weft:
B rows of a batch, T positions of the query, S positions of the memory, D hidden size, H heads, K size of a head, V vocabulary,
N gathered rows.
"""

from __future__ import annotations

import copy
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

import torch
from torch import Tensor

_MIN_CAPACITY = 32
"""Number of positions of the smallest cache."""


@dataclass(frozen=True)
class Seq:
    """A padded batch of sequences: B x T tokens, patches or nodes.

    Args:
        data: Ids (B x T, integer), soft ids (B x T x V), vectors (B x T x D), or images (B x C x H x W), each one
            position until an embedder splits it into patches.
        mask: B x T, True = real, False = padding; None = no padding.
        marks: Named B x T annotations: position, segment, order, view.

    Raises TypeError for a mask that is not boolean, which would index or add instead of mask, and ValueError for one that is not
    B x T.
    """

    data: Tensor
    mask: Tensor | None = None
    marks: dict[str, Tensor] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.mask is None:
            return
        found = getattr(self.mask, "dtype", type(self.mask).__name__)
        if found is not torch.bool:
            raise TypeError(f"the mask of a Seq must be a bool tensor (True = real), got {found}; convert it: mask.bool()")
        if self.mask.shape != (self.rows, self.width):
            raise ValueError(
                f"the mask of a Seq must be B x T = {self.rows} x {self.width} for data of shape {tuple(self.data.shape)}, "
                f"got {tuple(self.mask.shape)}"
            )

    @classmethod
    def of(cls, x: Seq | Tensor, mask: Tensor | None = None) -> Seq:
        """Return plain data with its mask as a ``Seq``; a ``Seq`` is returned as it is.

        Example:
            >>> Seq.of(torch.tensor([[7, 8, 0]]), torch.tensor([[True, True, False]])).lengths()
            tensor([2])
        """
        if not isinstance(x, Seq):
            return cls(x, mask)
        if mask is not None:
            raise TypeError("got a Seq and a mask, but a Seq has its own mask; pass Seq(ids, mask) alone, or ids and mask")
        return x

    @property
    def rows(self) -> int:
        return self.data.shape[0]

    @property
    def width(self) -> int:
        """T, the padded length."""
        return 1 if self.data.ndim == 4 else self.data.shape[1]

    def real(self) -> Tensor:
        """The mask, B x T, also where it was left out."""
        if self.mask is not None:
            return self.mask
        return torch.ones(self.rows, self.width, dtype=torch.bool, device=self.data.device)

    def lengths(self) -> Tensor:
        """B: the number of real positions of each row."""
        return self.real().sum(1)

    def positions(self) -> Tensor:
        """B x T: the mark ``position`` if present, else real tokens counted from 0 (padding on either side is skipped)."""
        if "position" in self.marks:
            return self.marks["position"]
        if self.mask is None:
            return torch.arange(self.width, device=self.data.device).expand(self.rows, -1)
        return (self.mask.long().cumsum(1) - 1).clamp(min=0)

    def with_data(self, data: Tensor) -> Seq:
        return replace(self, data=data)

    def mark(self, **marks: Tensor) -> Seq:
        return replace(self, marks={**self.marks, **marks})

    def select(self, rows: Tensor) -> Seq:
        mask = None if self.mask is None else self.mask[rows]
        return replace(self, data=self.data[rows], mask=mask, marks={k: v[rows] for k, v in self.marks.items()})

    def to(self, device: torch.device | str) -> Seq:
        mask = None if self.mask is None else self.mask.to(device)
        return replace(self, data=self.data.to(device), mask=mask, marks={k: v.to(device) for k, v in self.marks.items()})


class _Cache:
    """Memory for keys and values that grows geometrically; the first ``used`` positions are written.

    Args:
        kv: Keys and values that it starts with.
        capacity: Number of positions.
    """

    def __init__(self, kv: KV, capacity: int):
        self.used = kv.width
        self.key, self.value = _with_room(kv.key, 2, capacity), _with_room(kv.value, 2, capacity)
        self.position = _with_room(kv.position, 1, capacity)
        self.mask = None if kv.mask is None else _with_room(kv.mask, 1, capacity)

    @property
    def capacity(self) -> int:
        return self.key.shape[2]

    def filled(self) -> KV:
        """The keys and values that are written, without a copy."""
        mask = None if self.mask is None else self.mask[:, : self.used]
        return KV(self.key[:, :, : self.used], self.value[:, :, : self.used], mask, self.position[:, : self.used], self)

    def append(self, new: KV) -> KV:
        """Write keys and values in place."""
        at = slice(self.used, self.used + new.width)
        self.key[:, :, at], self.value[:, :, at], self.position[:, at] = new.key, new.value, new.position
        if self.mask is None and new.mask is not None:
            self.mask = torch.ones_like(self.position, dtype=torch.bool)
        if self.mask is not None:
            self.mask[:, at] = new.real()
        self.used = at.stop
        return self.filled()

    def select(self, rows: Tensor) -> _Cache:
        chosen = copy.copy(self)
        chosen.key, chosen.value = _rows_with_room(self.key, rows, 2, self.used), _rows_with_room(self.value, rows, 2, self.used)
        chosen.position = _rows_with_room(self.position, rows, 1, self.used)
        chosen.mask = None if self.mask is None else _rows_with_room(self.mask, rows, 1, self.used)
        return chosen


def _rows_with_room(x: Tensor, rows: Tensor, dim: int, used: int) -> Tensor:
    """The chosen rows of ``x``, with as much room; only the used part is copied."""
    chosen = x.new_empty((len(rows), *x.shape[1:]))
    torch.index_select(x.narrow(dim, 0, used), 0, rows, out=chosen.narrow(dim, 0, used))
    return chosen


def _with_room(x: Tensor, dim: int, capacity: int) -> Tensor:
    """A larger tensor that starts with ``x``; the rest is not initialized."""
    shape = list(x.shape)
    shape[dim] = capacity
    room = x.new_empty(shape)
    room.narrow(dim, 0, x.shape[dim]).copy_(x)
    return room


@dataclass(frozen=True)
class KV:
    """Keys and values: a decoding cache, a cross-attention memory, a latent vector, or a prefix.

    Args:
        key: B x H x S x K.
        value: B x H x S x K.
        mask: B x S, True = real; None = all real.
        position: B x S, the position that each key stands for.
        cache: Memory that they are stored in, with room for more; None = memory of their own.
    """

    key: Tensor
    value: Tensor
    mask: Tensor | None
    position: Tensor
    cache: _Cache | None = field(default=None, repr=False, compare=False)

    @property
    def width(self) -> int:
        return self.key.shape[2]

    def real(self) -> Tensor:
        if self.mask is not None:
            return self.mask
        return torch.ones(self.position.shape, dtype=torch.bool, device=self.key.device)

    def join(self, new: KV) -> KV:
        """These keys and values followed by ``new``. Without gradients, ``new`` is written behind them in place."""
        if torch.is_grad_enabled() or torch.compiler.is_compiling():
            mask = None if self.mask is None and new.mask is None else torch.cat([self.real(), new.real()], 1)
            return KV(
                torch.cat([self.key, new.key], 2),
                torch.cat([self.value, new.value], 2),
                mask,
                torch.cat([self.position, new.position], 1),
            )
        total, cache = self.width + new.width, self.cache
        # another state that was made from these may have written behind them
        if cache is None or cache.used != self.width or cache.capacity < total:
            cache = _Cache(self, max(2 * total, _MIN_CAPACITY))
        return cache.append(new)

    def select(self, rows: Tensor) -> KV:
        if self.cache is not None and self.cache.used == self.width:
            return self.cache.select(rows).filled()
        mask = None if self.mask is None else self.mask[rows]
        return KV(self.key[rows], self.value[rows], mask, self.position[rows])


@dataclass(frozen=True)
class Memory:
    """What a decoder is conditioned on: sequences to attend to, a summary vector, past keys and values, and a class.

    Args:
        sources: Encoded sequences, each B x S x D.
        vector: B x D, a summary of the input, or None.
        past: For each layer, keys and values before the first token, visible to every position: a latent vector, a prefix.
        label: B, the class to condition on, or None.
    """

    sources: tuple[Seq, ...] = ()
    vector: Tensor | None = None
    past: tuple[KV, ...] = ()
    label: Tensor | None = None

    @property
    def rows(self) -> int:
        return self.sources[0].rows if self.sources else len(self.vector) if self.vector is not None else 0

    def select(self, rows: Tensor) -> Memory:
        return Memory(
            tuple(s.select(rows) for s in self.sources),
            None if self.vector is None else self.vector[rows],
            tuple(kv.select(rows) for kv in self.past),
            None if self.label is None else self.label[rows],
        )


class State(Protocol):
    """Decoding state between steps. Invalid after the next ``step``; ``select`` copies rows into a new state (use it to fork)."""

    def select(self, rows: Tensor) -> Any: ...


@dataclass(frozen=True)
class Decoded:
    """Output of a decoder: hidden states (never logits) and, from ``step``, the next state."""

    hidden: Seq
    state: Any = None
