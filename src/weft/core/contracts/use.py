"""Contracts of what uses a trained model: search and metrics."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import torch

from weft.core.contracts.data import Codec, Dataset
from weft.core.contracts.model import Decodes, Structure
from weft.core.contracts.objective import Objective
from weft.core.fields import Info
from weft.core.outputs import Hypothesis
from weft.core.registry import slot
from weft.core.seq import Memory, Seq


@slot
class Search:
    """Decoding strategy: generates sequences with a structure that decodes, best first for each row of the memory or prompt."""

    def __init__(self):
        pass

    def limit(self, source_length: int) -> int:
        """Maximum number of tokens to generate for an input of ``source_length`` tokens."""
        raise TypeError(f"{type(self).__name__} has no limit")

    def __call__(
        self, model: Decodes, memory: Memory | None, *, prompt: Seq | None = None, limits: Sequence[int], keys: Sequence[int] = ()
    ) -> list[list[Hypothesis]]:
        """Generate sequences.

        Args:
            model: The structure.
            memory: What the decoder is conditioned on; None without a memory.
            prompt: Ids to continue; None = BOS.
            limits: Maximum number of tokens to generate, per row.
            keys: A seed per row, so that sampled sequences do not depend on the other rows of the batch.
        """
        raise TypeError(f"{type(self).__name__} has no __call__")


@dataclass(frozen=True)
class EvaluationContext:
    """The input of a metric that is computed from the model itself (``Metric.inputs == "model"``).

    Args:
        model: The network, in evaluation mode and without gradients.
        objective: The objective of the evaluation.
        dataset: The examples.
        codec: Tokenizers and fields of the data.
        device: The device of the model.
        batch_tokens: Tokens per batch.
        last: Whether training is over; before, an expensive estimate may use fewer samples.
    """

    model: Structure
    objective: Objective
    dataset: Dataset
    codec: Codec
    device: torch.device
    batch_tokens: int
    last: bool = True


@slot
class Metric:
    """A metric: one value or several by name, from predictions and references, from the loss, or from the model.

    A subclass sets ``inputs`` and ``higher_is_better`` and implements ``compute``, or ``measure`` if ``inputs`` is "model".
    """

    inputs: ClassVar[str] = "text"
    """What it is computed from: "text" or "label" (predictions), "loss" (then ``predictions`` is a list with one dict, the sum of
    every loss term), or "model" (then ``measure`` is called instead of ``compute``)."""
    needs: ClassVar[tuple[type, ...]] = ()
    """Protocols that the structure must implement."""
    per_example: ClassVar[bool] = True
    """Whether it compares each prediction with its own reference, so that examples can be resampled for a confidence interval.
    False for metrics of a set of texts, such as Self-BLEU."""
    interval: ClassVar[Literal["bca", "proportion", "ratio", "correlation"]] = "bca"
    """How confidence intervals are computed: for values in [0, 1] "proportion" (Wilson; each example is one decision) or "ratio"
    (Wilson; an example is several decisions), "correlation" for values in [-1, 1] (Fisher's z), "bca" for others."""
    min_examples: ClassVar[int] = 1
    """The smallest number of examples for which it is defined."""
    higher_is_better: Mapping[str, bool | None] = {}
    """The direction of every value that the metric returns, by name; None: neither is better (a count). A value of a group,
    ``name/group``, has the direction of ``name``. Early stopping, the best checkpoint, ``compare`` and ``sweep`` use it."""

    def __init__(self):
        pass

    def compute(self, predictions: Sequence[Any], references: Sequence[dict[str, str]]) -> dict[str, float]:
        """Return the values by name, from the predictions as text and the raw examples."""
        raise NotImplementedError(f"{type(self).__name__} does not implement compute")

    def measure(self, context: EvaluationContext) -> dict[str, float]:
        """Return the values by name, from the model itself. Deterministic, and independent of how examples are batched."""
        raise NotImplementedError(f"{type(self).__name__} does not implement measure")

    def direction(self, name: str) -> bool | None:
        """Whether a higher value of ``name`` is better; None where neither is better, or where it is not declared."""
        return self.higher_is_better.get(name, self.higher_is_better.get(name.partition("/")[0]))

    def remarks(self, metric_values: Mapping[str, float]) -> list[str]:
        """Return warnings about the values, as sentences for the log and the console."""
        return []

    def check(self, info: Info) -> None:
        """Raise ValueError if the metric is not defined for such data. The classes may not be known yet."""

    def signature(self) -> str:
        """How the values were computed, where there is more than one way (as in sacrebleu); else an empty string."""
        return ""
