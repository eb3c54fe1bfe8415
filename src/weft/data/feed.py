"""From a dataset and an objective to batches: a pure function of the number of the draw."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from weft.core.batch import Batch, Instance, collate
from weft.core.contracts import Dataset, Objective
from weft.core.registry import base_of, name_of
from weft.core.seeding import Key
from weft.core.seeding import key as hash_of
from weft.data.order import Buckets


@dataclass
class Padding:
    """How many places of the delivered sequences were real tokens, and how many there were."""

    real: int = 0
    total: int = 0

    def add(self, batch: Batch) -> None:
        for x in batch.sequences():
            self.total += x.rows * x.width
            self.real += x.rows * x.width if x.mask is None else int(x.mask.sum())

    @property
    def share(self) -> float:
        """Of all places, the share that was padding."""
        return 1 - self.real / self.total if self.total else 0.0


class _Streams:
    """A generator for every row, from Philox keyed by (hash of everything else, row): there is no state to keep.

    Resetting one Philox costs a twentieth of making one; the generator is good until the next call.
    """

    def __init__(self):
        self.source = np.random.Philox(key=0)
        self.generator = np.random.Generator(self.source)
        self.blank = self.source.state

    def at(self, stream: int, row: int) -> np.random.Generator:
        self.blank["state"]["key"][:] = (stream, row)
        self.source.state = self.blank
        return self.generator


class _Preparer:
    """What feeds and sweeps share: rows -> prepared instances -> a batch, with what happened on the way counted."""

    def __init__(self, dataset: Dataset, objective: Objective, key: Key, budget: int):
        if budget < 1:
            raise ValueError(f"a batch needs a budget of at least 1 token, not {budget}")
        if not len(dataset):
            raise ValueError("the dataset has no rows")
        self.dataset, self.objective, self.key, self.budget = dataset, objective, key, int(budget)
        self.name = name_of(type(objective)) if base_of(type(objective)) else type(objective).__name__
        self.skipped = 0
        self.padding = Padding()
        self._streams = _Streams()

    def costs(self) -> np.ndarray:
        cost = np.asarray(self.objective.cost(self.dataset.lengths))
        if cost.shape != (len(self.dataset),):
            raise ValueError(f"{self.name}: cost has shape {cost.shape}, but the dataset has {len(self.dataset)} rows")
        return cost

    def put_together(self, rows: Sequence[int], epoch: int) -> Batch | None:
        stream = hash_of(self.key, epoch, "prepare", self.name)
        instances: list[Instance] = []
        kept: list[int] = []
        for row in map(int, rows):
            instance = self.objective.prepare(self.dataset[row], self._streams.at(stream, row), self.dataset)
            if instance is None:
                self.skipped += 1
            else:
                instances.append(instance)
                kept.append(row)
        if not instances:
            return None
        batch = collate(instances, kept)
        self.padding.add(batch)
        return batch


class Feed(_Preparer):
    """Batches of one dataset for one objective, endless: draw d is batch d % K of epoch d // K.

    Neither the order nor what ``prepare`` draws depends on the number of processes, on workers, or on what was drawn before.

    Args:
        dataset: Where rows come from.
        objective: Says what a row costs, and prepares it.
        key: What all randomness depends on: the seed and the name of the phase.
        budget: Most tokens of a batch, over all processes.

    Attributes:
        skipped: Rows for which the objective had nothing to learn.
        padding: Real and padded places of what was delivered.
    """

    def __init__(self, dataset: Dataset, objective: Objective, *, key: Key, budget: int):
        super().__init__(dataset, objective, key, budget)
        texts = list(dataset.lengths.values())
        self.buckets = Buckets(self.costs(), self.budget, beside=texts[0] if len(texts) > 1 else None)
        self._order = hash_of(key, "order")

    def __len__(self) -> int:
        return len(self.buckets)

    def epoch(self, draw: int) -> int:
        if draw < 0:
            raise ValueError(f"draws are counted from 0, so there is no draw {draw}")
        return draw // len(self)

    def rows(self, draw: int) -> np.ndarray:
        """The rows of that draw, for all processes together."""
        return self.buckets.rows(self._order, self.epoch(draw), draw % len(self))

    def batch(self, draw: int, without: frozenset[int] = frozenset(), rank: int = 0, world: int = 1) -> Batch | None:
        """The batch of that draw for process ``rank`` of ``world``; None when no row of it is left."""
        if not 0 <= rank < world:
            raise ValueError(f"rank {rank} does not exist among {world} processes")
        rows = self.rows(draw)
        if without:
            rows = rows[[int(row) not in without for row in rows]]
        return self.put_together(rows[rank::world], self.epoch(draw))


class Sweep(_Preparer):
    """Batches over a whole dataset once, shortest rows first; each time the same. ``batch.rows`` says which rows they are.

    What ``prepare`` draws is keyed by epoch -1, so an evaluation always asks the same questions.
    """

    def __iter__(self) -> Iterator[Batch]:
        cost = self.costs()
        order = np.argsort(cost, kind="stable")
        start = 0
        for stop in range(1, len(order) + 1):
            if stop == len(order) or (stop - start + 1) * int(cost[order[stop]]) > self.budget:
                batch = self.put_together(order[start:stop].tolist(), -1)
                start = stop
                if batch is not None:
                    yield batch


def evaluation_batches(dataset: Dataset, objective: Objective, budget: int, key: Key) -> Sweep:
    """Every row of the dataset once, in batches of at most ``budget`` tokens, for evaluation."""
    return Sweep(dataset, objective, key, budget)
