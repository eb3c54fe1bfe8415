"""Contracts of objectives and of their parts: masking strategies, noise, annealing, free bits."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Generic, TypeVar

import numpy as np
from torch import Tensor, nn

from weft.core.batch import Batch, Clock, Instance
from weft.core.contracts.model import Structure
from weft.core.example import Example
from weft.core.fields import Info, TextField
from weft.core.loss import Loss
from weft.core.registry import slot

if TYPE_CHECKING:
    from weft.core.contracts.data import Dataset, ExamplePool
    from weft.core.contracts.use import Search


@slot
class MaskingStrategy(ABC):
    """Selects the tokens of a text to mask."""

    def __init__(self):
        pass

    @abstractmethod
    def choose(self, begins_T: np.ndarray, budget: int, rng: np.random.Generator) -> list[np.ndarray]:
        """Groups of positions, disjoint, at most ``budget`` in total. ``begins_T``: True at the first token of a word."""


@dataclass(frozen=True)
class Corrupted:
    """A corrupted text: input of the encoder and target of the decoder."""

    source: np.ndarray
    target: np.ndarray


@slot
class Noise(ABC):
    """A noising function for texts of two tokens or more. ``restores``: the target is the original text.

    Reserved ids of the field that occur in the text are never corrupted.
    """

    restores: ClassVar[bool] = False

    def __init__(self):
        pass

    def check(self, field: TextField) -> None:
        """Raise ValueError where the vocabulary lacks ids (masks, sentinels) that the longest text may need."""

    @abstractmethod
    def corrupt(self, ids: np.ndarray, rng: np.random.Generator, field: TextField) -> Corrupted:
        """The corrupted input and its target."""


@dataclass(frozen=True)
class SegmentPair:
    """Two segments, and whether they are in their original relation."""

    first: np.ndarray
    second: np.ndarray
    belong: bool


@slot
class Pairing(ABC):
    """Builds a pair of segments from a text: next-sentence prediction, sentence-order prediction."""

    def __init__(self):
        pass

    @abstractmethod
    def pair(self, ids: np.ndarray, rng: np.random.Generator, pool: ExamplePool | None, name: str) -> SegmentPair | None:
        """Segments of the text ``ids``; negatives come from the field ``name`` of ``pool``. None = the text is too short."""


@slot
class Annealing(ABC):
    """A weight that changes during training."""

    def __init__(self):
        pass

    @abstractmethod
    def weight(self, progress: float) -> float:
        """The weight at a fraction of training, from 0 (start) to 1 (end)."""

    def check(self, updates: int) -> None:
        """Raise ValueError where the number of updates is too small."""


@slot
class FreeBits(ABC):
    """Free-bits threshold on the KL divergence of the posterior from the prior."""

    def __init__(self):
        pass

    @abstractmethod
    def kl_term(self, kl_BP: Tensor) -> Tensor:
        """B: the KL term of each row, from the divergence of each row and dimension."""


M = TypeVar("M")
"""What an objective calls of a structure: a protocol, or a class that inherits from several."""


@slot
class Objective(nn.Module, ABC, Generic[M]):
    """A training objective. Owns the heads that only its loss needs; they are trained and saved with the model.

    Most objectives implement ``prepare``, ``counts`` and ``forward``. The type argument tells a type checker what ``model``
    provides, as ``needs`` tells weft: ``class Tagging(Objective[Tags])`` with ``needs = (Tags,)``.
    """

    needs: tuple[type, ...] = ()
    """Protocols that the structure must provide: Encodes, Decodes, Classifies, Tags, ..."""
    fills: bool = False
    """True where a request may contain mask tokens to be predicted."""
    couples: bool = False
    """True where the examples of a batch interact (contrastive losses)."""
    metrics: ClassVar[tuple[str, ...]] = ()
    """Catalog names of the metrics that are reported where a recipe names none: those that cost no generation of text."""
    higher_is_better: Mapping[str, bool | None] = {}
    """The direction of every value of ``metric_values``, by name; None: neither is better. (A loss term has its own.)"""

    def __init__(self, info: Info, dim: int):
        super().__init__()

    def cost(self, lengths: Mapping[str, np.ndarray]) -> np.ndarray:
        """Tokens that each example takes in a batch: examples are bucketed and budgeted by it."""
        return np.sum([np.asarray(v, np.int64) for v in lengths.values()], axis=0)

    @abstractmethod
    def prepare(self, example: Example, rng: np.random.Generator, pool: ExamplePool | None) -> Instance | None:
        """Example -> training instance; None = nothing to learn from it (counted). ``pool`` is the training dataset, for
        objectives that sample other examples; None for a request."""

    def counts(self, batch: Batch) -> dict[str, int]:
        """Denominator of each loss term; depends on the batch alone and equals the counts in ``forward``."""
        return {"loss": len(batch)}

    @abstractmethod
    def forward(self, model: M, batch: Batch, clock: Clock) -> Loss:
        """The loss of a batch. ``model`` provides the protocols in ``needs``."""

    def setup(self, model: M, dataset: Dataset) -> None:
        """Called once per stage, before the first update."""

    def collect(self, model: M, batch: Batch) -> Batch:
        """Called without gradient before the update: rollouts, predicted templates."""
        return batch

    def observe(self, means: Mapping[str, float]) -> None:
        """Called after each update with the mean of every term: baselines, adaptive weights."""

    def metric_values(self, means: Mapping[str, float]) -> dict[str, float]:
        """Further metrics computed from the mean of every term, e.g. perplexity."""
        return {}

    def prepare_request(self, example: Example) -> Instance | None:
        """The instance for ``predict``, from an example without its target; None where there is nothing to predict."""
        return self.prepare(example, np.random.default_rng(0), None)

    def predict(self, model: M, batch: Batch, search: Search) -> list[Any]:
        """A prediction per row: generated sequences (``list[Hypothesis]``), a class index, a ``SpanPrediction``, or the tokens at
        masked positions (``MaskPrediction``)."""
        raise ValueError(f"{type(self).__name__} has no predictions to compare with references; evaluate its loss only")

    def probabilities(self, model: M, batch: Batch) -> Tensor | None:
        """B x C class probabilities, where the prediction is a class; else None."""
        return None


def require(objective: Objective, model: object) -> None:
    """Raise ValueError for a structure that lacks a protocol the objective needs."""
    provided = model.provides() if isinstance(model, Structure) else [need for need in objective.needs if isinstance(model, need)]
    if missing := [need.__name__ for need in objective.needs if need not in provided]:
        what, name = " and ".join(missing), type(model).__name__
        raise ValueError(f"{type(objective).__name__} needs a structure that provides {what}, but {name} does not")
