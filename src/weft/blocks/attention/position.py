"""Relative positions inside attention: rotary embeddings and learned biases. Shape suffixes: see seq.py."""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from weft.blocks.embedding.position import frequencies
from weft.core.contracts import Position, RotaryScaling
from weft.core.options import Count, Fraction, Heads, Positive
from weft.core.registry import Build, block
from weft.core.seq import KV


@block("rotary")
class RotaryPosition(Position):
    """Rotary position embedding: rotates pairs of query and key features by an angle proportional to the position.

    (a, b) at t -> (a cos(t w_i) - b sin(t w_i), a sin(t w_i) + b cos(t w_i)),  w_i = base^(-2 i / K)

    The dot product of a query and a key then depends on their relative position. Feature i is paired with feature i + K / 2; if
    the head size K is odd, the last feature is not rotated.

    Su et al. 2021 (RoFormer), https://arxiv.org/abs/2104.09864

    Args:
        base: Base of the geometric sequence of frequencies.
        fraction: Fraction of the features of a head that are rotated, the first ones; then K is their number.
        scaling: Scaling of the frequencies for longer contexts than those of training; None = none.

    Example:
        >>> import torch
        >>> RotaryPosition(8).rotate(torch.ones(1, 1, 2, 4), torch.zeros(1, 2)).equal(torch.ones(1, 1, 2, 4))
        True
    """

    def __init__(
        self, dim: int, *, base: Positive = 10_000.0, fraction: Fraction = 1.0, scaling: Build[RotaryScaling] | None = None
    ):
        super().__init__(dim)
        self.base, self.fraction = base, fraction
        self.scaling = None if scaling is None else scaling()

    def rotate(self, x_BHTK: Tensor, position_BT: Tensor) -> Tensor:
        size = x_BHTK.shape[-1]
        half = int(size * self.fraction) // 2
        frequency_k, amplitude = frequencies(half, self.base, x_BHTK.device), 1.0
        if self.scaling is not None:
            frequency_k, amplitude = self.scaling.scale(frequency_k, self.base), self.scaling.amplitude
        angle_B1Tk = (position_BT[..., None] * frequency_k).unsqueeze(1)
        cos, sin = ((amplitude * part).to(x_BHTK.dtype) for part in (angle_B1Tk.cos(), angle_B1Tk.sin()))
        if 2 * half < size:
            return torch.cat([self._rotate_even(x_BHTK[..., : 2 * half], cos, sin), x_BHTK[..., 2 * half :]], -1)
        return self._rotate_even(x_BHTK, cos, sin)

    def _rotate_even(self, x_BHTK: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
        # (a, b) (cos, cos) + (b, a) (-sin, sin): fewer passes over x, forward and backward, than slicing its halves.
        swapped_BHTK = x_BHTK.roll(x_BHTK.shape[-1] // 2, -1)
        return torch.addcmul(x_BHTK * torch.cat([cos, cos], -1), swapped_BHTK, torch.cat([-sin, sin], -1))


@block("relative-bias")
class RelativePositionBias(Position):
    """Relative position bias: a learned scalar per head and bucket of relative positions, added to the attention scores.

    score_h += b_h[bucket(s - t)]

    Half of the buckets hold one distance each. The sizes of the others grow logarithmically up to ``max_distance``; all larger
    distances share the last bucket. With ``bidirectional``, half of all buckets are for keys after the query.

    Raffel et al. 2020 (T5), section 2.1, https://arxiv.org/abs/1910.10683

    Args:
        heads: Number of heads of every self-attention in the stack, or 1 for a bias that all heads share.
        buckets: Number of buckets.
        max_distance: Distance from which all relative positions share a bucket.
        bidirectional: Whether keys after the query have buckets of their own; if not, they share the bucket of distance 0.

    Example:
        >>> import torch
        >>> RelativePositionBias(8, heads=2).bias(torch.tensor([[0, 1]]), torch.tensor([[0, 1, 2]])).shape
        torch.Size([1, 2, 2, 3])
    """

    def __init__(self, dim: int, *, heads: Heads = 4, buckets: Count = 32, max_distance: Count = 128, bidirectional: bool = True):
        super().__init__(dim)
        minimum = 4 if bidirectional else 2
        if buckets < minimum:
            raise ValueError(f"buckets is {buckets}, but must be at least {minimum} to separate near and far positions")
        self.heads, self.buckets, self.max_distance, self.bidirectional = heads, buckets, max_distance, bidirectional
        self.weight = nn.Parameter(torch.zeros(buckets, heads))

    def bucket(self, offset: Tensor) -> Tensor:
        """The bucket of each relative position s - t."""
        size = self.buckets // 2 if self.bidirectional else self.buckets
        first = (offset > 0).long() * size if self.bidirectional else torch.zeros_like(offset)
        distance = offset.abs() if self.bidirectional else (-offset).clamp(min=0)
        near = size // 2
        growth = torch.log(distance.clamp(min=1).float() / near) / math.log(max(self.max_distance, near + 1) / near)
        far = (near + (growth * (size - near)).long()).clamp(max=size - 1)
        return first + torch.where(distance < near, distance, far)

    def bias(self, query_BT: Tensor, key_BS: Tensor) -> Tensor:
        offset_BTS = key_BS[:, None, :] - query_BT[:, :, None]
        return F.embedding(self.bucket(offset_BTS), self.weight).permute(0, 3, 1, 2)

    def at(self, position_BT: Tensor, past: KV | None) -> Position:
        if past is None and position_BT.stride(0) == 0:  # all rows have the same positions
            position_BT = position_BT[:1]
        key_BS = position_BT if past is None else torch.cat([past.position, position_BT], 1)
        return _PrecomputedBias(self.bias(position_BT, key_BS))


class _PrecomputedBias(Position):
    """A bias that was computed once for all layers of a forward pass."""

    dense = True

    def __init__(self, bias_BHTS: Tensor):
        super().__init__(0)
        self.bias_BHTS = bias_BHTS

    def bias(self, query_BT: Tensor, key_BS: Tensor) -> Tensor:
        return self.bias_BHTS


@block("alibi")
class ALiBi(Position):
    """Attention with linear biases: lowers the attention scores of a head in proportion to the distance between query and key.

    score_h += -m_h |t - s|,  m_h = 2^(-8 h / H) for h = 1 to H

    If H is not a power of two, with P the largest power of two below it, the first P slopes are those of P heads, and the others
    are every other slope of 2 P heads, from the first. Nothing is learned, and the distances have no upper bound.

    Press et al. 2022, https://arxiv.org/abs/2108.12409

    Args:
        heads: Number of heads H of every self-attention in the stack.

    Example:
        >>> import torch
        >>> ALiBi(8, heads=2).bias(torch.tensor([[2]]), torch.tensor([[0, 1, 2]])).tolist()
        [[[[-0.125, -0.0625, 0.0]], [[-0.0078125, -0.00390625, 0.0]]]]
    """

    def __init__(self, dim: int, *, heads: Heads = 4):
        super().__init__(dim)
        self.heads = heads
        power = 1 << (heads.bit_length() - 1)
        between = [2 ** (-8 * h / (2 * power)) for h in range(1, 2 * power, 2)]
        self.slopes = [2 ** (-8 * h / power) for h in range(1, power + 1)] + between[: heads - power]

    def bias(self, query_BT: Tensor, key_BS: Tensor) -> Tensor:
        distance_B1TS = (key_BS[:, None, :] - query_BT[:, :, None]).abs()[:, None]
        return -distance_B1TS * torch.tensor(self.slopes, device=key_BS.device)[:, None, None]
