"""Loss and loss terms of one optimizer step, summed over its micro-batches without a synchronization per micro-batch."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from torch import Tensor

from weft.core.loss import Loss, to_floats

_LOSS = ""


class TermTotals:
    """Sums the loss and its terms over the micro-batches of an optimizer step.

    The values stay on the device until ``read``, which copies all of them to the host in a single synchronization. They are
    summed there in double precision, in the order of the micro-batches.

    Args:
        terms: Names of the terms; others may follow.
        counts: Denominator of each term over the full optimizer step.

    Example:
        >>> import torch
        >>> totals = TermTotals(["loss"], {"loss": 4})
        >>> for total in (6.0, 2.0):
        ...     totals.add(torch.tensor(total / 4), Loss.of(torch.tensor(total), 2))
        >>> totals.read(torch.tensor(0.5))
        (2.0, {'loss': 2.0}, 0.5)
    """

    def __init__(self, terms: Iterable[str], counts: Mapping[str, float]):
        self.terms, self.counts = list(terms), counts
        self.names: list[str] = []
        self.values: list[Tensor] = []

    def add(self, loss: Tensor, terms: Loss) -> None:
        """Add a micro-batch: its part of the loss, and its terms."""
        self.names += [_LOSS, *terms]
        self.values += [loss.detach(), *(term.total.detach() for term in terms.values())]

    def read(self, grad_norm: Tensor) -> tuple[float, dict[str, float], float]:
        """Return the loss, the mean of each term and the gradient norm as floats."""
        *values, norm = to_floats([*self.values, grad_norm])
        loss, means = 0.0, dict.fromkeys(self.terms, 0.0)
        for name, value in zip(self.names, values, strict=True):
            if name == _LOSS:
                loss += value
            else:
                means[name] = means.get(name, 0.0) + value / max(self.counts[name], 1)
        return loss, means, norm
