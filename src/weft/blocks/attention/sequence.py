"""Attention between padded sequences, under masks. Shape suffixes: N blocks of queries; others: see seq.py."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from weft.blocks.attention.attend import attend, is_recording
from weft.core.contracts import Attention, Position, Score
from weft.core.masks import UNBOUNDED, Causal, Locality, Mask
from weft.core.seq import KV, Seq

_BLOCK = 64
"""Smallest number of queries that are computed together where a mask allows only nearby keys."""


def attend_sequence(
    owner: Attention,
    score: Score,
    query_BHTK: Tensor,
    query: Seq,
    kv: KV,
    mask: Mask,
    position: Position | None,
    dropout: float,
) -> Tensor:
    """``attend`` for padded sequences: ``position`` rotates queries and adds a bias, ``mask`` and padding restrict the keys.

    A mask that allows only nearby keys costs O(T reach) time and memory.
    """
    dropout = dropout if owner.training else 0.0
    if position is not None:
        query_BHTK = position.rotate(query_BHTK, query.positions())
    near = None if is_recording() else _nearby(query, kv, mask, position)
    if near is not None:
        return _attend_nearby(owner, score, query_BHTK, query, kv, mask, position, dropout, near)
    bias = None if position is None else position.bias(query.positions(), kv.position)
    causal = _is_triangular(query, kv, mask)
    allow = None if causal else attention_mask(query, kv, mask)
    return attend(query_BHTK, kv.key, kv.value, score, owner=owner, allow=allow, bias=bias, causal=causal, dropout=dropout)


def attention_mask(query: Seq, kv: KV, mask: Mask) -> Tensor | None:
    """Boolean mask of the keys that ``mask`` allows and that are not padding: B x 1 x (T or 1) x S; None for all keys."""
    allow_BTS = mask.allow(query.positions(), kv.position)
    real_B11S = None if kv.mask is None else kv.mask[:, None, None]
    if allow_BTS is None:
        return real_B11S
    return allow_BTS[:, None] if real_B11S is None else allow_BTS[:, None] & real_B11S


def _is_triangular(query: Seq, kv: KV, mask: Mask) -> bool:
    """Whether the attention mask is known to be lower triangular without reading tensor values."""
    consecutive = query.mask is None and kv.mask is None and "position" not in query.marks
    return type(mask) is Causal and consecutive and kv.width == query.width


# ------------------------------------------------------------------------------------------------------------ nearby keys


def _nearby(query: Seq, kv: KV, mask: Mask, position: Position | None) -> Locality | None:
    """The bound on distances, if the mask has one that saves work and the indices of queries and keys are their positions.

    Where real positions are consecutive, distances between them are those between indices, whatever the side of the padding.
    Where the first positions are exempt, their indices must be known, so padding must be on the right.
    """
    near = mask.locality()
    if near is None or near.back >= UNBOUNDED or near.ahead >= UNBOUNDED:
        return None
    if kv.width != query.width or "position" in query.marks or (position is not None and position.dense):
        return None
    if query.width <= 2 * (near.first + near.back + near.ahead + _BLOCK):
        return None
    if kv.mask is None:
        return near
    if torch.compiler.is_compiling():  # what follows depends on the values of the mask
        return None
    starts_BS = kv.mask & ~F.pad(kv.mask[:, :-1], (1, 0))
    known = bool(kv.mask[:, 0].all()) if near.first else True
    return near if known and bool((starts_BS.sum(1) <= 1).all()) else None


def _attend_nearby(
    owner: Attention,
    score: Score,
    query_BHTK: Tensor,
    query: Seq,
    kv: KV,
    mask: Mask,
    position: Position | None,
    dropout: float,
    near: Locality,
) -> Tensor:
    """Attention of blocks of queries to the keys around each block, and to the first keys of the sequence."""
    rows, heads, width, _ = query_BHTK.shape
    back, ahead, first = near.back, near.ahead, near.first
    size = max(_BLOCK, (back + ahead) // 2)
    blocks = -(-width // size)
    edges = (back, blocks * size - width + ahead)

    def around(x_BGSK: Tensor) -> Tensor:
        """B H x N x (first + keys around a block) x K."""
        repeated_BHSK = x_BGSK.repeat_interleave(heads // x_BGSK.shape[1], 1).flatten(0, 1)
        near_BNSK = F.pad(repeated_BHSK, (0, 0, *edges)).unfold(1, size + back + ahead, size).transpose(-1, -2)
        return torch.cat([repeated_BHSK[:, None, :first].expand(-1, blocks, -1, -1), near_BNSK], 2) if first else near_BNSK

    def split(x_BS: Tensor) -> Tensor:
        """B N x (first + keys around a block), of values for each key."""
        near_BNS = F.pad(x_BS, edges).unfold(1, size + back + ahead, size)
        return torch.cat([x_BS[:, None, :first].expand(-1, blocks, -1), near_BNS], 2).flatten(0, 1)

    same = query.mask is None and kv.mask is None  # all rows have the same positions
    at_BT, real_BS = query.positions()[: 1 if same else None], kv.real()[: 1 if same else None]
    query_at = F.pad(at_BT, (0, blocks * size - width)).unflatten(1, (blocks, size)).flatten(0, 1)
    key_at = split(at_BT)
    allow = split(real_BS)[:, None, :]
    if first:  # a first key that is also near counts once
        index = split(torch.arange(width, device=at_BT.device).expand_as(at_BT))
        again = (index < first) & (torch.arange(index.shape[1], device=index.device) >= first)
        allow = allow & ~again[:, None, :]
    if (allowed := mask.allow(query_at, key_at)) is not None:
        allow = allow & allowed
    allow_BNTS = allow.expand(-1, size, -1).unflatten(0, (-1, blocks))
    bias = None
    if position is not None and (bias_NHTS := position.bias(query_at, key_at)) is not None:
        bias = bias_NHTS.unflatten(0, (-1, blocks)).transpose(1, 2).expand(rows, heads, -1, -1, -1).flatten(0, 1)
    query_BNTK = F.pad(query_BHTK, (0, 0, 0, blocks * size - width)).unflatten(2, (blocks, size)).flatten(0, 1)
    out_BNTK = attend(
        query_BNTK,
        around(kv.key),
        around(kv.value),
        score,
        owner=owner,
        allow=allow_BNTS if same else allow_BNTS.repeat_interleave(heads, 0),
        bias=bias,
        dropout=dropout,
    )
    out_BHTK = out_BNTK.flatten(1, 2)[:, :width].unflatten(0, (rows, heads))
    if not first:
        return out_BHTK
    start_BHTK = _attend_first(owner, score, query_BHTK[:, :, :first], query, kv, mask, position, dropout)
    return torch.cat([start_BHTK, out_BHTK[:, :, first:]], 2)


def _attend_first(
    owner: Attention,
    score: Score,
    query_BHTK: Tensor,
    query: Seq,
    kv: KV,
    mask: Mask,
    position: Position | None,
    dropout: float,
) -> Tensor:
    """Attention of the first queries of a sequence to all keys."""
    first = query_BHTK.shape[2]
    start = Seq(query.data[:, :first], None if query.mask is None else query.mask[:, :first])
    bias = None if position is None else position.bias(start.positions(), kv.position)
    allow = attention_mask(start, kv, mask)
    return attend(query_BHTK, kv.key, kv.value, score, owner=owner, allow=allow, bias=bias, dropout=dropout)
