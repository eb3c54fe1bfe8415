"""The order in which a recurrent network reads a padded batch, so that it never meets padding before a real token.

Suffixes: see seq.py.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from weft.core.seq import Seq


@dataclass(frozen=True)
class Reading:
    """The real tokens of each row first, in order or in reverse; padding after them.

    Args:
        take_BT: For each place of the reading, the position it takes its token from; None = as they stand.
        put_BT: For each position, the place in the reading that has its token.
        mask_BT: True = real; None = no padding.
    """

    take_BT: Tensor | None
    put_BT: Tensor | None
    mask_BT: Tensor | None

    @classmethod
    def of(cls, x: Seq, reverse: bool = False) -> Reading:
        if x.mask is None:
            if not reverse:
                return cls(None, None, None)
            back_BT = torch.arange(x.width - 1, -1, -1, device=x.data.device).expand(x.rows, -1)
            return cls(back_BT, back_BT, None)
        take_BT = torch.argsort((~x.mask).to(torch.uint8), dim=1, stable=True)
        put_BT = x.mask.long().cumsum(1) - 1
        if reverse:
            last_B1 = x.lengths()[:, None] - 1
            place_T = torch.arange(x.width, device=x.data.device)
            take_BT = take_BT.gather(1, torch.where(place_T <= last_B1, last_B1 - place_T, place_T))
            put_BT = last_B1 - put_BT
        return cls(take_BT, put_BT.clamp(min=0), x.mask)

    def arrange(self, x_BTD: Tensor) -> Tensor:
        """Tokens in the order of the reading; zeros for padding."""
        if self.mask_BT is not None:
            x_BTD = x_BTD.masked_fill(~self.mask_BT[..., None], 0.0)
        return x_BTD if self.take_BT is None else _gather(x_BTD, self.take_BT)

    def restore(self, y_BTD: Tensor) -> Tensor:
        """What was read, back at the positions it belongs to; zeros at padding."""
        if self.put_BT is not None:
            y_BTD = _gather(y_BTD, self.put_BT)
        return y_BTD if self.mask_BT is None else y_BTD.masked_fill(~self.mask_BT[..., None], 0.0)


def run_recurrent(network: nn.Module, x_BTD: Tensor, first: Any = None) -> Any:
    """The network's own forward. CPU kernels train in the precision of the weights only: mixed precision goes around them."""
    if x_BTD.device.type != "cpu" or not torch.is_autocast_enabled("cpu"):
        return network(x_BTD, first)
    kind = next(network.parameters()).dtype
    if first is not None:
        first = first.to(kind) if isinstance(first, Tensor) else tuple(v.to(kind) for v in first)
    with torch.autocast("cpu", enabled=False):
        return network(x_BTD.to(kind), first)


def _gather(x_BTD: Tensor, index_BT: Tensor) -> Tensor:
    # As in a table of all rows of the batch: whole vectors are copied, where gather would look up each of their numbers.
    first_B1 = torch.arange(0, x_BTD.shape[0] * x_BTD.shape[1], x_BTD.shape[1], device=index_BT.device)[:, None]
    return F.embedding(index_BT + first_B1, x_BTD.flatten(0, 1))
