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
from weft.core.contracts import Score

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


def _recorders() -> tuple[Recorder, ...]:
    return () if torch.compiler.is_compiling() else _RECORDERS.get()  # reading a context variable breaks the graph


def is_recording() -> bool:
    """Whether attention weights are recorded, so that kernels must compute them all."""
    return bool(_recorders())


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
) -> Tensor:
    """softmax(score(q, k) + bias) v over the allowed keys. The output of a query without allowed keys is zero.

    Args:
        query_BHTK: Queries.
        key_BHSK: Keys, prepared by the score; with fewer heads than the queries, consecutive queries share a head.
        value_BHSK: Values; their size may differ from that of the keys.
        score: Alignment score between a query and a key.
        owner: The attention module, passed to recorders.
        allow: Boolean attention mask, True = attend; broadcastable to B x H x T x S. None = all keys.
        bias: Added to the scores; broadcastable to B x H x T x S.
        causal: Query t attends to keys 0 to t (T = S), like a lower triangular ``allow``, but kernels need no mask for it.
        dropout: Dropout probability of the attention weights; 0 outside of training.
    """
    recorders = _recorders()
    # torch has no fast CPU kernel with dropout: there, separate operations with our own dropout masks are faster.
    fused = score.scale is not None and not recorders and not (dropout and is_eager_cpu(query_BHTK))
    if causal and (bias is not None or not fused):
        shape = query_BHTK.shape[-2], key_BHSK.shape[-2]
        allow = torch.ones(shape, dtype=torch.bool, device=query_BHTK.device).tril()
        causal = False
    if key_BHSK.shape[1] != query_BHTK.shape[1]:
        key_BHSK, value_BHSK = _repeat_heads(key_BHSK, query_BHTK), _repeat_heads(value_BHSK, query_BHTK)
    allow, empty = _without_empty_rows(allow)
    if fused:
        out_BHTK = F.scaled_dot_product_attention(
            query_BHTK,
            key_BHSK,
            value_BHSK,
            attn_mask=_additive_mask(allow, bias, query_BHTK.dtype),
            dropout_p=dropout,
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
    return apply_dropout(weight_BHTS, dropout) @ value_BHSK


def _repeat_heads(x_BGSK: Tensor, query_BHTK: Tensor) -> Tensor:
    """Keys or values with the heads of the queries, each head repeated."""
    times = query_BHTK.shape[1] // x_BGSK.shape[1]
    return x_BGSK[:, :, None].expand(-1, -1, times, -1, -1).flatten(1, 2)


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
