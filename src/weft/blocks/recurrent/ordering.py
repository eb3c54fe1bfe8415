"""Reordering of padded batches for recurrent networks, so that padding never precedes a real token.

Shape suffixes: see seq.py.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from weft.core.seq import Seq


@dataclass(frozen=True)
class SequenceOrder:
    """The order in which a recurrent network processes a batch: real tokens first, forward or reversed, then padding.

    Args:
        source_BT: For each step, the position of its token; None = the order of the batch.
        step_BT: For each position, the step that processes its token.
        mask_BT: True = real token; None = no padding.
    """

    source_BT: Tensor | None
    step_BT: Tensor | None
    mask_BT: Tensor | None

    @classmethod
    def of(cls, x: Seq, reverse: bool = False) -> SequenceOrder:
        if x.mask is None:
            if not reverse:
                return cls(None, None, None)
            reversed_BT = torch.arange(x.width - 1, -1, -1, device=x.data.device).expand(x.rows, -1)
            return cls(reversed_BT, reversed_BT, None)
        source_BT = torch.argsort((~x.mask).to(torch.uint8), dim=1, stable=True)
        step_BT = x.mask.long().cumsum(1) - 1
        if reverse:
            last_B1 = x.lengths()[:, None] - 1
            step_T = torch.arange(x.width, device=x.data.device)
            source_BT = source_BT.gather(1, torch.where(step_T <= last_B1, last_B1 - step_T, step_T))
            step_BT = last_B1 - step_BT
        return cls(source_BT, step_BT.clamp(min=0), x.mask)

    def reorder(self, x_BTD: Tensor) -> Tensor:
        """Vectors in processing order, zeros for padding."""
        if self.mask_BT is not None:
            x_BTD = x_BTD.masked_fill(~self.mask_BT[..., None], 0.0)
        return x_BTD if self.source_BT is None else _gather(x_BTD, self.source_BT)

    def restore(self, y_BTD: Tensor) -> Tensor:
        """Outputs in the order of the batch, zeros for padding."""
        if self.step_BT is not None:
            y_BTD = _gather(y_BTD, self.step_BT)
        return y_BTD if self.mask_BT is None else y_BTD.masked_fill(~self.mask_BT[..., None], 0.0)


def run_recurrent(network: nn.Module, x_BTD: Tensor, state: Any = None) -> Any:
    """Call the recurrent network, with autocast disabled on a CPU: its kernels train only in the precision of the weights."""
    if x_BTD.device.type != "cpu" or not torch.is_autocast_enabled("cpu"):
        return network(x_BTD, state)
    dtype = next(network.parameters()).dtype
    if state is not None:
        state = state.to(dtype) if isinstance(state, Tensor) else tuple(v.to(dtype) for v in state)
    with torch.autocast("cpu", enabled=False):
        return network(x_BTD.to(dtype), state)


def _gather(x_BTD: Tensor, index_BT: Tensor) -> Tensor:
    # As an embedding lookup over all rows of the batch: it copies full vectors, whereas gather indexes every element.
    first_B1 = torch.arange(0, x_BTD.shape[0] * x_BTD.shape[1], x_BTD.shape[1], device=index_BT.device)[:, None]
    return F.embedding(index_BT + first_B1, x_BTD.flatten(0, 1))
