"""Absolute position embeddings. Suffixes: see seq.py."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from weft.blocks.embedding.lookup import lookup
from weft.core.contracts import Embedder
from weft.core.fields import Field, Special
from weft.core.options import Count, Natural, Positive
from weft.core.registry import block
from weft.core.seq import Seq


def angles(position: Tensor, size: int, base: float) -> Tensor:
    """position / base^(i / size) for i = 0 .. size - 1, in single precision whatever the model is in."""
    rate = base ** -(torch.arange(size, device=position.device, dtype=torch.float32) / max(size, 1))
    return position[..., None] * rate


@block("sinusoidal")
class SinusoidalPositionEmbedder(Embedder):
    """Fixed waves of the position, from fast to slow.

    p_t = [sin(t w_0), sin(t w_1), ..., cos(t w_0), cos(t w_1), ...],  w_i = base^(-2 i / dim)

    Vaswani et al. 2017, https://arxiv.org/abs/1706.03762 (who interleave the sines and cosines; a permutation of these)

    Args:
        base: How much slower the slowest wave is.

    Example:
        >>> import torch
        >>> from weft.core.fields import Field
        >>> SinusoidalPositionEmbedder(2, Field("text", 9))(Seq(torch.zeros(1, 3, dtype=torch.long))).data[0, 0].tolist()
        [0.0, 1.0]
    """

    like: Tensor

    def __init__(self, dim: int, field: Field, *, base: Positive = 10_000.0):
        super().__init__(dim, field)
        self.dim, self.base = dim, base
        # There is no parameter: this empty buffer is how the block follows the model into another precision.
        self.register_buffer("like", torch.empty(0), persistent=False)

    def forward(self, x: Seq) -> Seq:
        at_BT = x.positions()
        if "position" in x.marks:
            return x.with_data(self._waves(at_BT))
        table_TD = self._waves(torch.arange(x.width, device=at_BT.device))
        return x.with_data(F.embedding(at_BT, table_TD))

    def _waves(self, position: Tensor) -> Tensor:
        angle = angles(position, (self.dim + 1) // 2, self.base)
        return torch.cat([angle.sin(), angle.cos()], -1)[..., : self.dim].to(self.like.dtype)


@block("learned")
class LearnedPositionEmbedder(Embedder):
    """A learned vector for each position.

    p_t = P[t + offset]

    Gehring et al. 2017, https://arxiv.org/abs/1705.03122

    Args:
        length: Number of positions; None = the field's longest row, for a text with room for special ids.
        offset: Rows of the table before position 0 (published models keep some).

    Example:
        >>> import torch
        >>> from weft.core.fields import Field
        >>> LearnedPositionEmbedder(4, Field("text", 9), length=8)(Seq(torch.zeros(1, 3, dtype=torch.long))).data.shape
        torch.Size([1, 3, 4])
    """

    def __init__(self, dim: int, field: Field, *, length: Count | None = None, offset: Natural = 0):
        super().__init__(dim, field)
        room = len(Special.NAMES) if field.kind == "text" else 0
        self.length = field.max_length + room if length is None else length
        self.offset = offset
        # Variance 1, as the tokens' vectors have: smaller positions are drowned by them and learned late.
        self.weight = nn.Parameter(torch.empty(self.length + offset, dim))
        nn.init.normal_(self.weight)

    def forward(self, x: Seq) -> Seq:
        if "position" not in x.marks and x.width > self.length:
            raise ValueError(
                f"a row of {x.width} tokens, but there are {self.length} learned positions: lower the length of the data (marks "
                "around a text count too), or give positions that are not trained yet a larger length"
            )
        table_PD = self.weight[self.offset :] if self.offset else self.weight  # a position below 0 is none of those before it
        return x.with_data(lookup(table_PD, x.positions(), self._wrong))

    def _wrong(self, value: int, row: int, position: int) -> str:
        more = "; give a larger length" if value >= self.length else ", from 0"
        return f"token {position} of row {row} has position {value}, but there are {self.length} learned positions{more}"
