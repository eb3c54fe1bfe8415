"""Instances and batches: what ``Objective.prepare`` returns and what ``collate`` makes of it.

N gathered rows; other suffixes: see seq.py.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from weft.core.example import MarkedIds, Sequences, Targets, Value
from weft.core.seq import Seq


class Instance(dict[str, Any]):
    """A training instance made by ``Objective.prepare``: ``Instance(text=ids, label=1)``.

    Integer arrays and ``MarkedIds`` become padded sequences, ``Sequences`` of them ``Ragged`` ones, ``Targets`` flat
    indices, ints and floats one number per row, float arrays stacked tensors (images, C x H x W, a ``Seq``), a nested
    ``Instance`` a nested batch, and a ``Value`` of a new kind what its ``collate`` returns.
    """


@dataclass(frozen=True)
class FlatTargets:
    """Target positions of a batch: flat indices into (B*T) and the target ids."""

    index_N: Tensor
    target_N: Tensor

    def __len__(self) -> int:
        return self.index_N.shape[0]

    def gather(self, x: Seq) -> Tensor:
        """The N hidden states at these positions."""
        return x.data.flatten(0, 1).index_select(0, self.index_N)

    def to(self, device: torch.device | str) -> FlatTargets:
        return FlatTargets(self.index_N.to(device), self.target_N.to(device))


@dataclass(frozen=True)
class Ragged:
    """A variable number of sequences per row of a batch: N in total, at most M in a row.

    Args:
        seq: The N sequences, those of the first row first.
        owner_N: The row that each belongs to.
        rows: B, the number of rows.
    """

    seq: Seq
    owner_N: Tensor
    rows: int

    def __len__(self) -> int:
        """N."""
        return self.owner_N.shape[0]

    def counts(self) -> Tensor:
        """B: the number of sequences of each row."""
        return torch.zeros(self.rows, dtype=torch.long, device=self.owner_N.device).index_add(
            0, self.owner_N, torch.ones_like(self.owner_N)
        )

    def offsets(self) -> Tensor:
        """B: the index of the first sequence of each row."""
        number_B = self.counts()
        return number_B.cumsum(0) - number_B

    def to_padded(self, x_N: Tensor, filler: float) -> Tensor:
        """B x M: the values of each row's sequences, padded with ``filler``."""
        column_N = torch.arange(len(self), device=self.owner_N.device) - self.offsets()[self.owner_N]
        columns = int(column_N.max()) + 1 if len(self) else 0
        return x_N.new_full((self.rows, columns), filler).index_put((self.owner_N, column_N), x_N)

    def to(self, device: torch.device | str) -> Ragged:
        return Ragged(self.seq.to(device), self.owner_N.to(device), self.rows)


@dataclass(frozen=True)
class Batch:
    """Collated instances. ``rows`` are the indices of the examples in their dataset."""

    fields: dict[str, Any]
    size: int
    rows: tuple[int, ...] = ()

    def __getitem__(self, name: str) -> Any:
        return self.fields[name]

    def __contains__(self, name: object) -> bool:
        return name in self.fields

    def __len__(self) -> int:
        return self.size

    def to(self, device: torch.device | str) -> Batch:
        return replace(self, fields={k: v.to(device) for k, v in self.fields.items()})

    def tokens(self) -> int:
        """Number of real tokens; an image counts as its longer side, as in the token budget."""
        return sum(_tokens(value) for value in self.fields.values())

    @contextmanager
    def naming(self, of: str, first: int = 0) -> Iterator[None]:
        """Add the longest row to the message of a ValueError raised inside: a text may be too long for a network."""
        try:
            yield
        except ValueError as error:
            lengths = list(self._lengths())
            if not lengths or len(self.rows) != len(self) or type(error) is not ValueError:
                raise
            longest_B = torch.stack(lengths).amax(0)
            row, tokens = self.rows[int(longest_B.argmax())], int(longest_B.max())
            raise ValueError(
                f"{error} (the longest row here is row {row} of {of}, counted from {first}: {tokens} tokens)"
            ) from None

    def _lengths(self) -> Iterator[Tensor]:
        """B: tokens per row of every tokenized field; for several sequences, those of the longest."""
        for value in self.fields.values():
            if isinstance(value, Seq) and value.data.ndim == 2:
                yield value.lengths()
            elif isinstance(value, Ragged) and value.seq.data.ndim == 2:
                blank_B = value.owner_N.new_zeros(value.rows)
                yield blank_B.scatter_reduce(0, value.owner_N, value.seq.lengths(), "amax")
            elif isinstance(value, Batch):
                yield from value._lengths()

    def sequences(self) -> Iterator[Seq]:
        for value in self.fields.values():
            if isinstance(value, Seq):
                yield value
            elif isinstance(value, Ragged):
                yield value.seq
            elif isinstance(value, Batch):
                yield from value.sequences()


def _tokens(value: Any) -> int:
    """The tokens of what was collated; 0 for what has none, such as labels."""
    if isinstance(value, Ragged):
        return _tokens(value.seq)
    if isinstance(value, Seq):
        if value.mask is not None:
            return int(value.mask.sum())
        return value.rows * (max(value.data.shape[-2:]) if value.data.ndim == 4 else value.width)
    count = getattr(value, "tokens", None)
    return 0 if count is None else count()


def pad(rows: Sequence[np.ndarray], value: int = 0) -> Seq:
    """Integer arrays of different lengths, padded on the right to B x T with a mask."""
    lengths = np.array([len(r) for r in rows])
    data = np.full((len(rows), max(1, int(lengths.max()))), value, np.int64)
    mask = np.arange(data.shape[1])[None] < lengths[:, None]
    data[mask] = np.concatenate([np.asarray(r, np.int64) for r in rows])
    return Seq(torch.from_numpy(data), None if mask.all() else torch.from_numpy(mask))


def _pad_marks(rows: Sequence[np.ndarray], width: int) -> Tensor:
    """Marks of rows of different lengths, T or T x C, padded with 0 to B x T or B x T x C."""
    wide = (max(1, *(r.shape[1] for r in rows), 1),) if rows[0].ndim == 2 else ()
    data = np.zeros((len(rows), width, *wide), np.int64)
    for i, row in enumerate(rows):
        data[(i, slice(len(row)), *(slice(n) for n in row.shape[1:]))] = row
    return torch.from_numpy(data)


def _sequences(rows: Sequence[np.ndarray | MarkedIds]) -> Seq:
    """Ids, with or without marks, padded on the right to B x T."""
    ids = pad([row.ids if isinstance(row, MarkedIds) else row for row in rows])
    marked = [row for row in rows if isinstance(row, MarkedIds)]
    if not marked:
        return ids
    blank = {name: mark[:0] for name, mark in marked[0].marks.items()}  # of a row without marks they are 0
    every = [row.marks if isinstance(row, MarkedIds) else blank for row in rows]
    return ids.mark(**{name: _pad_marks([marks[name] for marks in every], ids.width) for name in blank})


def _ragged(values: Sequence[Sequences], name: str) -> Ragged:
    if empty := [row for row, value in enumerate(values) if not len(value)]:
        raise ValueError(f"instance {empty[0]} of a batch has no sequence in {name!r}: give at least one")
    owner = np.repeat(np.arange(len(values)), [len(value) for value in values])
    return Ragged(_sequences([part for value in values for part in value.parts]), torch.from_numpy(owner), len(values))


def collate(instances: Sequence[Instance], rows: Sequence[int] = ()) -> Batch:
    """Put instances together by the type of each value (see ``Instance``). All instances have the same names."""
    fields: dict[str, Any] = {}
    for name, first in instances[0].items():
        values = [i[name] for i in instances]
        if isinstance(first, Targets):
            continue
        if isinstance(first, Instance):
            fields[name] = collate(values, rows)
        elif isinstance(first, int | np.integer):
            fields[name] = torch.tensor([int(v) for v in values])
        elif isinstance(first, float | np.floating):
            fields[name] = torch.tensor([float(v) for v in values])
        elif isinstance(first, Value):
            fields[name] = type(first).collate(values)
        elif isinstance(first, Sequences):
            fields[name] = _ragged(values, name)
        elif isinstance(first, MarkedIds) or (isinstance(first, np.ndarray) and first.dtype.kind in "iu"):
            fields[name] = _sequences(values)
        else:
            stacked = torch.from_numpy(np.stack(values))
            fields[name] = Seq(stacked) if stacked.ndim == 4 else stacked
    for name, first in instances[0].items():
        if isinstance(first, Targets):
            width = fields[first.of].width
            at = np.concatenate([np.asarray(i[name].at, np.int64) + row * width for row, i in enumerate(instances)])
            ids = np.concatenate([np.asarray(i[name].ids, np.int64) for i in instances])
            fields[name] = FlatTargets(torch.from_numpy(at), torch.from_numpy(ids))
    return Batch(fields, len(instances), tuple(int(r) for r in rows))


@dataclass(frozen=True)
class Clock:
    """Where training stands; drives annealing inside objectives."""

    update: int = 0
    updates: int = 1
    epoch: int = 0

    @property
    def progress(self) -> float:
        return self.update / max(self.updates, 1)
