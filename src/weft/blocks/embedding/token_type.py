"""Token-type (segment) embeddings. Shape suffixes: see seq.py."""

from __future__ import annotations

import torch
from torch import nn

from weft.blocks.embedding.lookup import lookup
from weft.core.contracts import Embedder
from weft.core.fields import Field
from weft.core.options import Count
from weft.core.registry import block
from weft.core.seq import Seq


@block("token-type")
class TokenTypeEmbedder(Embedder):
    """Learned token-type embeddings, such as the segment embeddings of BERT.

    x_t = E[type_t]; sequences without the annotation have type 0

    Devlin et al. 2019 (BERT), https://arxiv.org/abs/1810.04805

    Args:
        mark: Name of the annotation (mark of ``Seq``) that holds the token types.
        size: Number of token types.

    Example:
        >>> import torch
        >>> from weft.core.fields import TextField
        >>> TokenTypeEmbedder(4, TextField("text", 9))(Seq(torch.tensor([[3, 8]]))).data.shape
        torch.Size([1, 2, 4])
    """

    def __init__(self, dim: int, field: Field, *, mark: str = "segment", size: Count = 2):
        super().__init__(dim, field)
        self.mark = mark
        self.weight = nn.Parameter(torch.empty(size, dim))
        nn.init.normal_(self.weight, std=dim**-0.5)

    def forward(self, x: Seq) -> Seq:
        if self.mark not in x.marks:
            return x.with_data(self.weight[0].expand(x.rows, x.width, -1))
        return x.with_data(lookup(self.weight, x.marks[self.mark], self._out_of_range))

    def _out_of_range(self, value: int, row: int, position: int) -> str:
        last = len(self.weight) - 1
        return f"{self.mark} {value} (row {row}, position {position}) is out of range; values are 0 to {last}"
