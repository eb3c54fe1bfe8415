"""Absolute position embeddings. Shape suffixes: P positions; others: see seq.py."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from weft.blocks.embedding.lookup import lookup
from weft.core.contracts import Embedder
from weft.core.fields import Field
from weft.core.options import Count, Natural, Positive
from weft.core.registry import block
from weft.core.seq import Seq


def angles(position: Tensor, size: int, base: float) -> Tensor:
    """position / base^(i / size) for i = 0 .. size - 1, in float32 for models of any precision."""
    return position[..., None] * frequencies(size, base, position.device)


def frequencies(size: int, base: float, device: torch.device) -> Tensor:
    """base^(-i / size) for i = 0 .. size - 1, in float32."""
    return base ** -(torch.arange(size, device=device, dtype=torch.float32) / max(size, 1))


@block("sinusoidal")
class SinusoidalPositionEmbedder(Embedder):
    """Fixed sinusoidal position embeddings.

    p_t = [sin(t w_0), sin(t w_1), ..., cos(t w_0), cos(t w_1), ...],  w_i = base^(-2 i / dim)

    Vaswani et al. 2017, https://arxiv.org/abs/1706.03762 (there with sines and cosines interleaved)

    Args:
        base: Base of the geometric sequence of frequencies.

    Example:
        >>> import torch
        >>> from weft.core.fields import TextField
        >>> SinusoidalPositionEmbedder(2, TextField("text", 9))(Seq(torch.zeros(1, 3, dtype=torch.long))).data[0, 0].tolist()
        [0.0, 1.0]
    """

    like: Tensor

    def __init__(self, dim: int, field: Field, *, base: Positive = 10_000.0):
        super().__init__(dim, field)
        self.dim, self.base = dim, base
        # Without parameters, an empty buffer tracks the dtype of the model.
        self.register_buffer("like", torch.empty(0), persistent=False)

    def forward(self, x: Seq) -> Seq:
        position_BT = x.positions()
        if "position" in x.marks:
            return x.with_data(self._embed(position_BT))
        table_TD = self._embed(torch.arange(x.width, device=position_BT.device))
        return x.with_data(F.embedding(position_BT, table_TD))

    def _embed(self, position: Tensor) -> Tensor:
        angle = angles(position, (self.dim + 1) // 2, self.base)
        return torch.cat([angle.sin(), angle.cos()], -1)[..., : self.dim].to(self.like.dtype)


@block("learned")
class LearnedPositionEmbedder(Embedder):
    """Learned absolute position embeddings.

    p_t = P[t + offset]

    Gehring et al. 2017, https://arxiv.org/abs/1705.03122

    Args:
        length: Number of positions; None = the maximum length of the field, plus special tokens for text.
        offset: Number of unused rows before position 0, as in RoBERTa and BART.

    Example:
        >>> import torch
        >>> from weft.core.fields import TextField
        >>> LearnedPositionEmbedder(4, TextField("text", 9), length=8)(Seq(torch.zeros(1, 3, dtype=torch.long))).data.shape
        torch.Size([1, 3, 4])
    """

    def __init__(self, dim: int, field: Field, *, length: Count | None = None, offset: Natural = 0):
        super().__init__(dim, field)
        self.length = field.positions if length is None else length
        self.offset = offset
        # Variance 1, like token embeddings: smaller position embeddings are dominated by them and learned late.
        self.weight = nn.Parameter(torch.empty(self.length + offset, dim))
        nn.init.normal_(self.weight)

    def forward(self, x: Seq) -> Seq:
        if "position" not in x.marks and x.width > self.length:
            raise ValueError(
                f"a sequence has {x.width} tokens, but there are {self.length} learned positions; lower max_length of the data "
                "(special tokens count too), or raise length of untrained position embeddings"
            )
        table_PD = (
            self.weight[self.offset :] if self.offset else self.weight
        )  # negative positions must not reach the rows before it
        return x.with_data(lookup(table_PD, x.positions(), self._out_of_range))

    def _out_of_range(self, value: int, row: int, position: int) -> str:
        fix = "raise length" if value >= self.length else f"positions are 0 to {self.length - 1}"
        return f"token {position} of row {row} has position {value}, but there are {self.length} learned positions; {fix}"
