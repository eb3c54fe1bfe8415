"""n -> 1: one vector from many. Padding on either side is never read; a row of nothing but padding gives zeros.

Suffixes: see seq.py.
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
    """The vector of the first real token.

    y = transform(h_1)

    Devlin et al. 2019 (BERT), https://arxiv.org/abs/1810.04805

    Args:
        transform: A map of that vector; None = none.

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
            place_T = torch.arange(x.width, 0, -1, device=x.data.device)
            first_BD = _at(x, (x.mask * place_T).argmax(1))
        return first_BD if self.transform is None else self.transform(first_BD)


@block("last")
class LastPooler(Pooler):
    """The vector of the last real token.

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
        place_T = torch.arange(1, x.width + 1, device=x.data.device)
        return _at(x, (x.mask * place_T).argmax(1))


@block("mean")
class MeanPooler(Pooler):
    """The average of the real tokens' vectors.

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
    """The largest of the real tokens' numbers, in each place of the vector.

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
        most_BD = x.data.masked_fill(~x.mask[..., None], -torch.inf).amax(1)
        return most_BD.masked_fill(~x.mask.any(1, keepdim=True), 0.0)


@block("position-concat")
class PositionConcatPooler(Pooler):
    """The real tokens' vectors one after another, through one dense map: each place of the text has weights of its own.

    y = sum_t W_place(t) h_t + b

    The order of the tokens is not lost, as it is in a mean, and need not be carried along, as in the last vector. A token's place
    is its number or, where the data says which word it is of (the mark ``word``), that word's: the tokens of a word stand at one
    place, and those around the text at the first.

    Words bound to places: Smolensky 1990 (tensor products), https://doi.org/10.1016/0004-3702(90)90007-M

    Args:
        positions: Most tokens of a text, begin and end among them; or most words and 1.

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
        place_BT = x.marks["word"] if by_word else x.real().cumsum(1) - 1
        if (x.width > self.positions or by_word) and (most := self._places(x, place_BT)) > self.positions:
            what = f"{most - 1} words" if by_word else f"{most} tokens"
            raise ValueError(
                f"the text has {what}, but position-concat has {self.positions} positions; raise positions, or lower the "
                "max_length of the data"
            )
        within_BT = (place_BT >= 0) & (place_BT < self.positions) & x.real()
        at_BTD = place_BT.clamp(0, self.positions - 1)[..., None].expand_as(x.data)
        data_BTD = x.data.masked_fill(~within_BT[..., None], 0.0)
        placed_BLD = data_BTD.new_zeros(len(data_BTD), self.positions, data_BTD.shape[-1]).scatter_add(1, at_BTD, data_BTD)
        return self.out(placed_BLD.flatten(1))

    def _places(self, x: Seq, place_BT: Tensor) -> int:
        """How many are needed."""
        if x.data.is_meta:
            return 0 if "word" in x.marks else x.width
        return int(place_BT.masked_fill(~x.real(), -1).max()) + 1


MEAN_AND_MAX: list[Build[Pooler]] = [MeanPooler, MaxPooler]


@block("concat")
class ConcatPooler(Pooler):
    """Several poolers side by side, brought back to the width by a dense map.

    y = W [p_1(h); p_2(h); ...] + b

    Howard and Ruder 2018 (ULMFiT), https://arxiv.org/abs/1801.06146

    Args:
        parts: The poolers.

    Example:
        >>> import torch
        >>> ConcatPooler(4, parts=[LastPooler, MeanPooler, MaxPooler])(Seq(torch.ones(2, 3, 4))).shape
        torch.Size([2, 4])
    """

    def __init__(self, dim: int, *, parts: list[Build[Pooler]] = MEAN_AND_MAX):
        super().__init__(dim)
        if not parts:
            raise ValueError("0 poolers give no vector; give at least one part, such as mean")
        self.parts = nn.ModuleList([part(dim) for part in parts])
        self.out = Linear(len(parts) * dim, dim)

    def forward(self, x: Seq) -> Tensor:
        return self.out(torch.cat([part(x) for part in self.parts], -1))


def _at(x: Seq, index_B: Tensor) -> Tensor:
    """The vector at one position of each row; zeros for a row without a real token."""
    chosen_BD = x.data.gather(1, index_B[:, None, None].expand(-1, 1, x.data.shape[-1])).squeeze(1)
    return chosen_BD.masked_fill(~x.real().any(1, keepdim=True), 0.0)
