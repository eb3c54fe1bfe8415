"""Where a token stands: as a vector added to it, or inside attention. Suffixes: see seq.py."""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from weft.blocks.embedding.lookup import look_up
from weft.core.contracts import Embedder, Position
from weft.core.fields import Field, Special
from weft.core.options import Count, Heads, Natural, Positive
from weft.core.registry import block
from weft.core.seq import KV, Seq


def _angles(position: Tensor, size: int, base: float) -> Tensor:
    """position / base^(i / size) for i = 0 .. size - 1, in single precision whatever the model is in."""
    rate = base ** -(torch.arange(size, device=position.device, dtype=torch.float32) / max(size, 1))
    return position[..., None] * rate


@block("sinusoidal")
class Sinusoidal(Embedder):
    """Fixed waves of the position, from fast to slow.

    p_t = [sin(t w_0), sin(t w_1), ..., cos(t w_0), cos(t w_1), ...],  w_i = base^(-2 i / dim)

    Vaswani et al. 2017, https://arxiv.org/abs/1706.03762 (who interleave the sines and cosines; a permutation of these)

    Args:
        base: How much slower the slowest wave is.

    Example:
        >>> import torch
        >>> from weft.core.fields import Field
        >>> Sinusoidal(2, Field("text", 9))(Seq(torch.zeros(1, 3, dtype=torch.long))).data[0, 0].tolist()
        [0.0, 1.0]
    """

    like: Tensor

    def __init__(self, dim: int, field: Field, *, base: Positive = 10_000.0):
        super().__init__(dim, field)
        self.dim, self.base = dim, base
        # There is no parameter: this empty buffer is how the block follows the model into another precision.
        self.register_buffer("like", torch.empty(0), persistent=False)

    def forward(self, x: Seq) -> Seq:
        at_BT = x.positions()
        if "position" in x.marks:
            return x.with_data(self._waves(at_BT))
        table_TD = self._waves(torch.arange(x.width, device=at_BT.device))
        return x.with_data(F.embedding(at_BT, table_TD))

    def _waves(self, position: Tensor) -> Tensor:
        angle = _angles(position, (self.dim + 1) // 2, self.base)
        return torch.cat([angle.sin(), angle.cos()], -1)[..., : self.dim].to(self.like.dtype)


@block("learned")
class Learned(Embedder):
    """A learned vector for each position.

    p_t = P[t + offset]

    Gehring et al. 2017, https://arxiv.org/abs/1705.03122

    Args:
        length: Number of positions; None = the field's longest row, for a text with room for special ids.
        offset: Rows of the table before position 0 (published models keep some).

    Example:
        >>> import torch
        >>> from weft.core.fields import Field
        >>> Learned(4, Field("text", 9), length=8)(Seq(torch.zeros(1, 3, dtype=torch.long))).data.shape
        torch.Size([1, 3, 4])
    """

    def __init__(self, dim: int, field: Field, *, length: Count | None = None, offset: Natural = 0):
        super().__init__(dim, field)
        room = len(Special.NAMES) if field.kind == "text" else 0
        self.length = field.max_length + room if length is None else length
        self.offset = offset
        # Variance 1, as the tokens' vectors have: smaller positions are drowned by them and learned late.
        self.weight = nn.Parameter(torch.empty(self.length + offset, dim))
        nn.init.normal_(self.weight)

    def forward(self, x: Seq) -> Seq:
        if "position" not in x.marks and x.width > self.length:
            raise ValueError(
                f"a row of {x.width} tokens, but there are {self.length} learned positions: lower the length of the data (marks "
                "around a text count too), or give positions that are not trained yet a larger length"
            )
        table_PD = self.weight[self.offset :] if self.offset else self.weight  # a position below 0 is none of those before it
        return x.with_data(look_up(table_PD, x.positions(), self._wrong))

    def _wrong(self, value: int, row: int, position: int) -> str:
        more = "; give a larger length" if value >= self.length else ", from 0"
        return f"token {position} of row {row} has position {value}, but there are {self.length} learned positions{more}"


@block("rotary")
class Rotary(Position):
    """Turns pairs of a query's and a key's numbers by an angle that grows with the position.

    (a, b) at t -> (a cos(t w_i) - b sin(t w_i), a sin(t w_i) + b cos(t w_i)),  w_i = base^(-2 i / K)

    The inner product of a query and a key then depends on how far apart they are. The pairs are the two halves of a head;
    of an odd width the last number is left alone.

    Su et al. 2021 (RoFormer), https://arxiv.org/abs/2104.09864

    Args:
        base: How much slower the slowest pair turns.

    Example:
        >>> import torch
        >>> Rotary(8).rotate(torch.ones(1, 1, 2, 4), torch.zeros(1, 2)).equal(torch.ones(1, 1, 2, 4))
        True
    """

    def __init__(self, dim: int, *, base: Positive = 10_000.0):
        super().__init__(dim)
        self.base = base

    def rotate(self, x_BHTK: Tensor, position_BT: Tensor) -> Tensor:
        half = x_BHTK.shape[-1] // 2
        angle_B1Tk = _angles(position_BT, half, self.base).unsqueeze(1)
        cos, sin = angle_B1Tk.cos().to(x_BHTK.dtype), angle_B1Tk.sin().to(x_BHTK.dtype)
        if x_BHTK.shape[-1] % 2:
            return torch.cat([self._turn(x_BHTK[..., :-1], cos, sin), x_BHTK[..., -1:]], -1)
        return self._turn(x_BHTK, cos, sin)

    def _turn(self, x_BHTK: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
        # (a, b) (cos, cos) + (b, a) (-sin, sin): fewer passes over x, forward and backward, than with halves cut out of it.
        swapped_BHTK = x_BHTK.roll(x_BHTK.shape[-1] // 2, -1)
        return torch.addcmul(x_BHTK * torch.cat([cos, cos], -1), swapped_BHTK, torch.cat([-sin, sin], -1))


@block("relative-bias")
class RelativeBias(Position):
    """A learned number for how far a key is from a query, one per head, added to the score.

    score_h += b_h[bucket(s - t)]

    Half of the buckets stand for one distance each; the others grow with the logarithm of the distance, up to ``distance``, and
    all that is farther shares the last. With ``both``, half of all buckets are for keys after the query.

    Raffel et al. 2020 (T5), section 2.1, https://arxiv.org/abs/1910.10683

    Args:
        heads: Heads of every attention in the stack.
        buckets: How many distances are told apart.
        distance: From here on, distances are alike.
        both: Whether keys after the query are told apart from those before it; without, they count as near.

    Example:
        >>> import torch
        >>> RelativeBias(8, heads=2).bias(torch.tensor([[0, 1]]), torch.tensor([[0, 1, 2]])).shape
        torch.Size([1, 2, 2, 3])
    """

    def __init__(self, dim: int, *, heads: Heads = 4, buckets: Count = 32, distance: Count = 128, both: bool = True):
        super().__init__(dim)
        if buckets < (4 if both else 2):
            raise ValueError(f"{buckets} buckets are too few to tell near from far: give at least {4 if both else 2}")
        self.heads, self.buckets, self.distance, self.both = heads, buckets, distance, both
        self.weight = nn.Parameter(torch.zeros(buckets, heads))

    def bucket(self, offset: Tensor) -> Tensor:
        """The bucket of each offset s - t."""
        size = self.buckets // 2 if self.both else self.buckets
        first = (offset > 0).long() * size if self.both else torch.zeros_like(offset)
        apart = offset.abs() if self.both else (-offset).clamp(min=0)
        near = size // 2
        growth = torch.log(apart.clamp(min=1).float() / near) / math.log(max(self.distance, near + 1) / near)
        far = (near + (growth * (size - near)).long()).clamp(max=size - 1)
        return first + torch.where(apart < near, apart, far)

    def bias(self, query_BT: Tensor, key_BS: Tensor) -> Tensor:
        offset_BTS = key_BS[:, None, :] - query_BT[:, :, None]
        return F.embedding(self.bucket(offset_BTS), self.weight).permute(0, 3, 1, 2)

    def at(self, position_BT: Tensor, past: KV | None) -> Position:
        if past is None and position_BT.stride(0) == 0:  # all rows have the same positions
            position_BT = position_BT[:1]
        key_BS = position_BT if past is None else torch.cat([past.position, position_BT], 1)
        return _Biased(self.bias(position_BT, key_BS))


class _Biased(Position):
    """Positions of one pass whose bias is known."""

    def __init__(self, bias_BHTS: Tensor):
        super().__init__(0)
        self.known_BHTS = bias_BHTS

    def bias(self, query_BT: Tensor, key_BS: Tensor) -> Tensor:
        return self.known_BHTS
