"""Linear attention. Shape suffixes: Q chunks, C positions of a chunk, V size of a value and a one; others: see seq.py."""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from weft.blocks.activation import ELUPlusOne
from weft.blocks.linear import Linear
from weft.core.contracts import Activation, Mixed, Mixer, Position
from weft.core.masks import Causal, Full, Mask
from weft.core.options import Heads
from weft.core.registry import Build, block
from weft.core.seq import Seq

CHUNK = 64
"""Positions of a chunk: quadratic attention inside, sums of earlier chunks outside."""
MIN_NORMALIZER = 1e-6
"""Lower bound of the normalizer, which is zero for a query without keys."""


@dataclass(frozen=True)
class KeyValueSums:
    """State of linear attention: sum_s phi(k_s) [v_s, 1]^T over the tokens so far, B x H x K x V."""

    sum_BHKV: Tensor

    def select(self, rows: Tensor) -> KeyValueSums:
        return KeyValueSums(self.sum_BHKV[rows])


@block("linear-attention")
class LinearAttention(Mixer):
    """Linear attention: attention weights are dot products of feature maps, so that time and memory are linear in the length.

    y_t = Wo [head_1; ...; head_H],  head_h = (S^T phi(q_t)) / (z . phi(q_t)),  S = sum_s phi(k_s) v_s^T,  z = sum_s phi(k_s)

    Under the mask Causal, the sums are over s <= t. They are computed in chunks: attention inside a chunk, and sums of earlier
    chunks. Incremental decoding keeps S and z, whose size does not depend on the length.

    A position encoding rotates phi(q) and phi(k) in S only, so that the normalizer stays positive (Su et al. 2021, section 3.3,
    https://arxiv.org/abs/2104.09864). Biases of attention scores cannot be applied: there are no scores.

    Katharopoulos et al. 2020, https://arxiv.org/abs/2006.16236

    Args:
        heads: Number of heads H.
        feature_map: The function phi; must not be negative.
        bias: Whether the query, key, value and output projections have a bias.

    Example:
        >>> LinearAttention(8, heads=2)(Seq(torch.ones(2, 3, 8)), Causal()).hidden.data.shape
        torch.Size([2, 3, 8])
    """

    supported_masks = (Full, Causal)

    def __init__(self, dim: int, *, heads: Heads = 4, feature_map: Build[Activation] = ELUPlusOne, bias: bool = True):
        super().__init__(dim)
        if dim % heads:
            raise ValueError(f"dim {dim} is not divisible by {heads} heads; change dim or heads")
        self.feature_map, self.splits = feature_map(), heads
        if not self.feature_map.nonnegative:
            name = type(self.feature_map).__name__
            raise ValueError(f"feature_map is {name}, which can be negative; use elu-plus-one, relu or sigmoid")
        self.query, self.key = Linear(dim, dim, bias), Linear(dim, dim, bias)
        self.value, self.out = Linear(dim, dim, bias), Linear(dim, dim, bias)

    def forward(self, x: Seq, mask: Mask, position: Position | None = None, past: KeyValueSums | None = None) -> Mixed:
        self.check_mask(mask)
        real_BT1 = None if x.mask is None else x.mask[..., None]
        x_BTD = x.data if real_BT1 is None else x.data.masked_fill(~real_BT1, 0.0)
        query_BHTK, key_BHTK = (self._split(self.feature_map(f(x_BTD))) for f in (self.query, self.key))
        if real_BT1 is not None:
            key_BHTK = key_BHTK.masked_fill(~real_BT1[:, None], 0.0)
        value_BHTK = self._split(self.value(x_BTD))
        one_BHT1 = torch.ones_like(value_BHTK[..., :1])
        sums = _causal_sums if isinstance(mask, Causal) else _full_sums
        before_BHKV = None if past is None else past.sum_BHKV
        if position is None:
            y_BHTV, sum_BHKV = sums(query_BHTK, key_BHTK, torch.cat([value_BHTK, one_BHT1], -1), before_BHKV)
        else:
            at_BT = x.positions()
            if position.bias(at_BT[:, :1], at_BT[:, :1]) is not None:
                raise ValueError("LinearAttention cannot add a bias to attention scores; use the position rotary, or null")
            turned_query, turned_key = position.rotate(query_BHTK, at_BT), position.rotate(key_BHTK, at_BT)
            total = sums(turned_query, turned_key, value_BHTK, None if before_BHKV is None else before_BHKV[..., :-1])
            normalizer = sums(query_BHTK, key_BHTK, one_BHT1, None if before_BHKV is None else before_BHKV[..., -1:])
            y_BHTV, sum_BHKV = (torch.cat(pair, -1) for pair in zip(total, normalizer, strict=True))
        head_BHTK = (y_BHTV[..., :-1] / y_BHTV[..., -1:].clamp(min=MIN_NORMALIZER)).to(x.data.dtype)
        return Mixed(x.with_data(self.out(head_BHTK.transpose(1, 2).flatten(2))), KeyValueSums(sum_BHKV))

    def _split(self, x_BTD: Tensor) -> Tensor:
        x_BHTK = x_BTD.unflatten(-1, (self.splits, -1)).transpose(1, 2)
        return x_BHTK.to(torch.promote_types(x_BHTK.dtype, torch.float32))  # sums over a long sequence need the precision


def _full_sums(query_BHTK: Tensor, key_BHTK: Tensor, value_BHTV: Tensor, before: Tensor | None) -> tuple[Tensor, Tensor]:
    """sum_s (q_t . k_s) v_s for each query, over all keys, and sum_s k_s v_s^T."""
    sum_BHKV = key_BHTK.mT @ value_BHTV
    sum_BHKV = sum_BHKV if before is None else before + sum_BHKV
    return query_BHTK @ sum_BHKV, sum_BHKV


def _causal_sums(query_BHTK: Tensor, key_BHTK: Tensor, value_BHTV: Tensor, before: Tensor | None) -> tuple[Tensor, Tensor]:
    """sum_{s <= t} (q_t . k_s) v_s for each query, in O(T), and sum_s k_s v_s^T."""
    length = query_BHTK.shape[2]
    chunk = min(CHUNK, max(length, 1))
    padding = (0, 0, 0, -length % chunk)
    query, key, value = (F.pad(z, padding).unflatten(2, (-1, chunk)) for z in (query_BHTK, key_BHTK, value_BHTV))
    sum_BHQKV = (key.mT @ value).cumsum(2)
    start_BHKV = torch.zeros_like(sum_BHQKV[:, :, 0]) if before is None else before
    earlier_BHQKV = torch.cat([start_BHKV[:, :, None], start_BHKV[:, :, None] + sum_BHQKV], 2)
    y_BHQCV = (query @ key.mT).tril() @ value + query @ earlier_BHQKV[:, :, :-1]
    return y_BHQCV.flatten(2, 3)[:, :, :length], earlier_BHQKV[:, :, -1]
