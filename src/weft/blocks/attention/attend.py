"""Softmax attention: the one function that computes it for all modules, and a hook to record its weights.

Shape suffixes: see seq.py.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from weft.blocks.dropout import dropout as apply_dropout
from weft.blocks.dropout import is_eager_cpu
from weft.core.contracts import Attention, Position, Score
from weft.core.masks import Causal, Mask
from weft.core.seq import KV, Seq

Recorder = Callable[[nn.Module, Tensor], None]
"""Called with the attention module and its weights, B x H x T x S, before dropout."""

_RECORDERS: ContextVar[tuple[Recorder, ...]] = ContextVar("recorders", default=())


@contextmanager
def record_attention(recorder: Recorder) -> Iterator[None]:
    """Call ``recorder`` with the exact weights of every attention inside the context; fused kernels are bypassed there."""
    token = _RECORDERS.set((*_RECORDERS.get(), recorder))
    try:
        yield
    finally:
        _RECORDERS.reset(token)


def attend(
    query_BHTK: Tensor,
    key_BHSK: Tensor,
    value_BHSK: Tensor,
    score: Score,
    *,
    owner: nn.Module,
    allow: Tensor | None = None,
    bias: Tensor | None = None,
    causal: bool = False,
    dropout: float = 0.0,
    training: bool = False,
) -> Tensor:
    """softmax(score(q, k) + bias) v over the allowed keys. The output of a query without allowed keys is zero.

    Args:
        query_BHTK: Queries.
        key_BHSK: Keys, prepared by the score.
        value_BHSK: Values; their size may differ from that of the keys.
        score: Alignment score between a query and a key.
        owner: The attention module, passed to recorders.
        allow: Boolean attention mask, True = attend; broadcastable to B x H x T x S. None = all keys.
        bias: Added to the scores; broadcastable to B x H x T x S.
        causal: Query t attends to keys 0 to t (T = S), like a lower triangular ``allow``, but kernels need no mask for it.
        dropout: Dropout probability of the attention weights.
        training: Whether dropout is applied.
    """
    recorders = () if torch.compiler.is_compiling() else _RECORDERS.get()  # reading a context variable breaks the graph
    rate = dropout if training else 0.0
    # torch has no fast CPU kernel with dropout: there, separate operations with our own dropout masks are faster.
    fused = score.scale is not None and not recorders and not (rate and is_eager_cpu(query_BHTK))
    if causal and (bias is not None or not fused):
        shape = query_BHTK.shape[-2], key_BHSK.shape[-2]
        allow = torch.ones(shape, dtype=torch.bool, device=query_BHTK.device).tril()
        causal = False
    allow, empty = _without_empty_rows(allow)
    if fused:
        out_BHTK = F.scaled_dot_product_attention(
            query_BHTK,
            key_BHSK,
            value_BHSK,
            attn_mask=_additive_mask(allow, bias, query_BHTK.dtype),
            dropout_p=rate,
            is_causal=causal,
            scale=score.scale,
        )
        return out_BHTK if empty is None else out_BHTK.masked_fill(empty, 0.0)
    score_BHTS = score(query_BHTK, key_BHSK)
    if bias is not None:
        score_BHTS = score_BHTS + bias
    if allow is not None:
        score_BHTS = score_BHTS.masked_fill(~allow, -torch.inf)
    weight_BHTS = score_BHTS.softmax(-1).to(value_BHSK.dtype)
    if empty is not None:
        weight_BHTS = weight_BHTS.masked_fill(empty, 0.0)
    for recorder in recorders:
        recorder(owner, weight_BHTS)
    return apply_dropout(weight_BHTS, rate) @ value_BHSK


def _without_empty_rows(allow: Tensor | None) -> tuple[Tensor | None, Tensor | None]:
    """The mask with all keys allowed for queries that have none (their softmax would be NaN), and which queries those are."""
    if allow is None:
        return None, None
    visible = allow.any(-1, keepdim=True)
    if is_eager_cpu(visible) and bool(visible.all()):
        return allow, None
    empty = ~visible
    return allow | empty, empty


def _additive_mask(allow: Tensor | None, bias: Tensor | None, dtype: torch.dtype) -> Tensor | None:
    """Mask and bias as one ``attn_mask`` of torch's fused kernels."""
    if bias is None:
        return allow
    bias = bias.to(dtype)
    return bias if allow is None else bias.masked_fill(~allow, -torch.inf)


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
    """``attend`` for padded sequences: ``position`` rotates queries and adds a bias, ``mask`` and padding restrict the keys."""
    bias = None
    if position is not None:
        query_BHTK = position.rotate(query_BHTK, query.positions())
        bias = position.bias(query.positions(), kv.position)
    causal = _is_triangular(query, kv, mask)
    allow = None if causal else attention_mask(query, kv, mask)
    return attend(
        query_BHTK,
        kv.key,
        kv.value,
        score,
        owner=owner,
        allow=allow,
        bias=bias,
        causal=causal,
        dropout=dropout,
        training=owner.training,
    )


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
