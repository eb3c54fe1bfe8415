"""Position embeddings of image patches that adapt to another image size. Shape suffixes: P positions; others: see seq.py."""

from __future__ import annotations

from math import isqrt
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from weft.blocks.embedding.position import LearnedPositionEmbedder
from weft.core.fields import Field, VectorField
from weft.core.registry import block


@block("interpolated")
class InterpolatedPositionEmbedder(LearnedPositionEmbedder):
    """Learned position embeddings of a square grid of patches; pretrained ones of another grid size are interpolated.

    p_t = P[t],  P = bicubic(P'), with P' the pretrained embeddings

    The embedding of a class token before the grid is copied unchanged.

    Dosovitskiy et al. 2021 (ViT), section 3.2, https://arxiv.org/abs/2010.11929

    Example:
        >>> field = VectorField("image", 4, 10)  # 3 x 3 patches and a class token
        >>> InterpolatedPositionEmbedder(4, field).fitted(torch.ones(1 + 5 * 5, 4)).shape
        torch.Size([10, 4])
    """

    def __init__(self, dim: int, field: Field):
        super().__init__(dim, field)
        self.grid = field.grid if isinstance(field, VectorField) else ()

    def fitted(self, pretrained_PD: Tensor) -> Tensor:
        """Pretrained embeddings of a square grid interpolated to this grid; unchanged if one of the two is no grid."""
        source, target = _square(len(pretrained_PD)), self._target()
        if pretrained_PD.ndim != 2 or source is None or target is None or source.before != target.before or source == target:
            return pretrained_PD
        first_PD, grid_PD = pretrained_PD[: source.before], pretrained_PD[source.before :]
        grid_1Dhw = grid_PD.T.unflatten(1, (source.rows, source.columns))[None]
        resized_1Dhw = F.interpolate(grid_1Dhw, size=(target.rows, target.columns), mode="bicubic", align_corners=False)
        return torch.cat([first_PD, resized_1Dhw[0].flatten(1).T])

    def _target(self) -> _Grid | None:
        if not self.grid:
            return _square(self.length)
        rows, columns = self.grid
        return _Grid(rows, columns, self.length - rows * columns)


class _Grid(NamedTuple):
    rows: int
    columns: int
    before: int


def _square(length: int) -> _Grid | None:
    """The square grid of ``length`` positions, with or without a class token before it; None if there is none."""
    for before in (0, 1):
        side = isqrt(max(length - before, 0))
        if side and side * side + before == length:
            return _Grid(side, side, before)
    return None
