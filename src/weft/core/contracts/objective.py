"""Contracts of objectives and of their parts: masking strategies, noise, annealing, free bits."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from torch import Tensor, nn

from weft.core.batch import Batch, Clock, Instance
from weft.core.contracts.model import Structure
from weft.core.example import Example
from weft.core.fields import Field, Info
from weft.core.loss import Loss
from weft.core.registry import slot

if TYPE_CHECKING:
    from weft.core.contracts.use import Search


@slot
class MaskingStrategy:
    """Which places of a text are hidden."""

    def __init__(self):
        pass

    def choose(self, begins_T: np.ndarray, budget: int, rng: np.random.Generator) -> list[np.ndarray]:
        """Groups of places, no place twice and at most ``budget`` in all. ``begins_T``: where a word begins."""
        raise TypeError(f"{type(self).__name__} has no choose")


@dataclass(frozen=True)
class Corrupted:
    """What is read and what is to be written, made of a text."""

    source: np.ndarray
    target: np.ndarray


@slot
class Noise:
    """What is done to a text of two tokens or more. ``restores``: the target is the text itself.

    Reserved ids of the field that stand in the text are not chosen.
    """

    restores: ClassVar[bool] = False

    def __init__(self):
        pass

    def check(self, field: Field) -> None:
        """Raise ValueError where the vocabulary has not the ids that the field's longest text may need."""

    def corrupt(self, ids: np.ndarray, rng: np.random.Generator, field: Field) -> Corrupted:
        raise TypeError(f"{type(self).__name__} has no corrupt")


@dataclass(frozen=True)
class SegmentPair:
    """Two segments, and whether they belong together."""

    first: np.ndarray
    second: np.ndarray
    belong: bool


@slot
class Pairing:
    """How two segments are made of a text."""

    def __init__(self):
        pass

    def pair(self, ids: np.ndarray, rng: np.random.Generator, pool: Any, name: str) -> SegmentPair | None:
        """Segments of the text ``ids``; ``pool`` has other texts, in the field ``name``. None = the text is too short."""
        raise TypeError(f"{type(self).__name__} has no pair")


@slot
class Annealing:
    """A weight that changes while training goes on."""

    def __init__(self):
        pass

    def weight(self, share: float) -> float:
        """At a ``share`` of all updates, from 0 (none is done) to 1 (all are)."""
        raise TypeError(f"{type(self).__name__} has no weight")

    def check(self, updates: int) -> None:
        """Raise ValueError where so many updates are too few for it."""


@slot
class FreeBits:
    """What of the divergence of a posterior from the prior is paid for."""

    def __init__(self):
        pass

    def kept(self, kl_BP: Tensor) -> Tensor:
        """B: from the divergence of each row and dimension, what is added to a row's loss."""
        raise TypeError(f"{type(self).__name__} has no kept")


@slot
class Objective(nn.Module):
    """What is to be predicted. Owns the heads that only its loss needs; they are trained and saved with the model.

    Most objectives write ``prepare``, ``counts`` and ``forward``.
    """

    needs: tuple[type, ...] = ()
    """Protocols that the structure must have: Encodes, Decodes, Classifies, Tags, ..."""
    fills: bool = False
    """True where masks may stand in a text that is asked about, to be filled."""
    couples: bool = False
    """True where the examples of a batch interact (contrastive losses)."""

    def __init__(self, info: Info, dim: int):
        super().__init__()

    def cost(self, lengths: Mapping[str, np.ndarray]) -> np.ndarray:
        """Tokens that each example will take in a batch: what rows are sorted and budgeted by."""
        return np.sum([np.asarray(v, np.int64) for v in lengths.values()], axis=0)

    def prepare(self, example: Example, rng: np.random.Generator, pool: Any) -> Instance | None:
        """Clean example -> training instance; None = nothing to learn here, counted. ``pool`` is the whole dataset."""
        raise TypeError(f"{type(self).__name__} has no prepare")

    def counts(self, batch: Batch) -> dict[str, int]:
        """What each term of the loss will be divided by; depends on the batch alone. Equal to the counts in ``forward``."""
        return {"loss": len(batch)}

    def forward(self, model: Any, batch: Batch, clock: Clock) -> Loss:
        raise TypeError(f"{type(self).__name__} has no forward")

    def begin(self, model: Any, dataset: Any) -> None:
        """Once per stage, before the first update."""

    def collect(self, model: Any, batch: Batch) -> Batch:
        """Without gradient, before the update: rollouts, predicted templates."""
        return batch

    def observe(self, means: Mapping[str, float]) -> None:
        """After each update, the mean of every term: baselines, adaptive weights."""

    def metric_values(self, means: Mapping[str, float]) -> dict[str, float]:
        """What else an evaluation should say of the mean of every term, e.g. a perplexity."""
        return {}

    def ask(self, example: Example) -> Instance | None:
        """What is asked of a row without its answer, for ``predict``; None = nothing can be."""
        return self.prepare(example, np.random.default_rng(0), None)

    def predict(self, model: Any, batch: Batch, search: Search) -> list[Any]:
        """An answer per row: ids of a text (``list[Hypothesis]``), the number of a class, a ``SpanPrediction`` of a text,
        the tokens at its masks (``MaskPrediction``)."""
        raise ValueError(f"{type(self).__name__} predicts nothing that could be compared with the data")

    def probabilities(self, model: Any, batch: Batch) -> Tensor | None:
        """B x C: how probable each class is, where an answer is a class; else None."""
        return None


def require(objective: Objective, model: Any) -> None:
    """Refuse a structure that lacks what the objective needs, where it would otherwise compute something else in silence."""
    provided = model.provides() if isinstance(model, Structure) else [need for need in objective.needs if isinstance(model, need)]
    if missing := [need.__name__ for need in objective.needs if need not in provided]:
        what, name = " and ".join(missing), type(model).__name__
        raise ValueError(f"{type(objective).__name__} needs a structure that {what}, and {name} does not")
