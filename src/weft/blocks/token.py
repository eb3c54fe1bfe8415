"""A vector per symbol. Suffixes: see seq.py."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from weft.batch import Field
from weft.catalog import block
from weft.choices import Positive
from weft.seq import Seq
from weft.slots import Embedder


@block("token")
class Token(Embedder):
    """A learned vector for each symbol; of soft ids, the average by their weights.

    x_t = scale E[id_t]   or   x_t = scale sum_v p_tv E[v]

    The table starts with variance 1 / dim: a head tied to it then gives logits of variance 1, and the default scale gives
    vectors of variance 1.

    Vaswani et al. 2017, section 3.4, https://arxiv.org/abs/1706.03762

    Args:
        scale: What vectors are multiplied by; None = sqrt(dim).

    Example:
        >>> import torch
        >>> from weft.batch import Field
        >>> Token(4, Field("text", 9))(Seq(torch.tensor([[3, 8]]))).data.shape
        torch.Size([1, 2, 4])
    """

    def __init__(self, dim: int, field: Field, *, scale: Positive | None = None):
        super().__init__(dim, field)
        self.scale = dim**0.5 if scale is None else scale
        self.weight = nn.Parameter(torch.empty(field.vocab, dim))
        nn.init.normal_(self.weight, std=dim**-0.5)

    def forward(self, x: Seq) -> Seq:
        if x.data.is_floating_point():
            vocab = self.weight.shape[0]
            if x.data.shape[-1] != vocab:
                raise ValueError(f"soft ids over {x.data.shape[-1]} symbols, but there are {vocab}")
            vector_BTD = x.data.to(self.weight.dtype) @ self.weight
        else:
            vector_BTD = F.embedding(x.data, self.weight)
        return x.with_data(vector_BTD * self.scale)

    def table(self) -> Tensor:
        return self.weight
