"""Positions of a grid that can begin with those of another. P positions; other suffixes as in seq.py."""

from __future__ import annotations

from math import isqrt
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from weft.blocks.embedding.position import LearnedPositionEmbedder
from weft.core.fields import Field
from weft.core.registry import block


@block("interpolated")
class InterpolatedPositionEmbedder(LearnedPositionEmbedder):
    """A learned vector for each place of a square grid; weights that were learned on a grid of another size begin it, stretched.

    p_t = P[t], with P = bicubic(P', side x side) where it takes the P' of another side; the vector before the grid, if there is
    one, is taken as it is

    Dosovitskiy et al. 2021 (ViT), section 3.2, https://arxiv.org/abs/2010.11929

    Example:
        >>> field = Field("image", 4, kind="vector", max_length=10)  # 3 x 3 patches, and one vector before them
        >>> InterpolatedPositionEmbedder(4, field).fitted(torch.ones(1 + 5 * 5, 4)).shape
        torch.Size([10, 4])
    """

    def __init__(self, dim: int, field: Field):
        super().__init__(dim, field)

    def fitted(self, theirs_PD: Tensor) -> Tensor:
        """Positions of another grid on this one; as they are where one of both is no square, and so no grid."""
        theirs, ours = _grid(len(theirs_PD)), _grid(self.length)
        if theirs_PD.ndim != 2 or theirs is None or ours is None or theirs.before != ours.before or theirs.side == ours.side:
            return theirs_PD
        first_PD, grid_PD = theirs_PD[: theirs.before], theirs_PD[theirs.before :]
        grid_1Dhw = grid_PD.T.unflatten(1, (theirs.side, theirs.side))[None]
        stretched_1Dhw = F.interpolate(grid_1Dhw, size=(ours.side, ours.side), mode="bicubic", align_corners=False)
        return torch.cat([first_PD, stretched_1Dhw[0].flatten(1).T])


class _Grid(NamedTuple):
    side: int
    before: int


def _grid(length: int) -> _Grid | None:
    """The grid of so many positions, of which none or one stands before it."""
    for before in (0, 1):
        side = isqrt(max(length - before, 0))
        if side and side * side + before == length:
            return _Grid(side, before)
    return None
