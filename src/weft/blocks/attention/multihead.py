"""Multi-head attention. Shape suffixes: see seq.py."""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor

from weft.blocks.attention.score import ScaledDotScore
from weft.blocks.attention.sequence import attend_sequence
from weft.blocks.linear import Linear, joint_products
from weft.core.contracts import Attention, Mixed, Position, Score
from weft.core.masks import Mask
from weft.core.options import Dim, Dropout, Heads
from weft.core.registry import Build, block
from weft.core.seq import KV, Seq


@block("multihead")
class MultiHeadAttention(Attention):
    """Multi-head attention, by default with scaled dot-product scores.

    y = Wo [head_1; ...; head_H],  head_h = sum_s softmax_s(score(Wq_h x, Wk_h m_s)) Wv_h m_s

    Vaswani et al. 2017, https://arxiv.org/abs/1706.03762; grouped queries: Ainslie et al. 2023, https://arxiv.org/abs/2305.13245

    Args:
        heads: Number of heads H.
        head_dim: Size of each head; None = dim / heads.
        kv_heads: Number of heads of keys and values, each shared by heads / kv_heads query heads: grouped-query attention, with 1
            multi-query attention; None = heads.
        tied: Projections with the same weights: of queries and keys, or of queries, keys and values.
        score: Alignment score between a query and a key of a head.
        bias: Whether the query, key and value projections have a bias.
        out_bias: Whether the output projection has a bias; None = as bias.
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
        kv_heads: Heads | None = None,
        tied: Literal["none", "query-key", "query-key-value"] = "none",
        score: Build[Score] = ScaledDotScore,
        bias: bool = True,
        out_bias: bool | None = None,
        dropout: Dropout = 0.0,
    ):
        memory = dim if memory is None else memory
        super().__init__(dim, memory)
        if head_dim is None and dim % heads:
            raise ValueError(f"dim {dim} is not divisible by {heads} heads; change dim or heads, or set head_dim")
        head_dim = dim // heads if head_dim is None else head_dim
        kv_heads = heads if kv_heads is None else kv_heads
        if heads % kv_heads:
            raise ValueError(f"heads is {heads}, but must be a multiple of kv_heads, which is {kv_heads}")
        if tied != "none" and (memory != dim or kv_heads != heads):
            raise ValueError(
                f"tied is {tied}, which needs keys with the size and the number of heads of the queries, but they have size "
                f"{memory} instead of {dim} and {kv_heads} heads instead of {heads}; set tied to none"
            )
        self.heads, self.kv_heads, self.dropout = heads, kv_heads, dropout
        self.query = Linear(dim, heads * head_dim, bias)
        self.key = Linear(memory, kv_heads * head_dim, bias) if tied == "none" else None
        self.value = Linear(memory, kv_heads * head_dim, bias) if tied != "query-key-value" else None
        self.out = Linear(heads * head_dim, dim, bias if out_bias is None else out_bias)
        self.score = score(head_dim, head_dim)

    def project(self, memory: Seq, position: Position | None = None) -> KV:
        key_BSD, value_BSD = (self.key or self.query)(memory.data), (self.value or self.query)(memory.data)
        return self._keys_and_values(memory, key_BSD, value_BSD, position)

    def _keys_and_values(self, memory: Seq, key_BSD: Tensor, value_BSD: Tensor, position: Position | None) -> KV:
        position_BS = memory.positions()
        key_BGSK, value_BGSK = self._split(key_BSD, self.kv_heads), self._split(value_BSD, self.kv_heads)
        if position is not None:
            key_BGSK = position.rotate(key_BGSK, position_BS)
        return KV(self.score.prepare(key_BGSK, position_BS), value_BGSK, memory.mask, position_BS)

    def as_kv(self, x_BSD: Tensor) -> KV:
        head_dim = self.query.out_features // self.heads
        if x_BSD.shape[-1] != self.kv_heads * head_dim:
            raise ValueError(
                f"vectors of size {x_BSD.shape[-1]} cannot be keys and values of {self.kv_heads} heads of size {head_dim}; leave "
                "head_dim and kv_heads unset"
            )
        x_BHSK = self._split(x_BSD, self.kv_heads)
        position_BS = torch.zeros(x_BSD.shape[:2], dtype=torch.long, device=x_BSD.device)
        return KV(self.score.prepare(x_BHSK, position_BS), x_BHSK, None, position_BS)

    def forward(self, query: Seq, kv: KV, mask: Mask, position: Position | None = None) -> Seq:
        return self._attend(self.query(query.data), query, kv, mask, position)

    def mix(self, x: Seq, mask: Mask, position: Position | None, past: KV | None) -> Mixed:
        joint = None
        if type(self) is MultiHeadAttention and self.key is not None and self.value is not None:
            joint = joint_products(x.data, [self.query, self.key, self.value], self)
        if joint is None:
            return super().mix(x, mask, position, past)
        query_BTD, key_BTD, value_BTD = joint
        kv = self._keys_and_values(x, key_BTD, value_BTD, position)
        kv = kv if past is None else past.join(kv)
        return Mixed(self._attend(query_BTD, x, kv, mask, position), kv)

    def _attend(self, query_BTD: Tensor, query: Seq, kv: KV, mask: Mask, position: Position | None) -> Seq:
        query_BHTK = self._split(query_BTD, self.heads)
        out_BHTK = attend_sequence(self, self.score, query_BHTK, query, kv, mask, position, self.dropout)
        return query.with_data(self.out(out_BHTK.transpose(1, 2).flatten(2)))

    @staticmethod
    def _split(x_BTD: Tensor, heads: int) -> Tensor:
        return x_BTD.unflatten(-1, (heads, -1)).transpose(1, 2)
