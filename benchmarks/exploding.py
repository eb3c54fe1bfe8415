"""A plug-in whose loss is not a number for some examples, for kills while training rolls back."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from weft.core.batch import Batch, Clock
from weft.core.loss import Loss
from weft.core.registry import block
from weft.objectives import NextToken


@block("exploding")
class Exploding(NextToken):
    """Next token, but the loss of a batch with example 7 or 19 is NaN while training.

    Example:
        >>> Exploding.__name__
        'Exploding'
    """

    def forward(self, model: Any, batch: Batch, clock: Clock) -> Loss:
        terms = super().forward(model, batch, clock)
        if self.training and {7, 19} & set(batch.rows):
            return Loss({name: replace(term, total=term.total * float("nan")) for name, term in terms.items()})
        return terms
