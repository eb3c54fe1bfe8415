"""Contracts of what uses a trained model: search and metrics."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import torch

from weft.core.contracts.data import Codec, Dataset
from weft.core.contracts.objective import Objective
from weft.core.fields import Info
from weft.core.outputs import Hypothesis
from weft.core.registry import slot
from weft.core.seq import Memory, Seq


@slot
class Search:
    """Finds sequences under a structure that decodes. One row of the result per row of the memory or prompt, best first."""

    def __init__(self):
        pass

    def limit(self, source_length: int) -> int:
        """Most tokens to generate for an input of so many tokens."""
        raise TypeError(f"{type(self).__name__} has no limit")

    def __call__(
        self, model: Any, memory: Memory | None, *, prompt: Seq | None = None, limits: Sequence[int], keys: Sequence[int] = ()
    ) -> list[list[Hypothesis]]:
        """Args: prompt: ids to go on from (default: the begin mark). limits: most tokens to generate, per row.
        keys: a number per row that randomness depends on, so that results do not depend on what else is in the batch."""
        raise TypeError(f"{type(self).__name__} has no __call__")


@dataclass(frozen=True)
class EvaluationContext:
    """What a metric is given that looks at the model itself.

    Args:
        model: In evaluation mode, without gradients.
        objective: The one that evaluates.
        dataset: The rows that are judged.
        codec: Of the data.
        device: Where the model is.
        batch: Tokens per batch.
        last: Whether training is over: a figure that costs much may be rougher before.
    """

    model: Any
    objective: Objective
    dataset: Dataset
    codec: Codec
    device: torch.device
    batch: int
    last: bool = True


@slot
class Metric:
    """A figure from predictions and references. ``wants`` is text, label, loss (then ``predictions`` is one dict: the sum of
    every term of the loss), or model (then ``measure`` is asked, not ``compute``)."""

    wants: ClassVar[str] = "text"
    needs: ClassVar[tuple[type, ...]] = ()
    """Protocols that the structure must have."""
    per_example: ClassVar[bool] = True
    """Whether it is about each row by itself, so that rows can be drawn again for an interval. False where it is about the set:
    how much its texts differ."""
    least: ClassVar[int] = 1
    """The fewest rows that it can say something of."""

    def __init__(self):
        pass

    def compute(self, predictions: Sequence[Any], references: Sequence[dict[str, str]]) -> dict[str, float]:
        """By name, from the predicted strings and the raw rows."""
        raise TypeError(f"{type(self).__name__} has no compute")

    def measure(self, subject: EvaluationContext) -> dict[str, float]:
        """By name, from the model itself. Equal whenever it is asked, and whatever rows are in a batch together."""
        raise TypeError(f"{type(self).__name__} has no measure")

    def remarks(self, metric_values: Mapping[str, float]) -> list[str]:
        """What a person should know who reads these figures: sentences for the log and the screen."""
        return []

    def check(self, info: Info) -> None:
        """Raise ValueError where it can say nothing of such data. Classes may not be known yet."""

    def signature(self) -> str:
        """How it was computed, where there is more than one way and others must know; else nothing."""
        return ""
