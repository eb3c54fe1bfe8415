"""Multi-head attention. Shape suffixes: see seq.py."""

from __future__ import annotations

import torch
from torch import Tensor

from weft.blocks.attention.attend import attend_sequence
from weft.blocks.attention.score import ScaledDotScore
from weft.blocks.linear import Linear
from weft.core.contracts import Attention, Position, Score
from weft.core.masks import Mask
from weft.core.options import Dim, Dropout, Heads
from weft.core.registry import Build, block
from weft.core.seq import KV, Seq


@block("multihead")
class MultiHeadAttention(Attention):
    """Multi-head attention, by default with scaled dot-product scores.

    y = Wo [head_1; ...; head_H],  head_h = sum_s softmax_s(score(Wq_h x, Wk_h m_s)) Wv_h m_s

    Vaswani et al. 2017, https://arxiv.org/abs/1706.03762

    Args:
        heads: Number of heads H.
        head_dim: Size of each head; None = dim / heads.
        score: Alignment score between a query and a key of a head.
        bias: Whether the query, key, value and output projections have a bias.
        dropout: Dropout probability of the attention weights.

    Example:
        >>> import torch
        >>> from weft.core.masks import Causal
        >>> x, attention = Seq(torch.ones(2, 3, 8)), MultiHeadAttention(8, 8, heads=2)
        >>> attention(x, attention.project(x), Causal()).data.shape
        torch.Size([2, 3, 8])
    """

    def __init__(
        self,
        dim: int,
        memory: int | None = None,
        *,
        heads: Heads = 4,
        head_dim: Dim | None = None,
        score: Build[Score] = ScaledDotScore,
        bias: bool = True,
        dropout: Dropout = 0.0,
    ):
        memory = dim if memory is None else memory
        super().__init__(dim, memory)
        if head_dim is None and dim % heads:
            raise ValueError(f"dim {dim} is not divisible by {heads} heads; change dim or heads, or set head_dim")
        head_dim = dim // heads if head_dim is None else head_dim
        self.heads, self.dropout = heads, dropout
        self.query = Linear(dim, heads * head_dim, bias)
        self.key = Linear(memory, heads * head_dim, bias)
        self.value = Linear(memory, heads * head_dim, bias)
        self.out = Linear(heads * head_dim, dim, bias)
        self.score = score(head_dim, head_dim)

    def project(self, memory: Seq, position: Position | None = None) -> KV:
        position_BS = memory.positions()
        key_BHSK = self._split(self.key(memory.data))
        if position is not None:
            key_BHSK = position.rotate(key_BHSK, position_BS)
        return KV(self.score.prepare(key_BHSK), self._split(self.value(memory.data)), memory.mask, position_BS)

    def as_kv(self, x_BSD: Tensor) -> KV:
        if x_BSD.shape[-1] != self.value.out_features:
            raise ValueError(
                f"vectors of size {x_BSD.shape[-1]} cannot be keys and values of {self.heads} heads of size "
                f"{self.value.out_features // self.heads}; leave head_dim unset"
            )
        x_BHSK = self._split(x_BSD)
        return KV(self.score.prepare(x_BHSK), x_BHSK, None, torch.zeros(x_BSD.shape[:2], dtype=torch.long, device=x_BSD.device))

    def forward(self, query: Seq, kv: KV, mask: Mask, position: Position | None = None) -> Seq:
        query_BHTK = self._split(self.query(query.data))
        out_BHTK = attend_sequence(self, self.score, query_BHTK, query, kv, mask, position, self.dropout)
        return query.with_data(self.out(out_BHTK.transpose(1, 2).flatten(2)))

    def _split(self, x_BTD: Tensor) -> Tensor:
        return x_BTD.unflatten(-1, (self.heads, -1)).transpose(1, 2)
