"""Single-head attention over a memory, as in recurrent decoders. Shape suffixes: see seq.py."""

from __future__ import annotations

from weft.blocks.activation import Identity
from weft.blocks.attention.score import AdditiveScore
from weft.blocks.attention.sequence import attend_sequence
from weft.blocks.linear import Linear
from weft.core.contracts import Attention, Position, Score
from weft.core.masks import Mask
from weft.core.options import Dropout
from weft.core.registry import Build, block
from weft.core.seq import KV, Seq


@block("alignment")
class AlignmentAttention(Attention):
    """Single-head attention without query, key and value projections: only the score has parameters.

    c_t = sum_s softmax_s(score(q_t, m_s)) m_s

    Where the size of the memory differs from that of the queries, a linear layer projects c to the size of the queries.

    Bahdanau et al. 2015, https://arxiv.org/abs/1409.0473; Luong et al. 2015, https://arxiv.org/abs/1508.04025

    Args:
        score: Alignment score between a query and a memory vector.
        dropout: Dropout probability of the attention weights.

    Example:
        >>> import torch
        >>> from weft.core.masks import Full
        >>> attention, memory = AlignmentAttention(8, 8), Seq(torch.ones(2, 5, 8))
        >>> attention(Seq(torch.ones(2, 3, 8)), attention.project(memory), Full()).data.shape
        torch.Size([2, 3, 8])
    """

    heads = 1

    def __init__(self, dim: int, memory: int | None = None, *, score: Build[Score] = AdditiveScore, dropout: Dropout = 0.0):
        memory = dim if memory is None else memory
        super().__init__(dim, memory)
        self.score, self.dropout = score(dim, memory), dropout
        self.out = Identity() if memory == dim else Linear(memory, dim)

    def project(self, memory: Seq, position: Position | None = None) -> KV:
        position_BS, value_B1SD = memory.positions(), memory.data.unsqueeze(1)
        key_B1SD = value_B1SD if position is None else position.rotate(value_B1SD, position_BS)
        return KV(self.score.prepare(key_B1SD, position_BS), value_B1SD, memory.mask, position_BS)

    def forward(self, query: Seq, kv: KV, mask: Mask, position: Position | None = None) -> Seq:
        out_B1TD = attend_sequence(self, self.score, query.data.unsqueeze(1), query, kv, mask, position, self.dropout)
        return query.with_data(self.out(out_B1TD.squeeze(1)))
