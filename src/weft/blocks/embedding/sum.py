"""Several embedders as one. Suffixes: see seq.py."""

from __future__ import annotations

from contextlib import suppress
from typing import cast

from torch import Tensor, nn

from weft.blocks.dense import Dense
from weft.blocks.dropout import Drop
from weft.blocks.embedding.token import Token
from weft.core.contracts import Embedder, Norm, Transform
from weft.core.fields import Field
from weft.core.options import Dim, Dropout
from weft.core.registry import Build, block
from weft.core.seq import Seq

TOKEN_ALONE: list[Build[Embedder]] = [Token]


@block("sum")
class Sum(Embedder):
    """Adds what several embedders say about a token: which it is, where it stands.

    x_t = project(dropout(norm(part_1(t) + part_2(t) + ...)))

    Narrower parts that are projected: Lan et al. 2020 (ALBERT), https://arxiv.org/abs/1909.11942

    Args:
        parts: The embedders that are added; a head is tied to the first that has a table of tokens.
        norm: Normalisation of the sum; None = none.
        dropout: Share of the result that training zeroes.
        width: Width of the parts; None = that of the result.
        project: The map from the parts' width to that of the result; None = a dense one where the widths differ.

    Example:
        >>> import torch
        >>> from weft.core.fields import Field
        >>> from weft.blocks.attention.position import Sinusoidal
        >>> Sum(4, Field("text", 9), parts=[Token, Sinusoidal])(Seq(torch.tensor([[3, 8]]))).data.shape
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
        width: Dim | None = None,
        project: Build[Transform] | None = None,
    ):
        super().__init__(dim, field)
        if not parts:
            raise ValueError("a sum of 0 parts has no vectors; give at least one part, such as token")
        width = dim if width is None else width
        self.parts = nn.ModuleList([part(width, field) for part in parts])
        self.norm = None if norm is None else norm(width)
        self.project = (project or Dense)(width, dim) if project is not None or width != dim else None
        self.drop = Drop(dropout)

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
