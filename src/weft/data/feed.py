"""Feeds: batches of a dataset for an objective, as a pure function of the batch index."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from weft.core.batch import Batch, Instance, collate
from weft.core.contracts import Dataset, Objective, TrainingDataset
from weft.core.example import Example
from weft.core.registry import base_of, name_of
from weft.core.seeding import Key
from weft.core.seeding import key as hash_of
from weft.data.mixing import MixtureBuckets, MixtureDataset
from weft.data.order import Buckets


@dataclass
class PaddingStats:
    """Number of real tokens and of all positions, padding included, in the batches so far."""

    real: int = 0
    total: int = 0

    def add(self, batch: Batch) -> None:
        for x in batch.sequences():
            self.total += x.rows * x.width
            self.real += x.rows * x.width if x.mask is None else int(x.mask.sum())

    @property
    def ratio(self) -> float:
        """Fraction of positions that are padding."""
        return 1 - self.real / self.total if self.total else 0.0


class _RowGenerators:
    """A random generator for every row: Philox keyed by (hash of everything else, row), so there is no state to save.

    Resetting a Philox costs a twentieth of creating one; the generator is valid until the next call.
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
    """Prepares rows and collates them into a batch, counting skipped rows and padding."""

    def __init__(self, dataset: Dataset, objective: Objective, key: Key, budget: int):
        if budget < 1:
            raise ValueError(f"the token budget of a batch must be at least 1, not {budget}")
        if not len(dataset):
            raise ValueError("the dataset is empty")
        self.dataset, self.objective, self.key, self.budget = dataset, objective, key, int(budget)
        self.name = name_of(type(objective)) if base_of(type(objective)) else type(objective).__name__
        self.skipped = 0
        self.padding = PaddingStats()
        self._generators = _RowGenerators()

    def counts(self) -> dict[str, int]:
        """Return the number of skipped rows, of real tokens and of all positions in the batches so far."""
        return {"skipped": self.skipped, "real": self.padding.real, "total": self.padding.total}

    def costs(self) -> np.ndarray:
        cost = np.asarray(self.objective.cost(self.dataset.lengths))
        if cost.shape != (len(self.dataset),):
            raise ValueError(f"{self.name}: cost has shape {cost.shape}, but must be ({len(self.dataset)},): one value per row")
        return cost

    def example(self, row: int, rng: np.random.Generator) -> Example:
        """Return the example of a row."""
        return self.dataset[row]

    def instance(self, row: int, epoch: int) -> Instance | None:
        """Return the instance of a row in an epoch, as in its batch; None if the objective skips it."""
        return self._prepare(row, self._stream(epoch))

    def _stream(self, epoch: int) -> int:
        """The hash of everything but the row on which the random choices of a row depend."""
        return hash_of(self.key, epoch, "prepare", self.name)

    def _prepare(self, row: int, stream: int) -> Instance | None:
        rng = self._generators.at(stream, row)
        return self.objective.prepare(self.example(row, rng), rng, self.dataset)

    def prepare_batch(self, rows: Sequence[int], epochs: Sequence[int]) -> Batch | None:
        """Prepare rows and collate them; ``epochs``: how often each was passed before, on which its random choices depend."""
        streams = {epoch: self._stream(epoch) for epoch in set(epochs)}
        instances: list[Instance] = []
        kept: list[int] = []
        for row, epoch in zip(rows, epochs, strict=True):
            instance = self._prepare(row, streams[epoch])
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
    """Infinite sequence of training batches: batch d is batch d % K of epoch d // K.

    Neither the order nor the random choices of ``prepare`` depend on the number of processes or on earlier batches.

    Args:
        dataset: The examples.
        objective: Computes the cost of a row in tokens, and prepares it.
        key: Seed of all randomness: the seed of the run and the name of the phase.
        budget: Maximum number of tokens per batch, over all processes.
        batch_size: Examples per batch instead, over all processes.

    Attributes:
        skipped: Number of rows that the objective skipped.
        padding: Padding of the batches so far.
    """

    def __init__(self, dataset: Dataset, objective: Objective, *, key: Key, budget: int, batch_size: int | None = None):
        super().__init__(dataset, objective, key, budget)
        texts = list(dataset.lengths.values())
        self.buckets = _buckets(dataset, self.costs(), self.budget, texts[0] if len(texts) > 1 else None, batch_size)
        self._order = hash_of(key, "order")

    def __len__(self) -> int:
        return len(self.buckets)

    def epoch(self, draw: int) -> int:
        if draw < 0:
            raise ValueError(f"the batch index must be at least 0, not {draw}")
        return draw // len(self)

    def rows(self, draw: int) -> np.ndarray:
        """Return the rows of a batch, over all processes."""
        return self._sample(draw)[0]

    def example(self, row: int, rng: np.random.Generator) -> Example:
        """Return the example of a row as training sees it, such as augmented."""
        return training_example(self.dataset, row, rng)

    def _sample(self, draw: int) -> tuple[np.ndarray, np.ndarray]:
        return self.buckets.sample(self._order, self.epoch(draw), draw % len(self))

    def batch(self, draw: int, without: frozenset[int] = frozenset(), rank: int = 0, world: int = 1) -> Batch | None:
        """Return the batch for process ``rank`` of ``world``; None if it has no rows left."""
        if not 0 <= rank < world:
            raise ValueError(f"rank must be in 0 .. {world - 1}, not {rank}")
        rows, epochs = self._sample(draw)
        if without:
            kept = [int(row) not in without for row in rows]
            rows, epochs = rows[kept], epochs[kept]
        return self.prepare_batch(rows[rank::world].tolist(), epochs[rank::world].tolist())


def training_example(dataset: Dataset, row: int, rng: np.random.Generator) -> Example:
    """Return an example of a dataset as training sees it."""
    return dataset.training_example(row, rng) if isinstance(dataset, TrainingDataset) else dataset[row]


def _buckets(
    dataset: Dataset, cost: np.ndarray, budget: int, beside: np.ndarray | None, batch_size: int | None
) -> Buckets | MixtureBuckets:
    """Build the order of the batches of a dataset; a mixture has quotas for its sources."""
    if isinstance(dataset, MixtureDataset) and dataset.quotas:
        sizes = {"sizes": dataset.sizes, "quotas": dataset.quotas}
        return MixtureBuckets(cost, budget, **sizes, beside=beside, batch_size=batch_size)
    return Buckets(cost, budget, beside=beside, batch_size=batch_size)


class EvaluationFeed(_Preparer):
    """Batches over the full dataset once, shortest rows first; deterministic. ``batch.rows`` has the row indices.

    The random choices of ``prepare`` are keyed by epoch -1, so every evaluation sees the same examples.
    """

    def __iter__(self) -> Iterator[Batch]:
        cost = self.costs()
        order = np.argsort(cost, kind="stable")
        start = 0
        for stop in range(1, len(order) + 1):
            if stop == len(order) or (stop - start + 1) * int(cost[order[stop]]) > self.budget:
                batch = self.prepare_batch(order[start:stop].tolist(), [-1] * (stop - start))
                start = stop
                if batch is not None:
                    yield batch


def evaluation_batches(dataset: Dataset, objective: Objective, budget: int, key: Key) -> EvaluationFeed:
    """Return every row of the dataset once, in batches of at most ``budget`` tokens, for evaluation."""
    return EvaluationFeed(dataset, objective, key, budget)
