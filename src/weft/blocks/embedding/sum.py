"""Sum of several embedders. Shape suffixes: see seq.py."""

from __future__ import annotations

from contextlib import suppress
from typing import cast

from torch import Tensor, nn

from weft.blocks.dense import Dense
from weft.blocks.dropout import DropoutLayer
from weft.blocks.embedding.token import TokenEmbedder
from weft.core.contracts import Embedder, Norm, Transform
from weft.core.fields import Field
from weft.core.options import Dim, Dropout
from weft.core.registry import Build, block
from weft.core.seq import Seq

TOKEN_ALONE: list[Build[Embedder]] = [TokenEmbedder]


@block("sum")
class SumEmbedder(Embedder):
    """Sum of several embedders, such as token and position embeddings, with optional normalization, dropout and projection.

    x_t = project(dropout(norm(part_1(t) + part_2(t) + ...)))

    Factorized embeddings (parts smaller than dim): Lan et al. 2020 (ALBERT), https://arxiv.org/abs/1909.11942

    Args:
        parts: Embedders to add; a tied head uses the first one with token embeddings.
        norm: Normalization of the sum; None = none.
        dropout: Dropout probability of the sum.
        embedding_dim: Size of the parts; None = dim.
        project: Projection from embedding_dim to dim; None = a linear layer if they differ.

    Example:
        >>> import torch
        >>> from weft.core.fields import TextField
        >>> from weft.blocks.embedding.position import SinusoidalPositionEmbedder
        >>> embedder = SumEmbedder(4, TextField("text", 9), parts=[TokenEmbedder, SinusoidalPositionEmbedder])
        >>> embedder(Seq(torch.tensor([[3, 8]]))).data.shape
        torch.Size([1, 2, 4])
    """

    images = True

    def __init__(
        self,
        dim: int,
        field: Field,
        *,
        parts: list[Build[Embedder]] = TOKEN_ALONE,
        norm: Build[Norm] | None = None,
        dropout: Dropout = 0.0,
        embedding_dim: Dim | None = None,
        project: Build[Transform] | None = None,
    ):
        super().__init__(dim, field)
        if not parts:
            raise ValueError("parts is empty, but sum needs at least one embedder, such as token")
        embedding_dim = dim if embedding_dim is None else embedding_dim
        self.parts = nn.ModuleList([part(embedding_dim, field) for part in parts])
        self.norm = None if norm is None else norm(embedding_dim)
        self.project = (project or Dense)(embedding_dim, dim) if project is not None or embedding_dim != dim else None
        self.drop = DropoutLayer(dropout)

    def forward(self, x: Seq) -> Seq:
        total_BTD: Tensor = self.parts[0](x).data
        for part in list(self.parts)[1:]:
            total_BTD = total_BTD + part(x).data
        if self.norm is not None:
            total_BTD = self.norm(total_BTD)
        total_BTD = self.drop(total_BTD)
        return x.with_data(total_BTD if self.project is None else self.project(total_BTD))

    def share(self, other: Embedder) -> None:
        for part in self.parts:
            cast(Embedder, part).share(other)

    def table(self) -> Tensor:
        for part in self.parts:
            with suppress(ValueError):
                return cast(Embedder, part).table()
        return super().table()
