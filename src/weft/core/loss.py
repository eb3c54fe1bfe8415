"""Losses as sums with counts, so that accumulation and several processes are exact."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True)
class Term:
    """One term of a loss: a *sum* with its denominator, never a mean.

    Args:
        total: The sum over the batch, a scalar.
        count: The denominator: examples, tokens, ...
        weight: The factor of the term in the loss; 0 for a value that is only reported.
        higher_is_better: The direction of the term's mean: False for a loss, True for an accuracy that is reported beside it.

    Example:
        >>> Term(torch.tensor(6.0), count=3).higher_is_better
        False
    """

    total: Tensor
    count: int
    weight: float = 1.0
    higher_is_better: bool = False


class Loss(dict[str, Term]):
    """Loss terms by name, as sums and counts: exact under gradient accumulation, uneven batches and several processes."""

    @classmethod
    def of(cls, total: Tensor, count: int, name: str = "loss") -> Loss:
        return cls({name: Term(total, count)})

    def mean(self) -> Tensor:
        """sum_k weight_k total_k / count_k: the loss of this batch alone, for your own training loop."""
        return torch.stack([t.weight * t.total / max(t.count, 1) for t in self.values()]).sum()


def to_floats(scalars: Sequence[Tensor]) -> list[float]:
    """Copy scalar tensors to the host in one synchronization; ``.item()`` costs one for each of them.

    Args:
        scalars: Tensors of one element, of any data types.

    Example:
        >>> to_floats([torch.tensor(1.5), torch.tensor(2)])
        [1.5, 2.0]
    """
    if not scalars:
        return []
    device = scalars[0].device
    dtype = torch.float32 if device.type == "mps" else torch.float64  # MPS has no float64
    return torch.stack([scalar.detach().to(device, dtype) for scalar in scalars]).tolist()
