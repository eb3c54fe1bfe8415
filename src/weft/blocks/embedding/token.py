"""Token embeddings. Shape suffixes: see seq.py."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from weft.blocks.embedding.lookup import lookup
from weft.core.contracts import Embedder
from weft.core.fields import Field
from weft.core.options import Positive
from weft.core.registry import block
from weft.core.seq import Seq


@block("token")
class TokenEmbedder(Embedder):
    """Learned token embeddings; for soft ids (distributions over the vocabulary), their expectation.

    x_t = scale E[id_t],  or x_t = scale sum_v p_tv E[v] for soft ids p

    The embedding matrix E is initialized with variance 1 / dim, so that a tied head gives logits of variance 1, and the default
    scale gives embeddings of variance 1.

    Vaswani et al. 2017, section 3.4, https://arxiv.org/abs/1706.03762

    Args:
        scale: Factor of the embeddings; None = sqrt(dim).

    Example:
        >>> import torch
        >>> from weft.core.fields import TextField
        >>> TokenEmbedder(4, TextField("text", 9))(Seq(torch.tensor([[3, 8]]))).data.shape
        torch.Size([1, 2, 4])
    """

    def __init__(self, dim: int, field: Field, *, scale: Positive | None = None):
        super().__init__(dim, field)
        self.scale = dim**0.5 if scale is None else scale
        self.weight = nn.Parameter(torch.empty(field.outputs, dim))
        nn.init.normal_(self.weight, std=dim**-0.5)

    def forward(self, x: Seq) -> Seq:
        return x.with_data(_vectors(x, self.weight) * self.scale)

    def table(self) -> Tensor:
        return self.weight


@block("shared-token")
class SharedTokenEmbedder(Embedder):
    """Token embeddings shared with another embedder, such as those of encoder and decoder in BART.

    x_t = scale E[id_t], with E the embedding matrix of the other embedder

    The embedders share E, but may have their own position embeddings.

    Lewis et al. 2020 (BART), https://arxiv.org/abs/1910.13461

    Args:
        scale: Factor of the embeddings; None = sqrt(dim).

    Example:
        >>> import torch
        >>> from weft.core.fields import TextField
        >>> shared = SharedTokenEmbedder(4, TextField("target", 9))
        >>> shared.share(TokenEmbedder(4, TextField("source", 9)))
        >>> shared(Seq(torch.tensor([[3, 8]]))).data.shape
        torch.Size([1, 2, 4])
    """

    def __init__(self, dim: int, field: Field, *, scale: Positive | None = None):
        super().__init__(dim, field)
        self.scale = dim**0.5 if scale is None else scale
        self._of: tuple[Embedder, ...] = ()  # in a tuple, so that it is not registered (and saved) again

    def share(self, other: Embedder) -> None:
        self._of = (other,)

    def forward(self, x: Seq) -> Seq:
        return x.with_data(_vectors(x, self.table()) * self.scale)

    def table(self) -> Tensor:
        if not self._of:
            raise ValueError(
                "shared-token has no embedding matrix to share; use it for the second embedder of a structure such as seq2seq"
            )
        return self._of[0].table()


def _vectors(x: Seq, table_VD: Tensor) -> Tensor:
    if not x.data.is_floating_point():
        last = len(table_VD) - 1
        return lookup(
            table_VD,
            x.data,
            lambda index, row, position: f"id {index} (row {row}, position {position}) is out of range; ids are 0 to {last}",
        )
    if x.data.shape[-1] != len(table_VD):
        raise ValueError(f"soft ids have {x.data.shape[-1]} entries, but the vocabulary has {len(table_VD)} ids")
    return x.data.to(table_VD.dtype) @ table_VD
