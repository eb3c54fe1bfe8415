"""Pooling of a sequence into one vector. Padding on either side is ignored; a row of padding only gives zeros.

Shape suffixes: see seq.py.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from weft.blocks.linear import Linear
from weft.core.contracts import Pooler, Transform
from weft.core.options import Count
from weft.core.registry import Build, block
from weft.core.seq import Seq


@block("first")
class FirstPooler(Pooler):
    """Hidden state of the first token, such as [CLS], with an optional transform.

    y = transform(h_1)

    Devlin et al. 2019 (BERT), https://arxiv.org/abs/1810.04805

    Args:
        transform: Transform of the hidden state, such as dense with tanh; None = none.

    Example:
        >>> import torch
        >>> FirstPooler(1)(Seq(torch.tensor([[[1.0], [2.0]]]))).item()
        1.0
    """

    def __init__(self, dim: int, *, transform: Build[Transform] | None = None):
        super().__init__(dim)
        self.transform = None if transform is None else transform(dim, dim)

    def forward(self, x: Seq) -> Tensor:
        if x.mask is None:
            first_BD = x.data[:, 0]
        else:
            descending_T = torch.arange(x.width, 0, -1, device=x.data.device)
            first_BD = _at(x, (x.mask * descending_T).argmax(1))
        return first_BD if self.transform is None else self.transform(first_BD)


@block("last")
class LastPooler(Pooler):
    """Hidden state of the last token.

    y = h_T

    Sutskever et al. 2014, https://arxiv.org/abs/1409.3215

    Example:
        >>> import torch
        >>> LastPooler(1)(Seq(torch.tensor([[[1.0], [2.0]]]))).item()
        2.0
    """

    def forward(self, x: Seq) -> Tensor:
        if x.mask is None:
            return x.data[:, -1]
        ascending_T = torch.arange(1, x.width + 1, device=x.data.device)
        return _at(x, (x.mask * ascending_T).argmax(1))


@block("mean")
class MeanPooler(Pooler):
    """Mean of the hidden states.

    y = 1/T sum_t h_t

    Example:
        >>> import torch
        >>> MeanPooler(1)(Seq(torch.tensor([[[1.0], [2.0]]]))).item()
        1.5
    """

    def forward(self, x: Seq) -> Tensor:
        if x.mask is None:
            return x.data.mean(1)
        total_BD = x.data.masked_fill(~x.mask[..., None], 0.0).sum(1)
        return total_BD / x.lengths()[:, None].clamp(min=1).to(total_BD.dtype)


@block("max")
class MaxPooler(Pooler):
    """Element-wise maximum of the hidden states over time.

    y_d = max_t h_td

    Collobert et al. 2011, https://arxiv.org/abs/1103.0398

    Example:
        >>> import torch
        >>> MaxPooler(1)(Seq(torch.tensor([[[1.0], [2.0]]]))).item()
        2.0
    """

    def forward(self, x: Seq) -> Tensor:
        if x.mask is None:
            return x.data.amax(1)
        max_BD = x.data.masked_fill(~x.mask[..., None], -torch.inf).amax(1)
        return max_BD.masked_fill(~x.mask.any(1, keepdim=True), 0.0)


@block("position-concat")
class PositionConcatPooler(Pooler):
    """Concatenation of all hidden states, followed by a linear layer: each position has its own weights.

    y = sum_t W_p(t) h_t + b, with p(t) the position of token t

    Unlike mean pooling this preserves the order of the tokens, and unlike the last hidden state it needs no recurrence to carry
    them. The position of a token is its index, or the index of its word where the data provides one (mark ``word``): subword
    tokens of a word then share a position, and special tokens have position 0.

    Binding by tensor products: Smolensky 1990, https://doi.org/10.1016/0004-3702(90)90007-M

    Args:
        positions: Maximum number of tokens, BOS and EOS included; with word positions, maximum number of words plus 1.

    Example:
        >>> import torch
        >>> PositionConcatPooler(4, positions=16)(Seq(torch.ones(2, 3, 4))).shape
        torch.Size([2, 4])
    """

    def __init__(self, dim: int, *, positions: Count = 32):
        super().__init__(dim)
        self.positions = positions
        self.out = Linear(positions * dim, dim)

    def forward(self, x: Seq) -> Tensor:
        by_word = "word" in x.marks
        position_BT = x.marks["word"] if by_word else x.real().cumsum(1) - 1
        if (x.width > self.positions or by_word) and (needed := self._needed(x, position_BT)) > self.positions:
            found = f"{needed - 1} words" if by_word else f"{needed} tokens"
            raise ValueError(
                f"the text has {found}, but position-concat has {self.positions} positions; raise positions, or lower the "
                "max_length of the data"
            )
        valid_BT = (position_BT >= 0) & (position_BT < self.positions) & x.real()
        index_BTD = position_BT.clamp(0, self.positions - 1)[..., None].expand_as(x.data)
        data_BTD = x.data.masked_fill(~valid_BT[..., None], 0.0)
        grid_BLD = data_BTD.new_zeros(len(data_BTD), self.positions, data_BTD.shape[-1]).scatter_add(1, index_BTD, data_BTD)
        return self.out(grid_BLD.flatten(1))

    def _needed(self, x: Seq, position_BT: Tensor) -> int:
        """Number of positions that the longest row needs."""
        if x.data.is_meta:
            return 0 if "word" in x.marks else x.width
        return int(position_BT.masked_fill(~x.real(), -1).max()) + 1


MEAN_AND_MAX: list[Build[Pooler]] = [MeanPooler, MaxPooler]


@block("concat")
class ConcatPooler(Pooler):
    """Concatenation of several poolers, projected back to the hidden size.

    y = W [p_1(h); p_2(h); ...] + b

    Howard and Ruder 2018 (ULMFiT), https://arxiv.org/abs/1801.06146

    Args:
        parts: Poolers to concatenate.

    Example:
        >>> import torch
        >>> ConcatPooler(4, parts=[LastPooler, MeanPooler, MaxPooler])(Seq(torch.ones(2, 3, 4))).shape
        torch.Size([2, 4])
    """

    def __init__(self, dim: int, *, parts: list[Build[Pooler]] = MEAN_AND_MAX):
        super().__init__(dim)
        if not parts:
            raise ValueError("parts is empty, but concat needs at least one pooler, such as mean")
        self.parts = nn.ModuleList([part(dim) for part in parts])
        self.out = Linear(len(parts) * dim, dim)

    def forward(self, x: Seq) -> Tensor:
        return self.out(torch.cat([part(x) for part in self.parts], -1))


def _at(x: Seq, index_B: Tensor) -> Tensor:
    """The hidden state at one position of each row; zeros for rows of padding only."""
    chosen_BD = x.data.gather(1, index_B[:, None, None].expand(-1, 1, x.data.shape[-1])).squeeze(1)
    return chosen_BD.masked_fill(~x.real().any(1, keepdim=True), 0.0)
